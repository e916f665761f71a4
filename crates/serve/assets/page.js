// Pages work without this script. With it, the queue follows what happens, and a plan is checked while it is written.
"use strict";

const FOCUSABLE = "a,button,summary,pre,[tabindex]";

// Tells a part of the live page from every other, also after others were added or removed: where it leads, or its name.
function keyOf(part) {
  const own = part.form?.getAttribute("action") ?? part.getAttribute("href") ?? part.dataset.key ?? part.getAttribute("aria-label") ?? part.id;
  const around = part.parentElement?.closest("[data-key]")?.dataset.key ?? "";
  return `${part.localName} ${around} ${own}`;
}

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
    const open = new Map([...place.querySelectorAll("details")].map((part) => [keyOf(part), part.open]));
    const active = document.activeElement;
    const key = active !== place && place.contains(active) ? keyOf(active) : null;
    const section = key === null ? undefined : active.closest("section")?.getAttribute("aria-labelledby");
    const scrolled = new Map([...place.querySelectorAll(".scroll")].map((part) => [keyOf(part), part.scrollLeft]));
    place.innerHTML = waiting;
    waiting = null;
    place.querySelectorAll("details").forEach((part) => { part.open = open.get(keyOf(part)) ?? part.open; });
    place.querySelectorAll(".scroll").forEach((part) => { part.scrollLeft = scrolled.get(keyOf(part)) ?? 0; });
    if (key === null) return;
    // What had the focus may be gone. Its neighbour is another action: the heading gets the focus instead.
    const same = [...place.querySelectorAll(FOCUSABLE)].find((part) => keyOf(part) === key);
    const heading = section && document.getElementById(section);
    if (heading) heading.tabIndex = -1;
    (same ?? heading)?.focus({ preventScroll: true });
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
      if (found.runs.length === 0) line(told, "p", "It runs no command.");
      for (const [title, lines] of [["What it runs", found.runs], ["Its settings", found.settings]]) {
        if (lines.length === 0) continue;
        const part = told.appendChild(document.createElement("details"));
        part.open = lines === found.runs;
        line(part, "summary", title);
        const list = part.appendChild(document.createElement("ul"));
        lines.forEach((text) => line(list.appendChild(document.createElement("li")), "code", text));
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
