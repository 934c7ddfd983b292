// Tokens, each colored by one of its numbers; the numbers are shown for the one that is pointed at.

import { h, show } from "./dom.js";
import { PALETTE, tint } from "./colors.js";
import { number } from "./format.js";

const BLUE = "#0072b2";
const VERMILION = "#d55e00";
const ORANGE = "#e69f00";
const PURPLE = "#8c6bb1";
const SHOWN = 4000;

/** Ways to color sampled tokens: what each means, and whether a chain has the numbers. */
export const COLORS = {
  mask: { title: "mask", has: () => true },
  logprob: { title: "log-probability", has: () => true },
  advantage: { title: "advantage", has: (chain) => some(chain, (token) => token.advantages) },
  entropy: { title: "entropy", has: (chain) => some(chain, (token) => token.entropies) },
  version: { title: "weights version", has: () => true },
};

const some = (chain, has) => chain.turns.some((turn) => turn.tokens && has(turn.tokens.sampled));

/** The range of the numbers of a chain, by which colors are scaled. */
export function ranges(chain) {
  const columns = chain.turns.filter((turn) => turn.tokens).map((turn) => turn.tokens.sampled);
  const of = (name) => columns.flatMap((column) => column[name] ?? []).filter((value) => value !== null);
  const most = (values) => values.reduce((high, value) => Math.max(high, Math.abs(value)), 0) || 1;
  return { advantage: most(of("advantages")), entropy: most(of("entropies")), versions: [...new Set(of("versions"))].sort((a, b) => a - b) };
}

function kindOf(sampled, index) {
  if (!sampled.trained) return "sampled";
  return sampled.trained[index] ? "trained" : "masked";
}

function fillOf(color, sampled, index, range) {
  if (color === "logprob") return tint(VERMILION, 0.75 * (1 - Math.exp(sampled.logprobs[index])));
  if (color === "version") return tint(PALETTE[range.versions.indexOf(sampled.versions[index]) % PALETTE.length], 0.3);
  if (color === "advantage") {
    const value = sampled.advantages?.[index];
    return value === null || value === undefined ? "" : tint(value < 0 ? VERMILION : BLUE, 0.6 * Math.abs(value) / range.advantage);
  }
  if (color === "entropy") {
    const value = sampled.entropies?.[index];
    return value === null || value === undefined ? "" : tint(PURPLE, 0.75 * value / range.entropy);
  }
  return { trained: tint(BLUE, 0.28), masked: "", sampled: tint(ORANGE, 0.35) }[kindOf(sampled, index)];
}

/** Text of a token in which white space can be seen. */
function visible(text) {
  return text.replaceAll("\n", "↵\n").replaceAll("\t", "→\t");
}

/** The sampled tokens of a turn; `view` has the chain's color, ranges and panel. */
export function sampledTokens(turn, view) {
  const { sampled } = turn.tokens;
  return tokenRow(sampled.ids.length, (index) => h("span", {
    class: `token ${kindOf(sampled, index)}`, "data-index": index,
    style: { backgroundColor: fillOf(view.color, sampled, index, view.range) },
  }, sampled.texts ? visible(sampled.texts[index]) : `${sampled.ids[index]} `), (index) => facts(turn, index), view, `sampled tokens of turn ${turn.index}`);
}

/** All tokens of a turn as the model saw them: context, then sampled, with ids on demand. */
export function rawTokens(turn, view) {
  const { context, sampled } = turn.tokens;
  const parts = [context, sampled];
  const split = context.ids.length;
  return tokenRow(split + sampled.ids.length, (position) => {
    const own = position < split ? context : sampled;
    const index = position < split ? position : position - split;
    const kind = position < split ? "context" : kindOf(sampled, index);
    const text = own.texts ? visible(own.texts[index]) : "";
    return h("span", { class: `token raw ${kind}`, "data-index": position,
      style: { backgroundColor: position < split ? "" : fillOf(view.color, sampled, index, view.range) } },
    text || "∅", h("small", {}, own.ids[index]));
  }, (position) => (position < split ? contextFacts(parts[0], position) : facts(turn, position - split)), view, `all tokens of turn ${turn.index}`);
}

function contextFacts(context, index) {
  return [["token", context.texts ? JSON.stringify(context.texts[index]) : "–"], ["id", context.ids[index]], ["kind", "context: never trained"]];
}

function facts(turn, index) {
  const { sampled } = turn.tokens;
  const logprob = sampled.logprobs[index];
  const kinds = { trained: "sampled, carries loss", masked: "sampled, masked: no loss", sampled: "sampled" };
  return [
    ["token", sampled.texts ? JSON.stringify(sampled.texts[index]) : "–"], ["id", sampled.ids[index]],
    ["kind", kinds[kindOf(sampled, index)]], ["log-probability", `${(logprob > -0.0005 ? 0 : logprob).toFixed(3)} (${number(100 * Math.exp(logprob))}%)`],
    ["advantage", number(sampled.advantages?.[index])], ["entropy", number(sampled.entropies?.[index])],
    ["weights", `v${sampled.versions[index]}`], ["turn", `${turn.index}, token ${index + 1} of ${sampled.ids.length}`],
  ];
}

/** A row of tokens: pointer, touch and arrow keys all lead to the panel. */
function tokenRow(total, make, factsOf, view, label) {
  const row = h("div", { class: "tokens", tabindex: 0, role: "group", "aria-label": `${label}: ${total}. Arrow keys read single tokens.` });
  let marked = null;
  const mark = (element) => {
    marked?.classList.remove("marked");
    marked = element;
    if (!element) { view.panel.clear(); return; }
    element.classList.add("marked");
    view.panel.show(factsOf(Number(element.dataset.index)), element);
  };
  const tokenOf = (event) => event.target.closest?.(".token");
  row.addEventListener("pointerover", (event) => { const found = tokenOf(event); if (found) mark(found); });
  row.addEventListener("pointerleave", (event) => { if (event.pointerType === "mouse") mark(null); });
  row.addEventListener("click", (event) => { const found = tokenOf(event); if (found) mark(found); });
  row.addEventListener("keydown", (event) => {
    const by = { ArrowRight: 1, ArrowLeft: -1, ArrowDown: 10, ArrowUp: -10 }[event.key];
    if (event.key === "Escape") mark(null);
    if (!by) return;
    event.preventDefault();
    const all = row.querySelectorAll(".token");
    const now = marked && row.contains(marked) ? [...all].indexOf(marked) : (by > 0 ? -1 : all.length);
    const next = all[Math.max(0, Math.min(all.length - 1, now + by))];
    mark(next);
    next?.scrollIntoView({ block: "nearest" });
  });
  row.addEventListener("blur", () => mark(null));
  fillFrom(row, 0, total, make);
  return row;
}

/** Add tokens in parts: a page of very many would be slow. */
function fillFrom(row, start, total, make) {
  const end = Math.min(total, start + SHOWN);
  const part = document.createDocumentFragment();
  for (let index = start; index < end; index += 1) part.append(make(index));
  row.append(part);
  if (end < total) {
    const more = h("button", { type: "button", class: "quiet", onclick: () => { more.remove(); fillFrom(row, end, total, make); } }, `${total - end} more tokens`);
    row.append(more);
  }
}

/** The panel with the numbers of one token: beside it, or at the bottom of a small screen. */
export class TokenPanel {
  constructor() {
    this.element = h("div", { class: "token-panel", role: "status", "aria-live": "polite", hidden: true });
  }

  show(rows, at) {
    show(this.element, h("dl", {}, rows.map(([name, value]) => [h("dt", {}, name), h("dd", {}, value)])));
    this.element.hidden = false;
    if (matchMedia("(max-width: 700px)").matches) { this.element.style.left = this.element.style.top = ""; return; }
    const { left, top } = this.beside(at) ?? this.near(at);
    this.element.style.left = `${left}px`;
    this.element.style.top = `${top}px`;
  }

  /** Right of the conversation, where there is room: nothing is covered. */
  beside(at) {
    const left = at.closest(".pair").getBoundingClientRect().left + at.closest(".bubble, .raw-side").offsetWidth + 12;
    const { clientWidth: width, clientHeight: height } = document.documentElement;
    if (at.closest(".with-raw") || left + this.element.offsetWidth + 8 > width) return null;
    return { left, top: Math.min(at.getBoundingClientRect().top, height - this.element.offsetHeight - 8) };
  }

  /** Below the token, or above it. */
  near(at) {
    const box = at.getBoundingClientRect();
    const { offsetWidth: width, offsetHeight: height } = this.element;
    const left = Math.max(8, Math.min(box.left, document.documentElement.clientWidth - width - 8));
    const below = box.bottom + 6 + height < document.documentElement.clientHeight;
    return { left, top: below ? box.bottom + 6 : Math.max(8, box.top - height - 6) };
  }

  clear() { this.element.hidden = true; }
}

/** What the colors mean. */
export function legendOf(color, range, source) {
  const key = (fill, text, kind = "") => h("span", { class: "key" }, h("i", { class: kind, style: { backgroundColor: fill } }), text);
  if (color === "logprob") return [key(tint(VERMILION, 0), "certain (p = 1)"), key(tint(VERMILION, 0.37), "p = 0.5"), key(tint(VERMILION, 0.75), "unlikely (p → 0)")];
  if (color === "advantage") return [key(tint(VERMILION, 0.6), number(-range.advantage)), key("", "0"), key(tint(BLUE, 0.6), number(range.advantage)), h("span", { class: "muted" }, "less likely / more likely after the step")];
  if (color === "entropy") return [key(tint(PURPLE, 0), "0 nats"), key(tint(PURPLE, 0.75), `${number(range.entropy)} nats`)];
  if (color === "version") return range.versions.map((version, index) => key(tint(PALETTE[index % PALETTE.length], 0.3), `v${version}`));
  if (source === "held_out") return [key(tint(ORANGE, 0.35), "sampled"), h("span", { class: "muted" }, "held out: never trained on")];
  const how = { recorded: "as recorded when it was trained", policy: "by the run's mask policy", unknown: "the run's own mask policy is not run here" }[source];
  return [key(tint(BLUE, 0.28), "trained"), key("", "masked", "masked"), source === "unknown" ? key(tint(ORANGE, 0.35), "sampled") : null, h("span", { class: "muted" }, how)];
}
