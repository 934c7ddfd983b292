// Bars: stacked per step, and in rows with shares.

import { h, s, show } from "./dom.js";
import { color } from "./colors.js";
import { chartFrame, ticks } from "./chart.js";
import { number, percent } from "./format.js";

const MARGIN = { top: 8, right: 14, bottom: 26, left: 48 };

/** Stacked bars, one for each x. Series: {name, values: Map(x → y), color}. */
export class StackedBars {
  constructor({ title, about = "", height = 220, format = number, series = [] }) {
    Object.assign(this, { title, height, format, series }, chartFrame({ title, about, height }));
    this.plot.addEventListener("pointermove", (event) => this.point(event));
    this.plot.addEventListener("pointerleave", () => { this.tip.hidden = true; });
    this.plot.addEventListener("blur", () => { this.tip.hidden = true; });
    this.plot.addEventListener("keydown", (event) => this.key(event));
    new ResizeObserver(() => this.redraw()).observe(this.plot);
    this.redraw();
  }

  draw(series) {
    this.series = series;
    this.redraw();
  }

  redraw() {
    const width = this.plot.clientWidth;
    if (!width) return;
    this.drawn = this.series.map((one, index) => ({ ...one, color: one.color ?? color(index) }));
    this.scale(width);
    this.plot.setAttribute("viewBox", `0 0 ${width} ${this.height}`);
    const last = this.xs.at(-1);
    this.plot.setAttribute("aria-label", `${this.title}: ${last === undefined ? "no values" : this.read(last)}. Arrow keys read single steps.`);
    show(this.plot, this.axes(width), this.xs.map((x, index) => this.stack(x, index)));
    show(this.keys, this.drawn.map((one) => h("span", { class: "key" }, h("i", { style: { backgroundColor: one.color } }), one.name)));
  }

  scale(width) {
    this.xs = [...new Set(this.drawn.flatMap((one) => [...one.values.keys()]))].sort((a, b) => a - b);
    const total = (x) => this.drawn.reduce((sum, one) => sum + (one.values.get(x) ?? 0), 0);
    this.high = this.xs.reduce((most, x) => Math.max(most, total(x)), 0) || 1;
    this.slot = (width - MARGIN.left - MARGIN.right) / Math.max(1, this.xs.length);
    this.left = (index) => MARGIN.left + index * this.slot;
    this.y = (value) => this.height - MARGIN.bottom - (value / this.high) * (this.height - MARGIN.top - MARGIN.bottom);
  }

  axes(width) {
    const group = s("g", { class: "axes" });
    for (const value of ticks(0, this.high, this.height / 45)) {
      const y = this.y(value);
      group.append(s("line", { class: "grid", x1: MARGIN.left, x2: width - MARGIN.right, y1: y, y2: y }));
      group.append(s("text", { x: MARGIN.left - 7, y: y + 4, "text-anchor": "end" }, this.format(value)));
    }
    const every = Math.max(1, Math.ceil(this.xs.length / (width / 60)));
    this.xs.forEach((x, index) => {
      if (index % every === 0) group.append(s("text", { x: this.left(index) + this.slot / 2, y: this.height - 8, "text-anchor": "middle" }, String(x)));
    });
    return group;
  }

  /** The parts of one bar, from the bottom up. */
  stack(x, index) {
    const gap = this.slot > 6 ? Math.min(6, this.slot * 0.2) : 0;
    let base = 0;
    return this.drawn.map((one) => {
      const value = one.values.get(x) ?? 0;
      base += value;
      if (value <= 0) return null;
      const top = this.y(base);
      return s("rect", { x: this.left(index) + gap / 2, width: Math.max(0.5, this.slot - gap), y: top, height: Math.max(0, this.y(base - value) - top), fill: one.color, class: "bar-part" });
    });
  }

  read(x) {
    return `step ${x}: ${this.drawn.map((one) => `${one.name} ${this.format(one.values.get(x) ?? 0)}`).join(", ")}`;
  }

  point(event) {
    const at = event.clientX - this.plot.getBoundingClientRect().left;
    this.mark(Math.floor((at - MARGIN.left) / this.slot));
  }

  key(event) {
    const move = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
    if (!move) return;
    event.preventDefault();
    this.mark(Math.max(0, Math.min(this.xs.length - 1, (this.marked ?? this.xs.length) + move)));
  }

  mark(index) {
    const x = this.xs?.[index];
    if (x === undefined) { this.tip.hidden = true; return; }
    this.marked = index;
    const parts = this.drawn.filter((one) => one.values.get(x)).reverse();
    show(this.tip, h("b", {}, `step ${x}`), parts.map((one) => h("div", {},
      h("i", { style: { backgroundColor: one.color } }), `${one.name}  `, h("b", {}, this.format(one.values.get(x))))));
    this.tip.hidden = false;
    const width = this.plot.clientWidth;
    const left = this.left(index) + this.slot + 6;
    this.tip.style.left = `${left + this.tip.offsetWidth > width ? Math.max(0, this.left(index) - this.tip.offsetWidth - 6) : left}px`;
    this.plot.setAttribute("aria-label", `${this.title}, ${this.read(x)}`);
  }
}

/** Rows with a bar each. Rows: {name, value, note, href}. */
export function barRows(rows, { format = number, most = null, fill = color(0) } = {}) {
  const high = most ?? Math.max(...rows.map((row) => row.value), 1e-12);
  return h("table", { class: "bars" }, h("tbody", {}, rows.map((row) => h("tr", {},
    h("th", { scope: "row" }, row.href ? h("a", { href: row.href }, row.name) : row.name),
    h("td", { class: "track" }, h("div", { class: "fill", style: { width: percent(Math.min(1, row.value / high)), backgroundColor: row.color ?? fill } })),
    h("td", { class: "right" }, format(row.value)),
    row.note === undefined ? null : h("td", { class: "muted" }, row.note)))));
}
