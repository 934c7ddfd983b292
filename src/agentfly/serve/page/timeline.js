// Where a chain's time went: one lane for each kind of waiting.

import { h, s, show, tableHead } from "./dom.js";
import { SPANS } from "./colors.js";
import { ticks } from "./chart.js";
import { seconds } from "./format.js";

const LANE = 20;
const LEFT = 88;
const KINDS = ["queue", "generate", "tool", "environment", "reward"];

/** A timeline of spans, and the same as a table. */
export function timeline(spans) {
  if (!spans.length) return null;
  const end = Math.max(...spans.map((span) => span.end), 1e-9);
  const kinds = [...new Set([...KINDS, ...spans.map((span) => span.kind)])].filter((kind) => spans.some((span) => span.kind === kind));
  const total = (kind) => spans.filter((span) => span.kind === kind).reduce((sum, span) => sum + span.end - span.start, 0);
  const sums = `${seconds(end)}: ${kinds.map((kind) => `${kind} ${seconds(total(kind))}`).join(", ")}`;
  const plot = s("svg", { class: "plot axes", role: "img", "aria-label": `Timeline of ${sums}`, height: kinds.length * LANE + 22 });
  new ResizeObserver(() => draw(plot, spans, kinds, end)).observe(plot);
  return h("figure", { class: "timeline" }, h("figcaption", {}, "Time", h("span", { class: "about" }, sums)), plot,
    h("details", {}, h("summary", {}, "as a table"), spanTable(spans)));
}

function draw(plot, spans, kinds, end) {
  const width = plot.clientWidth;
  const height = kinds.length * LANE + 22;
  const x = (time) => LEFT + (time / end) * (width - LEFT - 12);
  plot.setAttribute("viewBox", `0 0 ${width} ${height}`);
  const lane = (kind, index) => s("g", {},
    s("text", { x: 0, y: index * LANE + 14, class: "lane" }, kind),
    s("line", { x1: LEFT, x2: width - 12, y1: index * LANE + LANE / 2, y2: index * LANE + LANE / 2, class: "grid" }),
    spans.filter((span) => span.kind === kind).map((span) => s("rect", {
      x: x(span.start), width: Math.max(2, x(span.end) - x(span.start)), y: index * LANE + 3, height: LANE - 6, rx: 2, fill: SPANS[kind] ?? "#7f7f7f",
    }, s("title", {}, describe(span)))));
  const marks = ticks(0, end, width / 160).filter((value) => value <= end);
  show(plot, kinds.map(lane), marks.map((value) => s("text", { x: x(value), y: height - 3, "text-anchor": "middle" }, seconds(value))));
}

function describe(span) {
  const turn = span.turn === null ? "" : `, turn ${span.turn}`;
  return `${span.name || span.kind}${turn}: ${seconds(span.end - span.start)}, from ${seconds(span.start)}`;
}

function spanTable(spans) {
  const heads = ["kind", "name", "turn", "start", "duration"];
  return h("table", { class: "rows fit" }, tableHead(heads),
    h("tbody", {}, spans.map((span) => h("tr", {}, h("td", {}, span.kind), h("td", {}, span.name || "–"), h("td", { class: "right" }, span.turn ?? "–"),
      h("td", { class: "right" }, seconds(span.start)), h("td", { class: "right" }, seconds(span.end - span.start))))));
}
