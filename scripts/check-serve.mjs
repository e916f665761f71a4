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

const browser = await chromium.launch({ executablePath: "/usr/bin/chromium", args: ["--no-sandbox"] });
const problems = [];
let checks = 0;

async function open(options) {
  const context = await browser.newContext(options);
  const page = await context.newPage();
  page.on("console", (message) => { if (["error", "warning"].includes(message.type())) problems.push(`console: ${message.text()}`); });
  page.on("pageerror", (error) => problems.push(`script: ${error.message}`));
  page.on("request", (request) => {
    if (!request.url().startsWith(url) && !request.url().startsWith("data:")) problems.push(`request to ${request.url()}`);
  });
  return { context, page };
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

// The way of a user with a mouse.
{
  const { context, page } = await open({ viewport: { width: 1280, height: 900 } });
  await page.goto(`${url}/plans/new`);
  await page.fill("#plan", PLAN("wrong", 2).replace("blocks", "blocs"));
  await page.waitForSelector("#problems li");
  assert.match(await page.textContent("#problems"), /7:1: unknown key `blocs`/);
  await accessible(page, "a plan with a fault");
  await page.screenshot({ path: `${shots}/plan-fault.png`, fullPage: true });
  await page.fill("#plan", PLAN("two rates of nothing", 8));
  await page.waitForSelector("#problems p.good");
  await page.click("text=Submit");
  await page.waitForURL(/\/queue\//);
  await accessible(page, "entry");
  await page.screenshot({ path: `${shots}/entry.png`, fullPage: true });
  await page.goto(`${url}/`);
  await page.waitForFunction(() => document.getElementById("live-state").textContent === "Live");
  await page.waitForSelector(".order .sealed, .order .invalid", { timeout: 60_000 });
  await page.waitForSelector("article dl.numbers", { timeout: 30_000 });
  await page.waitForSelector(".strips svg polyline", { timeout: 30_000 });
  await page.screenshot({ path: `${shots}/home-live.png`, fullPage: true });
  await accessible(page, "home");
  await page.click("button[aria-label='pause two rates of nothing']");
  await page.waitForFunction(() => /paused/.test(document.body.textContent), null, { timeout: 60_000 });
  await page.screenshot({ path: `${shots}/home-paused.png`, fullPage: true });
  await page.click("button[aria-label='resume two rates of nothing']");
  await page.waitForSelector(".order", { timeout: 60_000 });
  await page.click("button[aria-label='cancel two rates of nothing']");
  await page.waitForFunction(() => /cancelled/.test(document.body.textContent), null, { timeout: 60_000 });
  await page.goto(`${url}/runs?kind=load`);
  await page.check("tbody tr:nth-child(1) input[type=checkbox]");
  await page.check("tbody tr:nth-child(2) input[type=checkbox]");
  await page.click("text=Compare the ticked runs");
  await page.waitForURL(/\/compare/);
  assert.match(await page.textContent("main"), /response p99/);
  // The reason of an INVALID run is a sentence; it must not push the other runs out of sight.
  const [table, view] = await page.evaluate(() => [document.querySelector("main table").scrollWidth, innerWidth]);
  if (table > view) problems.push(`compare: a table of ${table} px in a window of ${view} px`);
  await page.screenshot({ path: `${shots}/compare.png`, fullPage: true });
  await accessible(page, "compare");
  // A tag and a note, found again; a metric over the runs.
  await page.goto(`${url}/runs?kind=load`);
  await page.click("tbody tr:nth-child(1) td:nth-child(2) a");
  await page.fill("input[name=tags]", "slow release/1");
  await page.fill("textarea[name=note]", "why <b>?");
  await page.click("text=Save tags and note");
  await page.waitForFunction(() => document.querySelector("textarea[name=note]")?.value === "why <b>?");
  await page.goto(`${url}/runs?tag=slow`);
  assert.match(await page.textContent("main"), /1 of \d+ runs/);
  await page.screenshot({ path: `${shots}/runs-tagged.png`, fullPage: true });
  await accessible(page, "runs by tag");
  await page.goto(`${url}/history`);
  assert.match(await page.textContent("main"), /throughput/);
  await page.screenshot({ path: `${shots}/history.png`, fullPage: true });
  await accessible(page, "history");
  await page.click("text=Figures with scales");
  await page.waitForSelector("svg");
  await page.goto(`${url}/runs?kind=load`);
  const name = await page.textContent("tbody tr:nth-child(1) td:nth-child(2) a");
  await page.click("tbody tr:nth-child(1) td:nth-child(2) a");
  await page.click("text=Remove this run");
  await accessible(page, "about");
  await page.fill("input[name=confirm]", name);
  await page.click("button.danger");
  await page.waitForURL(`${url}/runs`);
  assert.ok(!(await page.textContent("main")).includes(name), "the removed run is gone");
  await page.goto(`${url}/runs`);
  await page.click("tbody th a");
  await page.waitForSelector("h1");
  await page.screenshot({ path: `${shots}/run.png` });
  await context.close();
}

// By keyboard alone: a visible focus on each stop; a plan submitted, stopped, resumed and cancelled; runs compared; one removed.
{
  const { context, page } = await open({ viewport: { width: 1000, height: 800 } });
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
  // A box is ticked with the space bar. The newest runs come first: the two bake-offs.
  await press("runs", "Space");
  await press("runs", "Space");
  await press("Compare the ticked runs", "Enter");
  await loaded(/\/compare/);
  assert.match(await page.textContent("main"), /by keyboard[^]*two rates of nothing/);
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
  await context.close();
}

// The focus stays on its action while entries come and go: Enter must not cancel another one.
{
  const { context, page } = await open({ viewport: { width: 1000, height: 800 } });
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
  await context.close();
}

// Dark, and on a telephone.
for (const [name, options] of [
  ["dark", { colorScheme: "dark", viewport: { width: 1280, height: 900 } }],
  ["phone", { viewport: { width: 390, height: 844 }, isMobile: true, hasTouch: true }],
  ["phone-dark", { colorScheme: "dark", viewport: { width: 390, height: 844 }, isMobile: true }],
]) {
  const { context, page } = await open(options);
  for (const path of ["/", "/runs", "/history", "/plans/new", "/hosts", "/nothing"]) {
    await page.goto(`${url}${path}`).catch(() => {});
    const of = `${name}${path.replaceAll("/", "-")}`;
    await fits(page, of);
    if (path === "/") {
      const [right, view] = await page.evaluate(() => [document.querySelector("button[aria-label='cancel gamma']").getBoundingClientRect().right, innerWidth]);
      if (right > view) problems.push(`${of}: the button ends at ${right} px in a window of ${view} px`);
    }
    await accessible(page, of);
    await page.screenshot({ path: `${shots}/${of}.png`, fullPage: true });
  }
  await context.close();
}

// The page of a run with figures over time: zoom, and values under the cursor, by keyboard; the drawing comes back.
for (const [name, options] of [
  ["light", { viewport: { width: 1280, height: 900 } }],
  ["dark", { colorScheme: "dark", viewport: { width: 1280, height: 900 } }],
  ["phone", { viewport: { width: 390, height: 844 }, isMobile: true, hasTouch: true }],
]) {
  const { context, page } = await open(options);
  await page.goto(`${url}/runs?kind=load`);
  await page.goto(new URL(await page.getAttribute("tbody tr:last-child th a", "href"), `${url}/`).href);
  await fits(page, `run page, ${name}`);
  await accessible(page, `run page, ${name}`);
  await page.screenshot({ path: `${shots}/run-${name}.png`, fullPage: true });
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
    await figure.screenshot({ path: `${shots}/explore-${name}-${i}.png` });
    await page.emulateMedia({ media: "print" });
    assert.equal(await figure.locator("svg:visible").count(), 1, "print has the drawing");
    assert.equal(await figure.locator(".plot:visible, button:visible").count(), 0, "print has no controls");
    await page.emulateMedia({ media: "screen" });
    await figure.locator(".plot").press("Escape");
    assert.equal(await figure.locator("svg:visible").count(), 1);
    assert.equal(await figure.locator(".plot").count(), 0);
    assert.equal(await page.evaluate(() => document.activeElement.className), "explore");
  }
  await context.close();
}

// A page that does not show this moment says so: a session that is over, a server that is silent, a reader who selects text.
{
  const { context, page } = await open({ viewport: { width: 1000, height: 800 } });
  const told = (text) => page.waitForFunction(
    ([text, stale]) => document.getElementById("live-state").textContent === text && document.getElementById("now").classList.contains("stale") === stale,
    [text, text !== "Live"], { timeout: 30_000 },
  );
  let answer = (route) => route.fulfill({ status: 401, body: "" });
  await page.route("**/events", (route) => answer(route));
  await page.goto(`${url}/`);
  await told("Disconnected: reload the page.");
  await page.screenshot({ path: `${shots}/home-stale.png`, fullPage: true });
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
  await context.close();
}

// Without script.
{
  const { context, page } = await open({ javaScriptEnabled: false, viewport: { width: 1000, height: 800 } });
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
  await context.close();
}

await browser.close();
// The page that does not exist is reported as such, a refused plan and a session that is over too; nothing else is.
const left = problems.filter((text) => !/status of (401|404|422)/.test(text));
left.forEach((text) => console.error(text));
console.log(`${checks} pages checked by axe-core, ${left.length} problems`);
process.exit(left.length === 0 ? 0 : 1);
