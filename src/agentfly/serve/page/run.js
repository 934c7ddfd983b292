// One run: its rewards, where the time went, how chains ended, tools, environments, all metrics.

import { debounce, h, link, note, show, tableHead } from "./dom.js";
import { Metrics, concerns, get, onChange, run } from "./data.js";
import { LineChart } from "./chart.js";
import { StackedBars, barRows } from "./bars.js";
import { color } from "./colors.js";
import { number, percent, seconds } from "./format.js";
import { badge, heldOut } from "./runs.js";
import { questionButtons } from "./questions.js";

const STAGES = ["sampling", "training", "publishing", "evaluating", "saving"];
const WAITS = ["generation", "tools", "environments", "rewards", "queue"];

/** A slider for smoothing; `value` is the weight of the past. */
export function smoothing(onInput) {
  const kept = Number(sessionStorage.getItem("smoothing") ?? 0);
  const state = { value: kept };
  const slider = h("input", { type: "range", min: 0, max: 0.95, step: 0.05, value: kept, "aria-label": "Smoothing", oninput: () => {
    state.value = Number(slider.value);
    sessionStorage.setItem("smoothing", slider.value);
    onInput();
  } });
  state.element = h("label", { class: "slider" }, "smoothing", slider);
  return state;
}

/** The overview of a run. */
export async function runView(body, { name, signal }) {
  const metrics = new Metrics(name);
  const [overview] = await Promise.all([get(run(name), signal), metrics.refresh(signal)]);
  const head = h("div", {});
  const filter = h("input", { type: "search", placeholder: "Search metrics", "aria-label": "Search metrics", oninput: debounce(() => all.draw(), 150) });
  const weight = smoothing(() => draw());
  const perTool = toolCard();
  const main = mainCharts(metrics, perTool.element);
  const all = metricCharts(metrics, () => weight.value, () => filter.value);
  const environments = h("div", {});

  function draw() {
    main.draw(weight.value);
    all.draw();
  }

  function drawHead(data) {
    show(head, summary(data), findings(data), metrics.problem ? note(metrics.problem, "error") : null);
    show(environments, environmentTable(data.environments));
  }

  show(body, head, h("div", { class: "head" }, questionButtons(name), h("span", { class: "spacer" }), weight.element), main.element, environments,
    h("div", { class: "head" }, h("h2", {}, "All metrics"), h("span", { class: "spacer" }), filter), all.element);
  drawHead(overview);
  draw();
  perTool.load(name, signal);
  onChange(debounce(async (changed) => {
    if (!concerns(changed, name)) return;
    try {
      const [data] = await Promise.all([get(run(name), signal), metrics.refresh(signal)]);
      drawHead(data);
      draw();
      perTool.load(name, signal);
    } catch (error) { if (!signal.aborted) throw error; }
  }, 300), signal);
}

function summary(data) {
  const done = data.planned ? Math.min(1, data.step / data.planned) : null;
  const tile = (label, value, more = null) => h("div", { class: "tile" }, h("span", { class: "label" }, label), h("span", { class: "value" }, value), more);
  return [
    h("div", { class: "head" }, h("h1", { id: "run-name" }, data.name), badge(data.state), data.kind === "run" ? null : h("span", { class: "badge" }, data.kind)),
    h("div", { class: "tiles" },
      tile("step", data.planned ? `${data.step} / ${data.planned}` : data.step, done === null ? null : h("progress", { max: 1, value: done, "aria-label": "steps done" })),
      tile("reward, last step", number(data.reward)),
      tile(data.best_step === null ? "best held out" : `best held out, step ${data.best_step}`, heldOut(data)),
      tile("model", data.model || "–"), tile("algorithm", data.algorithm || "–")),
  ];
}

function findings(data) {
  return data.findings.map((one) => h("div", { class: "finding", role: "note" },
    h("b", {}, `Step ${one.step}: ${one.sentence}`), " ", one.way_out));
}

function mainCharts(metrics, perTool) {
  const rewards = new LineChart({ title: "Reward", height: 260 });
  const times = new StackedBars({ title: "Where a step's time went", height: 260, format: seconds });
  const waits = new StackedBars({ title: "What a chain waited for, mean", format: seconds });
  const stops = new StackedBars({ title: "Stop reasons, share of chains", format: percent });
  const failures = new StackedBars({ title: "Failed chains by cause" });
  const tools = new LineChart({ title: "Tool calls and failures", format: number });
  const charts = [rewards, times, waits, stops, tools, failures];
  const element = h("div", { class: "grid" }, charts.map((chart) => chart.element), perTool);

  function draw(weight) {
    const line = (metric, label, index, dots = false) => ({ name: label, points: metrics.points(metric), band: metrics.band(metric), color: color(index), dots });
    rewards.draw([line("reward/mean", "training", 0), line("eval/reward", "held out", 1, true)].filter((one) => one.points.length), weight);
    times.draw(columns(metrics, STAGES.map((stage) => [`time/${stage}`, stage])));
    waits.draw(columns(metrics, WAITS.map((wait) => [`time/${wait}`, wait])));
    stops.draw(columns(metrics, under(metrics, "stop/")));
    failures.draw(columns(metrics, under(metrics, "failures/")));
    failures.element.hidden = !under(metrics, "failures/").length;
    tools.draw([line("tools/calls", "calls per chain", 0), line("tools/failed_share", "share that failed", 5), line("tools/invalid_share", "share that was invalid", 1)].filter((one) => one.points.length), weight);
    tools.element.hidden = !metrics.points("tools/calls").length;
  }
  return { element, draw };
}

/** Calls and failures of each tool, over all chains of the run. */
function toolCard() {
  const body = h("div", {});
  const element = h("figure", { class: "chart", hidden: true }, h("figcaption", {}, "Calls that failed, by tool"), body);
  let busy = false;

  async function load(name, signal) {
    if (busy) return;
    busy = true;
    try {
      for (let share = 0; share < 1;) {
        const answer = await get(run(name, "/ask/tools"), signal);
        share = answer.indexed;
        element.hidden = !answer.rows.length;
        show(body, barRows(answer.rows.slice(0, 8).map(([tool, calls, failed, , how]) => ({
          name: tool.text, href: link(["run", name, "chains"], tool.query), value: failed / calls, note: `${failed} of ${calls}${how === "-" ? "" : `: ${how}`}`,
        })), { format: percent, most: 1, fill: color(5) }), share < 1 ? note(`${percent(share)} of the chains are indexed so far.`) : null);
      }
    } catch (error) { if (!signal.aborted) show(body, note(error.message, "error")); } finally { busy = false; }
  }
  return { element, load };
}

const under = (metrics, prefix) => metrics.names().filter((name) => name.startsWith(prefix)).map((name) => [name, name.slice(prefix.length)]);

function columns(metrics, named) {
  return named.map(([metric, label]) => ({ name: label, values: new Map(metrics.points(metric)) })).filter((one) => [...one.values.values()].some((value) => value > 0));
}

function metricCharts(metrics, weight, words) {
  const element = h("div", {});
  const charts = new Map();
  const opened = new Set(["reward", "eval"]);

  function draw() {
    const wanted = words().toLowerCase();
    const names = metrics.names().filter((name) => !/_(low|high)$/.test(name) && name.toLowerCase().includes(wanted));
    const spaces = Map.groupBy ? Map.groupBy(names, space) : group(names);
    show(element, [...spaces].map(([title, members]) => {
      const open = wanted !== "" || opened.has(title);
      const inner = h("div", { class: "grid small" });
      const fill = () => show(inner, members.map((metric) => drawOne(metric)));
      if (open) fill();
      return h("details", { class: "space", open, ontoggle: (event) => {
        opened[event.target.open ? "add" : "delete"](title);
        if (event.target.open && !inner.childElementCount) fill();
      } }, h("summary", {}, title, h("span", { class: "muted" }, ` ${members.length}`)), inner);
    }), names.length ? [] : note(metrics.names().length ? "No metric matches." : "No step is finished yet."));
  }

  function drawOne(metric) {
    const about = metrics.about[metric] ?? "";
    const chart = charts.get(metric) ?? new LineChart({ title: metric, about, height: 150, format: metric.startsWith("time/") ? seconds : number, legend: false });
    charts.set(metric, chart);
    chart.draw([{ name: metric, points: metrics.points(metric), band: metrics.band(metric), dots: metric.startsWith("eval/") }], weight());
    return chart.element;
  }
  return { element, draw };
}

const space = (name) => name.split("/")[0];

function group(names) {
  const found = new Map();
  for (const name of names) found.set(space(name), [...(found.get(space(name)) ?? []), name]);
  return found;
}

function environmentTable(report) {
  if (!report || !report.stocks.length) return [];
  const heads = ["environment", "where", "leased", "warm", "waiting", "limit", "created", "recycled", "crashed", "wait, median", "wait, 99%"];
  const rows = report.stocks.map((one) => [one.environment, one.where, one.leased, one.warm, one.waiting, one.max_instances, one.created, one.recycled, one.crashed, seconds(one.lease_p50), seconds(one.lease_p99)]);
  const held = (title, list) => (list.length ? [h("h3", {}, title), h("ul", { class: "plain" }, list.map((one) => h("li", { class: "mono" }, `${one.owner}  ${one.environments.join(", ")}  ${seconds(one.seconds)}`)))] : []);
  return [h("h2", {}, "Environments and leases"),
    h("p", { class: "muted" }, `As last reported${report.ended ? ", at the end of the run" : ""}, ${new Date(report.taken_at * 1000).toLocaleString()}. Metrics of every step are under env below.`),
    h("div", { class: "scroll" }, h("table", { class: "rows" }, tableHead(heads),
      h("tbody", {}, rows.map((cells) => h("tr", {}, cells.map((cell, index) => h("td", { class: index > 1 ? "right" : "" }, cell))))))),
    held("Leases", report.leases), held("Waiting", report.waits)];
}
