// Line charts drawn as SVG: several series on the same axes, intervals, smoothing, a cursor.

import { h, s, show } from "./dom.js";
import { DASHES, color, tint } from "./colors.js";
import { number } from "./format.js";

const MARGIN = { top: 12, right: 14, bottom: 26, left: 48 };

/** Exponential moving average, without the pull of its start. */
export function smooth(points, weight) {
  if (!weight) return points;
  let sum = 0;
  let mass = 0;
  return points.map(([x, y]) => {
    sum = weight * sum + y;
    mass = weight * mass + 1;
    return [x, sum / mass];
  });
}

/** Round values for the marks of an axis. */
export function ticks(low, high, wanted) {
  const span = high - low || 1;
  const raw = span / Math.max(1, wanted);
  const unit = 10 ** Math.floor(Math.log10(raw));
  const step = unit * [1, 2, 5, 10].find((factor) => unit * factor >= raw);
  const found = [];
  for (let value = Math.ceil(low / step) * step; value <= high + step * 1e-6; value += step) {
    found.push(Number(value.toPrecision(12)));
  }
  return found;
}

/** The elements of a chart: a figure with its plot, the tip at the cursor, and the legend. */
export function chartFrame({ title, about, height, legend = true }) {
  const plot = s("svg", { class: "plot", role: "img", tabindex: 0, height });
  const tip = h("div", { class: "tip", hidden: true });
  const keys = legend ? h("div", { class: "legend" }) : null;
  const element = h("figure", { class: "chart" },
    h("figcaption", { title: about }, title, about ? h("span", { class: "about" }, about) : null),
    h("div", { class: "canvas" }, plot, tip), keys);
  return { plot, tip, keys, element };
}

/**
 * A chart of lines. Series: {name, points: [[x, y]], band: [[x, low, high]], dots}.
 * Its method `draw(series, weight)` draws other data on the same element.
 */
export class LineChart {
  constructor({ title, about = "", height = 220, format = number, legend = true, series = [], weight = 0 }) {
    this.height = height;
    this.format = format;
    this.title = title;
    this.hidden = new Set();
    Object.assign(this, chartFrame({ title, about, height, legend }));
    this.plot.addEventListener("pointermove", (event) => this.point(event));
    this.plot.addEventListener("pointerleave", () => this.leave());
    this.plot.addEventListener("keydown", (event) => this.key(event));
    this.plot.addEventListener("blur", () => this.leave());
    new ResizeObserver(() => this.redraw()).observe(this.plot);
    this.draw(series, weight);
  }

  draw(series, weight = 0) {
    this.series = series.map((one, index) => ({ ...one, color: one.color ?? color(index), dash: one.dash ?? DASHES[index % DASHES.length] }));
    this.weight = weight;
    this.redraw();
  }

  redraw() {
    const width = this.plot.clientWidth;
    if (!width) return;
    const shown = this.series.filter((one) => !this.hidden.has(one.name));
    this.scale(shown, width);
    this.plot.setAttribute("viewBox", `0 0 ${width} ${this.height}`);
    this.plot.setAttribute("aria-label", this.describe(shown));
    this.cursor = s("g", { class: "cursor" });
    show(this.plot, this.axes(width), shown.map((one) => this.lines(one)), this.cursor);
    this.legend();
  }

  scale(shown, width) {
    const points = shown.flatMap((one) => one.points);
    const bands = shown.flatMap((one) => one.band ?? []);
    this.xs = [...new Set(points.map(([x]) => x))].sort((a, b) => a - b);
    let [x0, x1] = [this.xs[0] ?? 0, this.xs.at(-1) ?? 1];
    if (x0 === x1) { x0 -= 1; x1 += 1; }
    const values = [...points.map(([, y]) => y), ...bands.flatMap(([, low, high]) => [low, high])];
    let y0 = values.reduce((a, b) => Math.min(a, b), Infinity);
    let y1 = values.reduce((a, b) => Math.max(a, b), -Infinity);
    if (!values.length) { y0 = 0; y1 = 1; }
    if (y0 >= 0 && y0 < 0.4 * y1) y0 = 0;
    if (y0 === y1) { y0 -= Math.abs(y0) * 0.1 || 0.5; y1 += Math.abs(y1) * 0.1 || 0.5; }
    const pad = (y1 - y0) * 0.05;
    y1 += pad;
    if (y0 !== 0) y0 -= pad;
    this.domain = [y0, y1];
    this.range = [x0, x1];
    this.x = (value) => MARGIN.left + ((value - x0) / (x1 - x0)) * (width - MARGIN.left - MARGIN.right);
    this.y = (value) => this.height - MARGIN.bottom - ((value - y0) / (y1 - y0)) * (this.height - MARGIN.top - MARGIN.bottom);
  }

  axes(width) {
    const group = s("g", { class: "axes" });
    for (const value of ticks(...this.domain, this.height / 45)) {
      const y = this.y(value);
      group.append(s("line", { class: "grid", x1: MARGIN.left, x2: width - MARGIN.right, y1: y, y2: y }));
      group.append(s("text", { x: MARGIN.left - 7, y: y + 4, "text-anchor": "end" }, this.format(value)));
    }
    const marks = ticks(...this.range, width / 90).filter((value) => Number.isInteger(value));
    for (const value of marks) {
      group.append(s("text", { x: this.x(value), y: this.height - 8, "text-anchor": "middle" }, String(value)));
    }
    return group;
  }

  lines(one) {
    const path = (points) => points.map(([x, y], i) => `${i ? "L" : "M"}${this.x(x).toFixed(1)} ${this.y(y).toFixed(1)}`).join("");
    const group = s("g", {});
    if (one.band?.length) {
      const up = one.band.map(([x, , high]) => [x, high]);
      const down = one.band.map(([x, low]) => [x, low]).reverse();
      group.append(s("path", { d: `${path(up)}${path(down).replace("M", "L")}Z`, fill: tint(one.color, 0.18) }));
    }
    const smoothed = smooth(one.points, this.weight);
    if (this.weight && one.points.length > 2) group.append(s("path", { d: path(one.points), class: "line faint", stroke: one.color }));
    group.append(s("path", { d: path(smoothed), class: "line", stroke: one.color, "stroke-dasharray": one.dash }));
    if (one.dots || one.points.length < 2) {
      for (const [x, y] of one.points) group.append(s("circle", { cx: this.x(x), cy: this.y(y), r: 3, fill: one.color }));
    }
    return group;
  }

  legend() {
    if (!this.keys) return;
    show(this.keys, this.series.length < 2 ? [] : this.series.map((one) => h("button", {
      type: "button", class: "key", "aria-pressed": String(!this.hidden.has(one.name)),
      onclick: () => { this.toggle(one.name); },
    }, s("svg", { width: 22, height: 8, "aria-hidden": "true" }, s("line", {
      x1: 0, x2: 22, y1: 4, y2: 4, stroke: one.color, "stroke-width": 2.5, "stroke-dasharray": one.dash,
    })), one.name)));
  }

  toggle(name) {
    if (!this.hidden.delete(name)) this.hidden.add(name);
    this.redraw();
  }

  point(event) {
    const box = this.plot.getBoundingClientRect();
    const at = event.clientX - box.left;
    const nearest = this.xs.reduce((best, x) => (best === null || Math.abs(this.x(x) - at) < Math.abs(this.x(best) - at) ? x : best), null);
    if (nearest !== null) this.mark(nearest);
  }

  key(event) {
    const move = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
    if (!move || !this.xs.length) return;
    event.preventDefault();
    const now = this.xs.indexOf(this.marked ?? this.xs.at(-1));
    this.mark(this.xs[Math.max(0, Math.min(this.xs.length - 1, now + move))]);
  }

  mark(x) {
    this.marked = x;
    const left = this.x(x);
    const shown = this.series.filter((one) => !this.hidden.has(one.name));
    const rows = shown.map((one) => ({ one, y: smooth(one.points, this.weight).find(([at]) => at === x)?.[1], band: one.band?.find(([at]) => at === x) }))
      .filter(({ y }) => y !== undefined);
    show(this.cursor, s("line", { x1: left, x2: left, y1: MARGIN.top, y2: this.height - MARGIN.bottom }),
      rows.map(({ one, y }) => s("circle", { cx: left, cy: this.y(y), r: 4, fill: one.color })));
    show(this.tip, h("b", {}, `step ${x}`), rows.map(({ one, y, band }) => h("div", {},
      h("i", { style: { backgroundColor: one.color } }), `${one.name}  `,
      h("b", {}, this.format(y)), band ? ` [${this.format(band[1])}, ${this.format(band[2])}]` : "")));
    this.tip.hidden = false;
    const width = this.plot.clientWidth;
    this.tip.style.left = `${Math.min(Math.max(0, left + 12), Math.max(0, width - this.tip.offsetWidth - 4))}px`;
    if (left + 12 + this.tip.offsetWidth > width) this.tip.style.left = `${Math.max(0, left - 12 - this.tip.offsetWidth)}px`;
    this.plot.setAttribute("aria-label", `${this.title}, step ${x}: ${rows.map(({ one, y }) => `${one.name} ${this.format(y)}`).join(", ")}`);
  }

  leave() {
    this.marked = null;
    this.tip.hidden = true;
    if (this.cursor) show(this.cursor);
  }

  describe(shown) {
    const parts = shown.filter((one) => one.points.length).map((one) => {
      const [first, last] = [one.points[0], one.points.at(-1)];
      return `${one.name} from ${this.format(first[1])} at step ${first[0]} to ${this.format(last[1])} at step ${last[0]}`;
    });
    return `${this.title}: ${parts.join("; ") || "no values"}. Arrow keys read single steps.`;
  }
}

/** A small curve without axes. */
export function spark(values, width = 120, height = 28) {
  const known = values.filter((value) => value !== null);
  if (known.length < 2) return h("span", { class: "muted" }, "–");
  const [low, high] = [Math.min(...known), Math.max(...known)];
  const x = (index) => 2 + (index / (values.length - 1)) * (width - 4);
  const y = (value) => height - 3 - ((value - low) / (high - low || 1)) * (height - 6);
  const d = values.map((value, index) => (value === null ? "" : `${index ? "L" : "M"}${x(index).toFixed(1)} ${y(value).toFixed(1)}`)).join("").replace(/^L/, "M");
  return s("svg", { class: "spark", width, height, viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": `reward from ${number(known[0])} to ${number(known.at(-1))}` },
    s("path", { d, class: "line", stroke: color(0) }), s("circle", { cx: x(values.length - 1), cy: y(values.at(-1) ?? low), r: 2.5, fill: color(0) }));
}
