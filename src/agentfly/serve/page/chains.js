// The chains of a run as a table: filters, order, pages.

import { debounce, h, link, note, show } from "./dom.js";
import { concerns, get, onChange, run } from "./data.js";
import { tint } from "./colors.js";
import { count, number, percent, reward, seconds, whole } from "./format.js";

const PAGE = 50;
const COLUMNS = [
  ["step", "step"], ["task", "task"], ["reward", "reward"], ["stop", "stopped"], ["turns", "turns"], ["calls", "calls"],
  ["failed", "failed"], ["tokens", "tokens"], ["seconds", "time"], ["wait", "longest wait"], ["version", "weights"],
];

/** The table of chains, by the filters in the address. */
export async function chainsView(body, { name, query, signal, replace, keys, go }) {
  let asked = { sort: "step", order: "desc", ...query };
  let data = null;
  let latest = 0;
  const state = h("div", { role: "status" });
  const place = h("div", {});
  const filters = filterForm(asked, debounce((changed) => {
    asked = { ...asked, ...changed, offset: "" };
    load();
  }, 200));
  show(body, h("div", { class: "head" }, h("h1", {}, "Chains"), h("span", { class: "spacer" }), state), filters.element, place);

  async function load() {
    const own = (latest += 1);
    replace(["run", name, "chains"], asked);
    try {
      for (;;) {
        const search = new URLSearchParams(Object.entries({ ...asked, limit: PAGE }).filter(([, value]) => value !== ""));
        const got = await get(run(name, `/chains?${search}`), signal);
        if (own !== latest || signal.aborted) return;
        data = got;
        draw();
        const enough = data.rows.length === PAGE && asked.text && asked.sort === "step";
        if ((data.indexed >= 1 && data.searched >= 1) || enough) return;
      }
    } catch (error) {
      if (!signal.aborted && own === latest) show(place, note(error.message, "error"));
    }
  }

  function draw() {
    filters.choices(data.choices);
    const offset = Number(asked.offset || 0);
    const parts = [count(data.total, "chain")];
    if (data.total !== data.all) parts.push(`of ${whole(data.all)}`);
    if (data.indexed < 1) parts.push(`· indexing ${percent(data.indexed)}`);
    if (data.searched < 1) parts.push(`· searched ${percent(data.searched)}`);
    show(state, h("span", { class: "muted" }, parts.join(" ")));
    remember(data.rows);
    show(place, data.problems.map((problem) => note(problem, "error")),
      data.rows.length ? chainTable(name, data.rows, { asked, sort }) : note(data.indexed < 1 || data.searched < 1 ? "Looking…" : "No chain matches."),
      pager(offset));
  }

  function pager(offset) {
    if (data.total <= PAGE && !offset) return null;
    const to = (start) => { asked = { ...asked, offset: start ? String(start) : "" }; load(); };
    return h("nav", { class: "pager", "aria-label": "Pages" },
      h("button", { type: "button", disabled: offset === 0, onclick: () => to(Math.max(0, offset - PAGE)) }, "← Previous"),
      h("span", {}, `${whole(offset + 1)}–${whole(Math.min(offset + PAGE, data.total))} of ${whole(data.total)}`),
      h("button", { type: "button", disabled: offset + PAGE >= data.total, onclick: () => to(offset + PAGE) }, "Next →"));
  }

  function sort(column) {
    const same = asked.sort === column;
    asked = { ...asked, sort: column, order: same && asked.order === "desc" ? "asc" : "desc", offset: "" };
    load();
  }

  const page = (by) => { place.querySelectorAll(".pager button")[by]?.click(); };
  keys({
    j: ["next row", () => step(place, 1)], k: ["previous row", () => step(place, -1)], Enter: ["open the row", () => place.querySelector("tr.current a")?.click()],
    "]": ["next page", () => page(1)], "[": ["previous page", () => page(0)], r: ["best or worst rewards first", () => sort("reward")],
    x: ["clear all filters", () => go(["run", name, "chains"])],
  });
  onChange(debounce((changed) => { if (concerns(changed, name)) load(); }, 500), signal);
  await load();
}

function step(place, by) {
  const rows = [...place.querySelectorAll("tbody tr")];
  const now = rows.findIndex((row) => row.classList.contains("current"));
  const next = rows[Math.max(0, Math.min(rows.length - 1, now + by))];
  if (now >= 0) rows[now].classList.remove("current");
  next?.classList.add("current");
  next?.querySelector("a")?.focus();
}

/** Keep the order of the table, for the keys that go from chain to chain. */
function remember(rows) {
  sessionStorage.setItem("chains", JSON.stringify(rows.map((row) => [row.file, row.chain])));
}

/** The chain before or after another in the last table. */
export function neighbor(file, chain, by) {
  const rows = JSON.parse(sessionStorage.getItem("chains") ?? "[]");
  const now = rows.findIndex(([where, id]) => stem(where) === stem(file) && id === chain);
  return now < 0 ? null : rows[now + by] ?? null;
}

export const stem = (file) => file.split(".")[0];

export const chainLink = (name, row) => link(["run", name, "chain"], { file: stem(row.file), chain: row.chain });

/** A table of chains; `asked` and `sort` make its heads buttons. */
export function chainTable(name, rows, { asked = null, sort = null } = {}) {
  const head = ([key, title]) => {
    if (!sort) return h("th", { scope: "col" }, title);
    const own = asked.sort === key;
    const direction = asked.order === "desc" ? "descending" : "ascending";
    return h("th", { scope: "col", "aria-sort": own ? direction : "none" },
      h("button", { type: "button", class: "sort", onclick: () => sort(key) }, title, own ? (asked.order === "desc" ? " ↓" : " ↑") : ""));
  };
  return h("div", { class: "scroll" }, h("table", { class: "rows cards chains" }, h("thead", {}, h("tr", {}, COLUMNS.map(head))),
    h("tbody", {}, rows.map((row) => chainRow(name, row)))));
}

function chainRow(name, row) {
  return h("tr", {},
    h("td", { class: "right", "data-label": "step" }, row.held_out ? h("span", { class: "badge" }, `held out ${row.step}`) : row.step),
    h("td", { class: "main" }, h("a", { href: chainLink(name, row) }, row.question || row.task), h("span", { class: "muted mono sub" }, row.chain)),
    h("td", { class: "right", "data-label": "reward" }, rewardBadge(row.reward)),
    h("td", { "data-label": "stopped" }, row.stop, row.cause ? h("span", { class: "bad-text" }, ` ${row.cause}`) : null),
    h("td", { class: "right", "data-label": "turns" }, row.turns),
    h("td", { class: "right", "data-label": "calls" }, row.calls),
    h("td", { class: `right ${row.failed ? "bad-text" : "muted"}`, "data-label": "failed" }, row.failed),
    h("td", { class: "right", "data-label": "tokens" }, number(row.tokens)),
    h("td", { class: "right", "data-label": "time" }, seconds(row.seconds)),
    h("td", { "data-label": "longest wait" }, row.wait.kind ? `${seconds(row.wait.seconds)} ${row.wait.name || row.wait.kind}` : "–"),
    h("td", { class: "right", "data-label": "weights" }, row.version === null ? "–" : `v${row.version}`));
}

/** A reward, tinted by its value: vermilion at 0, blue at 1. */
export function rewardBadge(value) {
  const scored = value !== null && value !== undefined;
  const share = scored ? Math.max(0, Math.min(1, value)) : 0;
  const fill = scored ? (share >= 0.5 ? tint("#0072b2", 0.12 + 0.3 * (share - 0.5)) : tint("#d55e00", 0.12 + 0.3 * (0.5 - share))) : "transparent";
  return h("span", { class: `reward ${scored ? "" : "muted"}`, style: { backgroundColor: fill } }, reward(value));
}

function filterForm(asked, onChanged) {
  const field = (key, label, control) => h("label", { class: `field ${key}` }, h("span", {}, label), control);
  const input = (key, type, label, more = {}) => field(key, label, h("input", { type, name: key, value: asked[key] ?? "", oninput: (event) => onChanged({ [key]: event.target.value }), ...more }));
  const selects = {};
  const select = (key, label, options) => {
    selects[key] = h("select", { name: key, onchange: (event) => onChanged({ [key]: event.target.value }) }, options.map(([value, title]) => h("option", { value, selected: (asked[key] ?? "") === value }, title)));
    return field(key, label, selects[key]);
  };
  const any = [["", "any"]];
  const narrow = matchMedia("(max-width: 700px)").matches;
  const more = ["set", "from_step", "to_step", "min_reward", "max_reward", "stop", "tool", "failing", "scored"];
  const element = h("form", { class: "filters", role: "search", onsubmit: (event) => event.preventDefault() },
    input("text", "search", "text in the chain", { placeholder: "said, called or returned" }),
    input("task", "search", "task"),
    h("details", { class: "more", open: !narrow || more.some((key) => asked[key]) }, h("summary", {}, "more filters"), h("div", { class: "filters" },
    select("set", "set", [["", "all"], ["train", "training"], ["eval", "held out"]]),
    input("from_step", "number", "from step", { min: 0 }), input("to_step", "number", "to step", { min: 0 }),
    input("min_reward", "number", "reward ≥", { step: "any" }), input("max_reward", "number", "reward ≤", { step: "any" }),
    select("stop", "stopped", asked.stop ? [...any, [asked.stop, asked.stop]] : any),
    select("tool", "tool", asked.tool ? [...any, [asked.tool, asked.tool]] : any),
    select("failing", "calls", [["", "any"], ["yes", "that failed"]]),
    select("scored", "scored", [["", "any"], ["yes", "scored"], ["no", "unscored"]]))));
  function choices(found) {
    for (const [key, values] of [["stop", found.stops], ["tool", found.tools]]) {
      const now = selects[key].value;
      const options = Object.entries(values).map(([value, total]) => h("option", { value, selected: value === now }, `${value} (${whole(total)})`));
      if (now && !(now in values)) options.unshift(h("option", { value: now, selected: true }, now));
      show(selects[key], h("option", { value: "", selected: now === "" }, "any"), options);
    }
  }
  return { element, choices };
}
