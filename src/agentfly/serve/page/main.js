// The frame of the page: which view an address shows, keys that work everywhere, light and dark.

import { h, link, note, readAddress, show } from "./dom.js";
import { listen } from "./data.js";
import { chainView } from "./chain.js";
import { chainsView } from "./chains.js";
import { groupView } from "./group.js";
import { compareView, runsView } from "./runs.js";
import { questionView } from "./questions.js";
import { runView } from "./run.js";
import { settingsView } from "./settings.js";

const main = document.getElementById("main");
const crumbs = document.getElementById("crumbs");
let leaving = new AbortController();
let keys = {};
let shown = "";

const VIEWS = {
  chains: chainsView, chain: chainView, group: groupView, ask: questionView, settings: settingsView,
};

const TABS = [["", "Overview"], ["chains", "Chains"], ["ask", "Questions"], ["settings", "Settings"]];

/** Show what the address names. A view gets its element, its place, and a signal of its end. */
async function open() {
  leaving.abort();
  leaving = new AbortController();
  const { signal } = leaving;
  const { parts, query } = readAddress(location.hash);
  const [kind, name, tab = ""] = parts;
  const here = parts.join("/");
  const moved = here !== shown;
  shown = here;
  keys = {};
  const place = { name, query, parts, signal, keys: (more) => { keys = more; }, go, replace };
  const view = kind === "run" && name ? VIEWS[tab] ?? runView : kind === "compare" ? compareView : runsView;
  drawCrumbs(kind, name, tab);
  const root = h("div", { class: "view" });
  try {
    if (kind === "run" && name) root.append(drawTabs(name, tab));
    const body = h("div", {}, note(`Loading ${awaited(kind, name, tab)}…`));
    root.append(body);
    show(main, root);
    if (moved) { window.scrollTo(0, 0); }
    await view(body, place);
  } catch (error) {
    if (signal.aborted) return;
    show(main, note(error.message, "error"), h("p", {}, h("a", { href: "#/" }, "All runs")));
  }
}

/** What a view waits for, in words. */
function awaited(kind, name, tab) {
  if (kind === "compare") return "the metrics of the chosen runs";
  if (kind !== "run" || !name) return "the list of runs";
  const parts = { chains: "the chains", chain: "the chain", group: "the group", ask: "the answer", settings: "the settings" };
  return `${parts[tab] ?? "the metrics"} of ${name}`;
}

function go(parts, query) { location.hash = link(parts, query); }

/** Change the address without leaving the view. */
function replace(parts, query) {
  history.replaceState(null, "", link(parts, query));
  shown = parts.join("/");
}

function drawCrumbs(kind, name, tab) {
  const known = TABS.find(([key]) => key === tab)?.[1];
  const words = { chain: "Chain", group: "Group" };
  const inner = tab ? words[tab] ?? known : null;
  document.title = [inner, name, "AgentFly"].filter(Boolean).join(" · ");
  show(crumbs, h("a", { href: "#/" }, "Runs"),
    kind === "run" && name ? [h("span", {}, "/"), h("a", { href: link(["run", name]) }, name)] : null,
    kind === "compare" ? [h("span", {}, "/"), h("span", {}, "Compare")] : null,
    inner ? [h("span", { class: "wide" }, "/"), h("span", { class: "wide", "aria-current": "page" }, inner)] : null);
}

function drawTabs(name, tab) {
  const current = tab === "chain" || tab === "group" ? "chains" : tab;
  return h("nav", { class: "tabs", "aria-label": "Parts of the run" }, TABS.map(([key, title]) =>
    h("a", { href: link(key ? ["run", name, key] : ["run", name]), "aria-current": key === current ? "page" : null }, title)));
}

function switchTheme() {
  const dark = getComputedStyle(document.documentElement).colorScheme.includes("dark") && isDark();
  setTheme(dark ? "light" : "dark");
}

function isDark() {
  const chosen = document.documentElement.dataset.theme;
  return chosen ? chosen === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
}

function setTheme(theme) {
  document.documentElement.dataset.theme = theme;
  try { localStorage.setItem("theme", theme); } catch { /* A browser may keep nothing. */ }
}

const EVERYWHERE = {
  "?": ["this list", () => help()],
  d: ["dark or light", () => switchTheme()],
  h: ["all runs", () => go([])],
  "/": ["the search field", () => main.querySelector("input[type=search]")?.focus()],
};

function help() {
  const dialog = document.getElementById("keys");
  const rows = Object.entries({ ...EVERYWHERE, ...keys });
  show(dialog, h("h2", { id: "keys-title" }, "Keys"), h("dl", { class: "keys" }, rows.map(([key, [what]]) =>
    [h("dt", {}, h("kbd", {}, key)), h("dd", {}, what)])),
  h("form", { method: "dialog" }, h("button", {}, "Close")));
  dialog.showModal();
}

document.addEventListener("keydown", (event) => {
  const typing = event.target.closest?.("input, select, textarea, dialog");
  if (event.key === "Escape" && typing && typing.tagName !== "DIALOG") { typing.blur(); return; }
  if (typing || event.ctrlKey || event.metaKey || event.altKey) return;
  const found = keys[event.key] ?? EVERYWHERE[event.key];
  if (!found) return;
  event.preventDefault();
  found[1]();
});

try {
  const kept = localStorage.getItem("theme");
  if (kept === "dark" || kept === "light") setTheme(kept);
} catch { /* A browser may keep nothing. */ }

document.querySelector(".skip").addEventListener("click", (event) => {
  event.preventDefault();
  main.focus();
});
document.getElementById("theme").addEventListener("click", switchTheme);
document.getElementById("help").addEventListener("click", help);
listen((state) => {
  const live = document.getElementById("live");
  live.dataset.state = state;
  show(live, state === "live" ? "live" : "offline");
});
window.addEventListener("hashchange", open);
open();
