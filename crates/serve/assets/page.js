// Pages work without this script. With it, the queue follows what happens, and a plan is checked while it is written.
"use strict";

function follow(place) {
  const SILENT_MS = 20000; // The server sends an event every 15 s at least.
  const state = document.getElementById("live-state");
  const events = new EventSource(place.dataset.events);
  let waiting = null, timer = 0, trouble = "";
  // Says whether the page shows this moment; one that does not is marked.
  const mark = () => {
    const why = trouble || (waiting === null ? "" : "Not updated while text is selected.");
    place.classList.toggle("stale", why !== "");
    if (state) state.textContent = why || "Live";
  };
  const fail = (why) => { trouble = why; mark(); };
  const hear = () => {
    clearTimeout(timer);
    timer = setTimeout(() => fail("No news for 20 s: reload the page."), SILENT_MS);
    trouble = "";
    mark();
  };
  // A field or an open part that has the focus keeps it: the page is replaced when the reader has left it.
  const show = () => {
    if (waiting === null) return;
    // Text that the reader selects stays as it is until the selection is gone.
    const selection = getSelection();
    if (selection && !selection.isCollapsed && place.contains(selection.anchorNode)) return;
    const open = [...place.querySelectorAll("details")].map((part) => part.open);
    const active = document.activeElement;
    const focused = place.contains(active) ? [...place.querySelectorAll("a,button,summary,pre,[tabindex]")].indexOf(active) : -1;
    const scrolled = [...place.querySelectorAll(".scroll")].map((part) => part.scrollLeft);
    place.innerHTML = waiting;
    waiting = null;
    place.querySelectorAll("details").forEach((part, i) => { part.open = open[i] ?? part.open; });
    place.querySelectorAll(".scroll").forEach((part, i) => { part.scrollLeft = scrolled[i] ?? 0; });
    if (focused >= 0) place.querySelectorAll("a,button,summary,pre,[tabindex]")[focused]?.focus({ preventScroll: true });
  };
  events.addEventListener("now", (event) => {
    waiting = JSON.parse(event.data).html;
    show();
    hear();
  });
  events.addEventListener("alive", hear);
  document.addEventListener("selectionchange", () => { if (waiting !== null) { show(); mark(); } });
  // After an answer other than 200, such as to a session that is over, a browser does not try again.
  events.addEventListener("error", () => {
    clearTimeout(timer);
    fail(events.readyState === EventSource.CLOSED ? "Disconnected: reload the page." : "Not connected; retrying.");
  });
  timer = setTimeout(() => fail("No news for 20 s: reload the page."), SILENT_MS);
}

function checkWhileTyping(area) {
  const told = document.getElementById("problems");
  let timer = 0, latest = 0;
  const line = (parent, tag, text) => parent.appendChild(Object.assign(document.createElement(tag), { textContent: text }));
  const check = async () => {
    const mine = ++latest;
    if (area.value.trim() === "") { told.replaceChildren(); return; }
    const answer = await fetch(area.dataset.check, {
      method: "POST", headers: { "content-type": "application/toml" }, body: area.value,
    }).catch(() => null);
    if (mine !== latest || answer === null) return;
    const found = await answer.json().catch(() => null);
    if (mine !== latest || found === null) return;
    told.replaceChildren();
    if (found.error) { line(told, "p", found.error).className = "bad"; return; }
    if (found.problems.length === 0) {
      line(told, "p", found.summary).className = "good";
      if (found.commands.length > 0) {
        const part = told.appendChild(document.createElement("details"));
        line(part, "summary", "What it runs");
        const list = part.appendChild(document.createElement("ul"));
        found.commands.forEach((command) => line(list.appendChild(document.createElement("li")), "code", command));
      }
      return;
    }
    const list = told.appendChild(document.createElement("ul"));
    list.className = "bad";
    found.problems.forEach((p) => line(list, "li", p.line ? `${p.line}:${p.column}: ${p.text}` : p.text));
  };
  area.addEventListener("input", () => { clearTimeout(timer); timer = setTimeout(check, 700); });
  area.addEventListener("dragover", (event) => { event.preventDefault(); area.classList.add("dropping"); });
  area.addEventListener("dragleave", () => area.classList.remove("dropping"));
  area.addEventListener("drop", async (event) => {
    area.classList.remove("dropping");
    const file = event.dataTransfer.files[0];
    if (!file) return;
    event.preventDefault();
    area.value = await file.text();
    check();
  });
}

const live = document.querySelector("[data-events]");
if (live) follow(live);
const area = document.querySelector("[data-check]");
if (area) checkWhileTyping(area);
