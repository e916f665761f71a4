// Zoom and values under the cursor, for figures whose table has a row for each time. Without this script a page is complete. The
// script reads the numbers from the table of a figure, and draws them with uPlot when the reader asks for it.
"use strict";
(() => {
  const SECONDS = { ns: 1e-9, us: 1e-6, ms: 1e-3, s: 1 };
  const CELL = /^≥?\s*([−-]?[\d,]+(?:\.\d+)?(?:e[−+-]?\d+)?)\s*(ns|us|ms|s|%)?$/;

  // `≥ 1.23 ms` is 0.00123, `12.3 %` is 12.3, `-` is missing.
  function number(text) {
    const found = CELL.exec(text.trim());
    if (!found) return null;
    return Number(found[1].replaceAll(",", "").replaceAll("−", "-")) * (SECONDS[found[2]] ?? 1);
  }

  function unit(texts) {
    const found = texts.map((text) => CELL.exec(text.trim())?.[2]).find(Boolean);
    return found in SECONDS ? "s" : found ?? "";
  }

  function label(value, unit) {
    if (value === null) return "";
    if (unit !== "s" || value === 0) return `${Number(value.toPrecision(4))}${unit === "%" ? " %" : ""}`;
    const [name] = Object.entries(SECONDS).filter(([, s]) => s <= value * 1.0001).pop() ?? ["ns"];
    return `${Number((value / SECONDS[name]).toPrecision(3))} ${name}`;
  }

  function read(figure) {
    const table = figure.querySelector("details table");
    const heads = [...table.tHead.rows[0].cells].map((cell) => cell.textContent);
    const rows = [...table.tBodies[0].rows].map((row) => [...row.cells].map((cell) => cell.textContent));
    const log = figure.dataset.scale === "log";
    // A logarithmic axis has no place for 0; its text is still shown under the cursor.
    const values = (column) => rows.map((row) => {
      const value = number(row[column]);
      return log && !(value > 0) ? null : value;
    });
    const lines = figure.dataset.lines.split(" ").map(Number)
      .map((column) => ({ column, values: values(column) }))
      .filter((line) => line.values.some((value) => value !== null));
    const of = lines.flatMap((line) => rows.map((row) => row[line.column]));
    return { heads, rows, log, lines, unit: unit(of), x: rows.map((row) => number(row[0])) };
  }

  function element(name, properties, ...children) {
    const made = Object.assign(document.createElement(name), properties);
    made.append(...children);
    return made;
  }

  function draw(data, mount, size, say) {
    const style = getComputedStyle(document.documentElement);
    const color = (name) => style.getPropertyValue(name).trim();
    const font = `12px ${getComputedStyle(document.body).fontFamily}`;
    const axis = {
      stroke: color("--soft"), font, labelFont: font, labelSize: 18,
      grid: { stroke: color("--rule"), width: 1 }, ticks: { stroke: color("--rule"), width: 1 },
    };
    const { log, unit } = data;
    const linear = { range: (_, __, high) => [0, (high || 1) * 1.06] };
    return new uPlot({
      ...size,
      legend: { show: false },
      scales: { x: { time: false }, y: log ? { distr: 3 } : linear },
      cursor: { drag: { x: true, y: false }, y: false },
      axes: [{ ...axis, label: "seconds" }, { ...axis, size: 62, values: (_, all) => all.map((v) => label(v, unit)) }],
      series: [{}, ...data.lines.map((line, i) => ({ stroke: color(`--s${i % 7}`), width: 2 }))],
      hooks: { setCursor: [(plot) => say(plot.cursor.idx)] },
    }, [data.x, ...data.lines.map((line) => line.values)], mount);
  }

  function sentence(data, index) {
    if (index === null || index === undefined) return ["Drag over the drawing to zoom. Point at it, or press the arrow keys, for values."];
    return data.heads.map((head, column) => {
      const text = data.rows[index][column];
      const line = data.lines.findIndex((one) => one.column === column);
      const word = element("span", { className: line < 0 ? "" : `s${line % 7} drawn` });
      word.append(element("b", {}, head), ` ${text === "-" ? "missing" : text}`);
      return word;
    });
  }

  function explore(figure, opener) {
    const data = read(figure);
    const drawing = [...figure.querySelectorAll(":scope > svg")].find((svg) => svg.getBoundingClientRect().width > 0);
    const box = drawing.getBoundingClientRect();
    const title = drawing.querySelector("title").textContent;
    const readout = element("p", { className: "readout" });
    readout.setAttribute("aria-live", "polite");
    const mount = element("div", { className: "plot", tabIndex: 0 });
    mount.setAttribute("role", "group");
    mount.setAttribute("aria-label", `${title}: arrow keys move the cursor, + and - zoom, 0 shows all, Escape closes`);
    let [index, plot] = [null, null];
    const say = (at) => { index = at ?? null; readout.replaceChildren(...sentence(data, index)); };
    const [first, last] = [data.x[0], data.x[data.x.length - 1]];
    const whole = () => plot.setScale("x", { min: first, max: last });
    const zoom = (factor) => {
      const { min, max } = plot.scales.x;
      const at = index === null ? (min + max) / 2 : data.x[index];
      const [low, high] = [Math.max(first, at - (at - min) * factor), Math.min(last, at + (max - at) * factor)];
      if (data.x.filter((x) => x >= low && x <= high).length > 1) plot.setScale("x", { min: low, max: high });
    };
    const move = (step) => {
      const { min, max } = plot.scales.x;
      const seen = data.x.map((x, i) => i).filter((i) => data.x[i] >= min && data.x[i] <= max);
      const next = index === null ? seen[0] : Math.min(seen[seen.length - 1], Math.max(seen[0], index + step));
      plot.setCursor({ left: plot.valToPos(data.x[next], "x"), top: plot.over.clientHeight / 2 });
      say(next);
    };
    const again = () => {
      plot?.destroy();
      const width = Math.min(box.width, figure.clientWidth);
      plot = draw(data, mount, { width, height: box.height }, say);
      say(null);
    };
    const close = () => {
      plot.destroy();
      tools.remove();
      figure.classList.remove("exploring");
      scheme.removeEventListener("change", again);
      removeEventListener("resize", again);
      opener.hidden = false;
      opener.focus();
    };
    const keys = {
      ArrowLeft: () => move(-1), ArrowRight: () => move(1), "+": () => zoom(0.5), "-": () => zoom(2), 0: whole, Escape: close,
    };
    const button = (text, onclick) => element("button", { type: "button", onclick }, text);
    const tools = element("div", { className: "explorer" }, mount, readout, element("p", { className: "tools" },
      button("Zoom in", () => zoom(0.5)), button("Zoom out", () => zoom(2)), button("Show all", whole), button("Close", close)));
    tools.addEventListener("keydown", (event) => {
      if (!(event.key in keys) || event.ctrlKey || event.metaKey || event.altKey) return;
      event.preventDefault();
      keys[event.key]();
    });
    const scheme = matchMedia("(prefers-color-scheme: dark)");
    scheme.addEventListener("change", again);
    addEventListener("resize", again);
    opener.hidden = true;
    figure.classList.add("exploring");
    drawing.after(tools);
    again();
    mount.focus({ preventScroll: true });
  }

  for (const figure of document.querySelectorAll("figure[data-lines]")) {
    const opener = element("button", { type: "button", className: "explore" }, "Explore");
    opener.setAttribute("aria-label", `Explore ${figure.id.replace("-", " ")}: zoom, and values under the cursor`);
    opener.onclick = () => explore(figure, opener);
    figure.querySelector(":scope > details").before(opener);
  }
})();
