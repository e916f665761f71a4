// Time to the first paint of the pages of `bakeoff serve`, in chromium. See scripts/bench-serve.
import { createRequire } from "node:module";

const { chromium } = createRequire(`${process.env.TOOLS}/`)("playwright-core");
const url = process.env.URL.replace(/\/$/, "");
const rounds = Number(process.argv[2] ?? 20);
const LIMIT_MS = 500;

const listed = await (await fetch(`${url}/api/v1/runs?limit=1000`)).json();
const ids = listed.runs.map((run) => run.run);
// Runs that differ: a run is not compared with itself.
const some = (n) => {
  const drawn = new Set();
  while (drawn.size < n) drawn.add(ids[Math.floor(Math.random() * ids.length)]);
  return [...drawn];
};
const pages = {
  queue: () => "/",
  list: () => `/runs?page=${1 + Math.floor(Math.random() * 300)}`,
  search: () => "/runs?text=kernel",
  "compare 8": () => `/compare?runs=${some(8).join(",")}`,
  history: () => "/history",
  about: () => `/runs/${some(1)[0]}/about`,
  run: () => `/runs/${some(1)[0]}`,
  "new plan": () => "/plans/new",
};

const browser = await chromium.launch({ executablePath: "/usr/bin/chromium", args: ["--no-sandbox"] });
const slow = [];
console.log(`${"first paint".padEnd(12)}  ${"p50 ms".padStart(8)}  ${"max ms".padStart(8)}   of ${rounds}, nothing in the browser's cache`);
for (const [name, path] of Object.entries(pages)) {
  const took = [];
  // The first one starts processes of the browser.
  for (let n = -1; n < rounds; n += 1) {
    const context = await browser.newContext();
    const page = await context.newPage();
    const answer = await page.goto(url + path());
    if (answer.status() !== 200) throw new Error(`${name}: ${answer.status()}`);
    // A run's page is sandboxed: it has no scripts that could wait, but the debugger may ask.
    let paint = null;
    while (paint === null) {
      await new Promise((done) => { setTimeout(done, 20); });
      paint = await page.evaluate(() => performance.getEntriesByName("first-paint")[0]?.startTime ?? null);
    }
    if (n >= 0) took.push(paint);
    await context.close();
  }
  took.sort((a, b) => a - b);
  const [p50, max] = [took[Math.floor(took.length / 2)], took.at(-1)];
  console.log(`${name.padEnd(12)}  ${p50.toFixed(0).padStart(8)}  ${max.toFixed(0).padStart(8)}`);
  if (max > LIMIT_MS) slow.push(name);
}
await browser.close();
if (slow.length > 0) {
  console.error(`first paint after more than ${LIMIT_MS} ms: ${slow.join(", ")}`);
  process.exit(1);
}
