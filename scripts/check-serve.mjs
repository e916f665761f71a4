// A user's way through the pages of `bakeoff serve`, in chromium. See scripts/check-serve.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";

const require = createRequire(`${process.env.TOOLS}/`);
const { chromium } = require("playwright-core");
const axe = readFileSync(require.resolve("axe-core/axe.min.js"), "utf8");
const url = process.env.URL.replace(/\/$/, "");
const shots = process.env.SHOTS;

const PLAN = (title, blocks) => `schema = 1
title = "${title}"
[factors.rate]
values = [200, 400]
level = "sub-plot"
[design]
blocks = ${blocks}
[load]
target = "null:"
threads = 1
rate = "{rate}"
[phases]
prepare = "none"
warm-up = { min = "100ms" }
measure = { time = "1500ms", interval = "500ms" }
`;

// Takes a screenshot if the user named a folder for them.
const shot = async (of, name, options = {}) => {
  if (shots) await of.screenshot({ ...options, path: `${shots}/${name}` });
};

const browser = await chromium.launch({ executablePath: process.env.CHROMIUM, args: ["--no-sandbox"] });
const problems = [];
let checks = 0;

// Opens a page. `known`: what its console will say, each once, as a status and the path that has it; nothing else may be there.
async function open(options, known = []) {
  const context = await browser.newContext(options);
  const page = await context.newPage();
  const said = [];
  page.on("console", (message) => {
    if (!["error", "warning"].includes(message.type())) return;
    const status = /^Failed to load resource: .*status of (\d+)/.exec(message.text())?.[1];
    said.push(status ? `${status} ${message.location().url.replace(url, "")}` : message.text());
  });
  page.on("pageerror", (error) => problems.push(`script: ${error.message}`));
  page.on("request", (request) => {
    if (!request.url().startsWith(`${url}/`) && !request.url().startsWith("data:")) problems.push(`request to ${request.url()}`);
  });
  const close = async () => {
    await context.close();
    const [found, expected] = [said.sort().join("; "), [...known].sort().join("; ")];
    if (found !== expected) problems.push(`console: "${found}", expected "${expected}"`);
  };
  return { page, close };
}

// axe-core is evaluated by the debugger, which the policy of the pages does not bind.
async function accessible(page, name) {
  await page.evaluate(axe);
  const found = await page.evaluate(async () => {
    const result = await globalThis.axe.run(document, { resultTypes: ["violations"] });
    return result.violations.map((v) => `${v.id} (${v.nodes.length}): ${v.nodes[0].html.slice(0, 120)} ${v.nodes[0].failureSummary?.slice(0, 200)}`);
  });
  found.forEach((violation) => problems.push(`axe: ${name}: ${violation}`));
  checks += 1;
}

async function fits(page, name) {
  const [width, view] = await page.evaluate(() => [document.documentElement.scrollWidth, innerWidth]);
  if (width > view) problems.push(`${name}: ${width} px wide in a window of ${view} px`);
}

// Waits until the queue has the entry in that state.
const until = (page, title, state) => page.waitForFunction(
  ([title, state]) => [...document.querySelectorAll("#now tbody tr")].some(
    (row) => row.querySelector("th a").textContent === title && row.querySelector(".word").textContent === state,
  ), [title, state], { timeout: 60_000 },
);

// The way of a user with a pointer: a plan with an error, submitted, watched, paused, resumed and cancelled; runs compared, tagged,
// found and followed over time; one removed. Each page fits its window, and axe-core finds nothing.
async function way(of, title, options) {
  const { page, close } = await open(options);
  const check = async (name) => {
    await fits(page, `${name}, ${of}`);
    await accessible(page, `${name}, ${of}`);
    await shot(page, `${of}-${name.replaceAll(" ", "-")}.png`, { fullPage: true });
  };
  const press = (action) => page.click(`button[aria-label='${action} ${title}']`);
  await page.goto(`${url}/plans/new`);
  await page.fill("#plan", PLAN("wrong", 2).replace("blocks", "blocs"));
  await page.waitForSelector("#problems li");
  assert.match(await page.textContent("#problems"), /7:1: unknown key `blocs`/);
  await check("a plan with a fault");
  await page.fill("#plan", PLAN(title, 8));
  await page.waitForSelector("#problems p.good");
  await page.click("text=Submit");
  await page.waitForURL(/\/queue\//);
  await check("entry");
  await page.goto(`${url}/`);
  await page.waitForFunction(() => document.getElementById("live-state").textContent === "Live");
  await page.waitForSelector(".order .sealed, .order .invalid", { timeout: 60_000 });
  await page.waitForSelector("article dl.numbers", { timeout: 30_000 });
  await page.waitForSelector(".strips svg polyline", { timeout: 30_000 });
  await check("home live");
  for (const [action, state] of [["pause", "paused"], ["resume", "running"], ["cancel", "cancelled"]]) {
    await press(action);
    await until(page, title, state);
    if (state === "paused") await check("home paused");
  }
  await page.goto(`${url}/runs?kind=load`);
  await check("runs");
  await page.check("tbody tr:nth-child(1) input[type=checkbox]");
  await page.check("tbody tr:nth-child(2) input[type=checkbox]");
  await page.click("text=Compare the ticked runs");
  await page.waitForURL(/\/compare/);
  assert.match(await page.textContent("main"), /response p99/);
  // The reason of an INVALID run is a sentence; it must not push the other runs out of sight.
  const [table, view] = await page.evaluate(() => [document.querySelector("main table").scrollWidth, innerWidth]);
  if (table > Math.max(view, 1280)) problems.push(`compare: a table of ${table} px in a window of ${view} px`);
  await check("compare");
  // A tag and a note, found again; a metric over the runs.
  await page.goto(`${url}/runs?kind=load`);
  await page.click("tbody tr:nth-child(1) td:nth-child(2) a");
  await page.fill("input[name=tags]", `${of} release/1`);
  await page.fill("textarea[name=note]", "why <b>?");
  await page.click("text=Save tags and note");
  await page.waitForFunction(() => document.querySelector("textarea[name=note]")?.value === "why <b>?");
  await page.goto(`${url}/runs?tag=${of}`);
  assert.match(await page.textContent("main"), /1 of \d+ runs/);
  await check("runs by tag");
  await page.goto(`${url}/history`);
  assert.match(await page.textContent("main"), /throughput/);
  await check("history");
  await page.click("text=Figures with scales");
  await page.waitForSelector("svg:visible");
  await check("history figures");
  await page.goto(`${url}/runs?kind=load`);
  const name = await page.textContent("tbody tr:nth-child(1) td:nth-child(2) a");
  await page.click("tbody tr:nth-child(1) td:nth-child(2) a");
  await page.click("text=Remove this run");
  await check("about");
  await page.fill("input[name=confirm]", name);
  await page.click("button.danger");
  await page.waitForURL(`${url}/runs`);
  assert.ok(!(await page.textContent("main")).includes(name), "the removed run is gone");
  await page.goto(`${url}/runs`);
  await page.click("tbody th a");
  await page.waitForSelector("h1");
  await shot(page, `${of}-run.png`);
  await close();
}

await way("light", "two rates of nothing", { viewport: { width: 1280, height: 900 } });
await way("phone-at-night", "two rates at night", { colorScheme: "dark", viewport: { width: 390, height: 844 }, isMobile: true, hasTouch: true });

// By keyboard alone: a visible focus on each stop; a plan submitted, stopped, resumed and cancelled; runs compared; one removed.
{
  const { page, close } = await open({ viewport: { width: 1000, height: 800 } });
  await page.goto(`${url}/`);
  await page.keyboard.press("Tab");
  assert.equal(await page.evaluate(() => document.activeElement.textContent), "Skip to the content");
  // Tabs to the part with that name, and presses the key on it.
  const press = async (name, key) => {
    for (let i = 0; i < 100; i += 1) {
      await page.keyboard.press("Tab");
      const [found, outline] = await page.evaluate(() => {
        const at = document.activeElement;
        const field = at.localName === "input" ? at.name : "";
        return [at.id || field || at.getAttribute("aria-label") || at.textContent.trim(), getComputedStyle(at).outlineStyle];
      });
      if (outline === "none") problems.push(`no visible focus on ${found}`);
      if (found !== name) continue;
      if (key) await page.keyboard.press(key);
      return;
    }
    throw new Error(`the keyboard does not reach ${name}`);
  };
  const loaded = (address) => page.waitForURL(address, { waitUntil: "load" });
  await press("New plan", "Enter");
  await loaded(/plans\/new/);
  await press("plan");
  await page.keyboard.insertText(PLAN("by keyboard", 8));
  await press("Submit", "Enter");
  await loaded(/\/queue\//);
  await press("Queue", "Enter");
  await loaded(`${url}/`);
  await page.waitForSelector("article dl.numbers", { timeout: 60_000 });
  for (const [action, state] of [["pause", "paused"], ["resume", "running"], ["cancel", "cancelled"]]) {
    await press(`${action} by keyboard`, "Enter");
    await until(page, "by keyboard", state);
  }
  await press("Runs", "Enter");
  await loaded(`${url}/runs`);
  // The list follows the archive, a moment later on a busy machine.
  for (let n = 0; n < 100 && !(await page.textContent("main")).includes("by keyboard"); n += 1) {
    await page.waitForTimeout(100);
    await page.reload();
  }
  // A box is ticked with the space bar. The newest runs come first: the two bake-offs.
  await press("runs", "Space");
  await press("runs", "Space");
  await press("Compare the ticked runs", "Enter");
  await loaded(/\/compare/);
  assert.match(await page.textContent("main"), /by keyboard[^]*two rates at night/);
  await press("Runs", "Enter");
  await loaded(`${url}/runs`);
  const short = await page.textContent("tbody tr:nth-child(1) td:nth-child(2) a");
  await press(short, "Enter");
  await loaded(/about/);
  await press("Remove this run", "Enter");
  await press("confirm");
  await page.keyboard.type(short);
  await press("Remove", "Enter");
  await loaded(`${url}/runs`);
  assert.ok(!(await page.textContent("main")).includes(short), "the run removed by keyboard is gone");
  await close();
}

// The focus stays on its action while entries come and go: Enter must not cancel another one.
{
  const { page, close } = await open({ viewport: { width: 1000, height: 800 } });
  await page.goto(`${url}/`);
  const post = (path, body) => page.evaluate(async ([path, body]) => {
    const answer = await fetch(path, { method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify(body) });
    if (!answer.ok) throw new Error(`${path}: ${await answer.text()}`);
    return answer.json();
  }, [path, body]);
  const submit = (title, priority) => post("/api/v1/queue", { plan: PLAN(title, 2), priority, not_before: "2099-01-01T00:00:00Z" });
  const [alpha, beta] = [await submit("alpha", 2), await submit("beta", 1)];
  const focused = () => page.evaluate(() => document.activeElement.getAttribute("aria-label") ?? document.activeElement.id);
  await page.focus("button[aria-label='cancel beta']");
  await submit("gamma", 9);
  await page.waitForSelector("button[aria-label='cancel gamma']");
  assert.equal(await focused(), "cancel beta");
  await page.keyboard.press("Enter");
  const state = async (entry) => (await (await page.request.get(`${url}/api/v1/queue/${entry.id}`)).json()).state;
  await until(page, "beta", "cancelled");
  assert.deepEqual([await state(alpha), await state(beta)], ["waiting", "cancelled"]);
  // An action that is gone leaves the focus to the heading, not to a neighbour.
  await page.waitForFunction(() => document.getElementById("live-state").textContent === "Live");
  await page.focus("button[aria-label='cancel alpha']");
  await post(`/api/v1/queue/${alpha.id}/cancel`, {});
  await page.waitForFunction(() => !document.querySelector("button[aria-label='cancel alpha']"));
  assert.equal(await focused(), "queue-title");
  await close();
}

// Dark, and on a telephone.
for (const [name, options] of [
  ["dark", { colorScheme: "dark", viewport: { width: 1280, height: 900 } }],
  ["phone", { viewport: { width: 390, height: 844 }, isMobile: true, hasTouch: true }],
  ["phone-dark", { colorScheme: "dark", viewport: { width: 390, height: 844 }, isMobile: true }],
]) {
  const { page, close } = await open(options, ["404 /nothing"]);
  for (const path of ["/", "/runs", "/history", "/plans/new", "/hosts", "/nothing"]) {
    await page.goto(`${url}${path}`).catch(() => {});
    const of = `${name}${path.replaceAll("/", "-")}`;
    await fits(page, of);
    if (path === "/") {
      const [right, view] = await page.evaluate(() => [document.querySelector("button[aria-label='cancel gamma']").getBoundingClientRect().right, innerWidth]);
      if (right > view) problems.push(`${of}: the button ends at ${right} px in a window of ${view} px`);
    }
    await accessible(page, of);
    await shot(page, `${of}.png`, { fullPage: true });
  }
  await close();
}

// The page of a run with figures over time: zoom, and values under the cursor, by keyboard; the drawing comes back.
for (const [name, options] of [
  ["light", { viewport: { width: 1280, height: 900 } }],
  ["dark", { colorScheme: "dark", viewport: { width: 1280, height: 900 } }],
  ["phone", { viewport: { width: 390, height: 844 }, isMobile: true, hasTouch: true }],
]) {
  const { page, close } = await open(options);
  await page.goto(`${url}/runs?kind=load`);
  await page.goto(new URL(await page.getAttribute("tbody tr:last-child th a", "href"), `${url}/`).href);
  await fits(page, `run page, ${name}`);
  await accessible(page, `run page, ${name}`);
  await shot(page, `run-${name}.png`, { fullPage: true });
  const figures = page.locator("figure[data-lines]");
  assert.ok(await figures.count() >= 2, "a load with the CPU instrument has figures over time");
  for (let i = 0; i < await figures.count(); i += 1) {
    const figure = figures.nth(i);
    await figure.locator("button.explore").press("Enter");
    await figure.locator(".plot canvas").waitFor();
    assert.equal(await figure.locator("svg:visible").count(), 0);
    await page.keyboard.press("ArrowRight");
    const readout = async () => (await figure.locator(".readout").innerText()).replaceAll(/\s+/g, " ");
    const first = await figure.locator("tbody tr").first().locator("td").allTextContents();
    const told = (cells) => cells.map((text) => (text === "-" ? "missing" : text.replaceAll(/\s+/g, " ")));
    for (const cell of told(first)) assert.ok((await readout()).includes(cell), `${await readout()} lacks ${cell}`);
    await page.keyboard.press("+");
    await page.keyboard.press("+");
    const last = await figure.locator("tbody tr").last().locator("td").first().textContent();
    for (let k = 0; k < 80; k += 1) await page.keyboard.press("ArrowRight");
    assert.ok(!(await readout()).includes(`until ${last.replaceAll(/\s+/g, " ")} `), `zoomed, yet at the end: ${await readout()}`);
    const box = await figure.locator(".u-over").boundingBox();
    await page.keyboard.press("0");
    const before = await readout();
    await page.mouse.move(box.x + box.width * 0.75, box.y + box.height / 2);
    assert.notEqual(await readout(), before, "the cursor has its values");
    await fits(page, `run page, figure ${i}, ${name}`);
    await accessible(page, `run page, figure ${i} explored, ${name}`);
    await shot(figure, `explore-${name}-${i}.png`);
    await page.emulateMedia({ media: "print" });
    assert.equal(await figure.locator("svg:visible").count(), 1, "print has the drawing");
    assert.equal(await figure.locator(".plot:visible, button:visible").count(), 0, "print has no controls");
    await page.emulateMedia({ media: "screen" });
    await figure.locator(".plot").press("Escape");
    assert.equal(await figure.locator("svg:visible").count(), 1);
    assert.equal(await figure.locator(".plot").count(), 0);
    assert.equal(await page.evaluate(() => document.activeElement.className), "explore");
  }
  await close();
}

// A page that does not show this moment says so: a session that is over, a server that is silent, a reader who selects text.
{
  const { page, close } = await open({ viewport: { width: 1000, height: 800 } }, ["401 /events"]);
  const told = (text) => page.waitForFunction(
    ([text, stale]) => document.getElementById("live-state").textContent === text && document.getElementById("now").classList.contains("stale") === stale,
    [text, text !== "Live"], { timeout: 30_000 },
  );
  let answer = (route) => route.fulfill({ status: 401, body: "" });
  await page.route("**/events", (route) => answer(route));
  await page.goto(`${url}/`);
  await told("Disconnected: reload the page.");
  await shot(page, `home-stale.png`, { fullPage: true });
  await accessible(page, "home, disconnected");
  answer = () => {};
  await page.clock.install();
  await page.goto(`${url}/`, { waitUntil: "commit" });
  await page.waitForFunction(() => document.readyState !== "loading");
  await page.clock.runFor(21_000);
  await told("No news for 20 s: reload the page.");
  await page.unroute("**/events");
  await page.goto(`${url}/`);
  await told("Live");
  await page.evaluate(() => getSelection().selectAllChildren(document.querySelector("#now h2")));
  await told("Not updated while text is selected.");
  await page.evaluate(() => getSelection().removeAllRanges());
  await told("Live");
  await close();
}

// Without script.
{
  const { page, close } = await open({ javaScriptEnabled: false, viewport: { width: 1000, height: 800 } }, ["422 /plans/new"]);
  await page.goto(`${url}/plans/new`);
  await page.fill("#plan", "schema = 2");
  await page.click("text=Submit");
  await page.waitForSelector("#problems li");
  assert.match(await page.textContent("#problems"), /\d+:\d+/);
  await page.goto(`${url}/`);
  assert.match(await page.textContent("main"), /by keyboard/);
  await page.goto(`${url}/runs?kind=load`);
  await page.goto(new URL(await page.getAttribute("tbody tr:last-child th a", "href"), `${url}/`).href);
  assert.equal(await page.locator("button.explore").count(), 0);
  assert.ok(await page.locator("figure[data-lines] svg:visible").count() >= 2);
  await close();
}

await browser.close();
problems.forEach((text) => console.error(text));
console.log(`${checks} pages checked by axe-core, ${problems.length} problems`);
process.exit(problems.length === 0 ? 0 : 1);
