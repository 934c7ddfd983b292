// A run's settings, and where they differ from those of another.

import { h, link, note, show, tableHead } from "./dom.js";
import { get, run } from "./data.js";

/** The settings of a run, with those of another beside them. */
export async function settingsView(body, { name, query, signal, go }) {
  const [own, all] = await Promise.all([get(run(name, "/settings"), signal), get("/api/runs", signal)]);
  const other = query.with ?? "";
  const others = all.runs.map((one) => one.name).filter((one) => one !== name);
  const filter = h("input", { type: "search", placeholder: "Search settings", "aria-label": "Search settings", oninput: () => draw() });
  const choose = h("select", { "aria-label": "Compare with", onchange: (event) => go(["run", name, "settings"], { with: event.target.value }) },
    h("option", { value: "" }, "compare with…"), others.map((one) => h("option", { value: one, selected: one === other }, one)));
  const place = h("div", {});
  show(body, h("div", { class: "head" }, h("h1", {}, "Settings"), h("span", { class: "spacer" }), choose, other ? null : filter), place);
  if (other) {
    const theirs = await get(run(other, "/settings"), signal);
    show(place, differenceTable([name, other], [own, theirs]), h("p", {}, h("a", { href: link(["run", name, "settings"]) }, "All settings")));
    return;
  }

  function draw() {
    const words = filter.value.toLowerCase();
    const rows = own.settings.filter(([key, value]) => `${key} ${value}`.toLowerCase().includes(words));
    show(place, rows.length ? h("div", { class: "scroll" }, h("table", { class: "rows" }, h("tbody", {}, rows.map(([key, value]) =>
      h("tr", {}, h("th", { scope: "row", class: "mono" }, key), h("td", { class: "mono wrap" }, value)))))) : note("There are no such settings."));
  }
  draw();
}

/** A table of the settings in which runs differ. */
export function differenceTable(names, settings) {
  const maps = settings.map((one) => new Map(one.settings));
  const keys = [...new Set(maps.flatMap((map) => [...map.keys()]))];
  const differing = keys.filter((key) => new Set(maps.map((map) => map.get(key) ?? "–")).size > 1);
  if (!differing.length) return note("The settings are the same.");
  return h("div", { class: "scroll" }, h("table", { class: "rows" },
    tableHead(["setting", ...names]),
    h("tbody", {}, differing.map((key) => h("tr", {}, h("th", { scope: "row", class: "mono" }, key),
      maps.map((map) => h("td", { class: "mono wrap" }, map.get(key) ?? "–")))))));
}
