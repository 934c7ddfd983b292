// All runs: a list that can be searched, and several of them on the same axes.

import { debounce, h, link, note, show, tableHead } from "./dom.js";
import { Metrics, concerns, get, onChange, run } from "./data.js";
import { LineChart, spark } from "./chart.js";
import { DASHES, color } from "./colors.js";
import { ago, bytes, number } from "./format.js";
import { differenceTable } from "./settings.js";
import { smoothing } from "./run.js";

/** The list of runs. */
export async function runsView(body, { signal, go, keys }) {
  const chosen = new Set();
  const search = h("input", { type: "search", placeholder: "Search runs", "aria-label": "Search runs", oninput: () => draw() });
  const compare = h("button", { type: "button", disabled: true, onclick: () => go(["compare", ...chosen]) }, "Compare");
  const list = h("div", {});
  let data = await get("/api/runs", signal);
  show(body, h("div", { class: "head" }, h("h1", {}, "Runs"), h("span", { class: "muted mono wide" }, data.folder),
    h("span", { class: "spacer" }), search, compare), list);

  function draw() {
    const wanted = search.value.toLowerCase();
    const rows = data.runs.filter((one) => `${one.name} ${one.model} ${one.algorithm} ${one.state}`.toLowerCase().includes(wanted));
    compare.disabled = chosen.size < 2;
    compare.textContent = chosen.size ? `Compare ${chosen.size}` : "Compare";
    show(list, rows.length ? table(rows, chosen, draw) : note(data.runs.length ? "No run matches." : "There are no runs here yet. Start one: agentfly quickstart"));
  }

  keys({ c: ["compare the chosen runs", () => { if (chosen.size > 1) go(["compare", ...chosen]); }] });
  onChange(debounce(async () => {
    try { data = await get("/api/runs", signal); draw(); } catch (error) { if (!signal.aborted) throw error; }
  }, 300), signal);
  draw();
}

function table(rows, chosen, draw) {
  const heads = ["", "run", "state", "steps", "reward", "", "best held out", "model", "algorithm", "size", "changed"];
  return h("div", { class: "scroll" }, h("table", { class: "rows cards" },
    tableHead(heads),
    h("tbody", {}, rows.map((one) => h("tr", {},
      h("td", { class: "pick" }, h("input", {
        type: "checkbox", "aria-label": `choose ${one.name}`, checked: chosen.has(one.name),
        onchange: (event) => { chosen[event.target.checked ? "add" : "delete"](one.name); draw(); },
      })),
      h("td", { class: "main" }, h("a", { href: link(["run", one.name]) }, one.name)),
      h("td", {}, badge(one.state), one.kind === "run" ? null : [" ", h("span", { class: "badge" }, one.kind)]),
      h("td", { class: "right", "data-label": "steps" }, one.planned ? `${one.step}/${one.planned}` : one.step),
      h("td", { class: "right", "data-label": "reward" }, number(one.reward)),
      h("td", {}, spark(one.spark)),
      h("td", { class: "right", "data-label": "held out" }, heldOut(one)),
      h("td", { "data-label": "model" }, one.model || "–"),
      h("td", { "data-label": "algorithm" }, one.algorithm || "–"),
      h("td", { class: "right", "data-label": "size" }, bytes(one.size)),
      h("td", { class: "right muted", "data-label": "changed" }, ago(one.updated)))))));
}

export function heldOut(one) {
  if (one.best === null) return "–";
  const interval = one.best_low === null ? "" : ` [${number(one.best_low, 2)}, ${number(one.best_high, 2)}]`;
  return `${number(one.best)}${interval}`;
}

export function badge(state) {
  const kind = state.startsWith("damaged") ? "bad" : { running: "busy", finished: "good", "reached its target": "good" }[state] ?? "";
  return h("span", { class: `badge ${kind}`, title: state }, state.startsWith("damaged") ? "damaged" : state);
}

/** Several runs on the same axes. */
export async function compareView(body, { parts, signal }) {
  const names = parts.slice(1);
  const all = names.map((name) => new Metrics(name));
  await Promise.all(all.map((one) => one.refresh(signal)));
  const settings = await Promise.all(names.map((name) => get(run(name, "/settings"), signal)));
  const filter = h("input", { type: "search", placeholder: "Search metrics", "aria-label": "Search metrics", oninput: debounce(() => draw(), 150) });
  const weight = smoothing(() => draw());
  const grid = h("div", { class: "grid" });
  const charts = new Map();

  function series(metric) {
    return all.map((one, index) => ({ name: one.name, points: one.points(metric), band: one.band(metric), color: color(index), dash: DASHES[index % DASHES.length], dots: metric.startsWith("eval/") }))
      .filter((one) => one.points.length);
  }

  function draw() {
    const words = filter.value.toLowerCase();
    const metrics = [...new Set(all.flatMap((one) => one.names()))].filter((name) => !/_(low|high)$/.test(name));
    const first = ["reward/mean", "eval/reward", "reward/solved", "tokens/per_chain", "time/step", "tools/failed_share"].filter((name) => metrics.includes(name));
    const wanted = words ? metrics.filter((name) => name.toLowerCase().includes(words)) : first;
    show(grid, wanted.slice(0, 60).map((metric) => {
      const chart = charts.get(metric) ?? new LineChart({ title: metric, about: all[0].about[metric] ?? "" });
      charts.set(metric, chart);
      chart.draw(series(metric), weight.value);
      return chart.element;
    }), wanted.length ? [] : note("No metric matches."));
  }

  show(body, h("div", { class: "head" }, h("h1", {}, "Compare"), h("span", { class: "spacer" }), filter, weight.element),
    h("p", { class: "chips" }, names.map((name, index) => h("a", { class: "chip", href: link(["run", name]) },
      h("i", { style: { backgroundColor: color(index) } }), name))),
    grid, h("h2", {}, "Settings that differ"), differenceTable(names, settings));
  onChange(debounce(async (changed) => {
    if (!names.some((name) => concerns(changed, name))) return;
    await Promise.all(all.map((one) => one.refresh(signal)));
    draw();
  }, 500), signal);
  draw();
}
