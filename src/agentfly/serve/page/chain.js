// One chain: its conversation with colored tokens, its time, its group, and what was recorded.

import { h, link, note, show } from "./dom.js";
import { get, run } from "./data.js";
import { chainLink, neighbor, rewardBadge, stem } from "./chains.js";
import { conversation, outcome } from "./conversation.js";
import { timeline } from "./timeline.js";
import { COLORS, TokenPanel, legendOf, ranges } from "./tokens.js";

/** A chain by its file and id; the color is part of the address, so that a link shows the same. */
export async function chainView(body, { name, query, signal, replace, keys, go }) {
  const search = new URLSearchParams({ file: query.file ?? "", chain: query.chain ?? "" });
  const chain = await get(run(name, `/chain?${search}`), signal);
  const panel = new TokenPanel();
  const range = ranges(chain);
  const available = Object.keys(COLORS).filter((key) => COLORS[key].has(chain));
  const view = { color: available.includes(query.color) ? query.color : "mask", raw: query.raw === "yes", panel, range };
  const tools = h("div", { class: "chain-tools" });
  const talk = h("div", {});
  const address = () => ({ file: stem(chain.file), chain: chain.chain, color: view.color === "mask" ? "" : view.color, raw: view.raw ? "yes" : "" });

  function draw() {
    replace(["run", name, "chain"], address());
    panel.clear();
    show(tools, toolbar(available, view, draw, chain));
    show(talk, conversation(chain, view));
  }

  const to = (by) => {
    const found = neighbor(chain.file, chain.chain, by);
    if (found) go(["run", name, "chain"], { file: stem(found[0]), chain: found[1], color: address().color, raw: address().raw });
  };
  show(body, heading(chain, name, to), chain.problems.map((problem) => note(problem)), timeline(chain.spans), tools, talk, details(chain), panel.element);
  keys({
    n: ["next chain of the table", () => to(1)], p: ["previous chain of the table", () => to(-1)],
    c: ["next color", () => { view.color = available[(available.indexOf(view.color) + 1) % available.length]; draw(); }],
    r: ["raw tokens beside the text", () => { view.raw = !view.raw; draw(); }],
    g: ["the group, side by side", () => go(["run", name, "group"], { file: stem(chain.file), group: chain.group })],
    t: ["back to the table", () => go(["run", name, "chains"])],
  });
  draw();
}

function heading(chain, name, to) {
  const step = (by, text, label) => h("button", { type: "button", class: "quiet", "aria-label": label, disabled: !neighbor(chain.file, chain.chain, by), onclick: () => to(by) }, text);
  return h("div", { class: "chain-head" },
    h("div", { class: "head" }, h("h1", { class: "mono" }, chain.chain), outcome(chain), h("span", { class: "spacer" }),
      step(-1, "←", "previous chain"), step(1, "→", "next chain"), copyButton()),
    h("p", { class: "chips" }, h("span", { class: "muted" }, `${chain.title} · group`),
      chain.siblings.map((row) => h("a", { class: "chip", href: chainLink(name, row), "aria-current": row.chain === chain.chain ? "true" : null, title: row.chain }, rewardBadge(row.reward))),
      chain.siblings.length > 1 ? h("a", { class: "chip", href: link(["run", name, "group"], { file: stem(chain.file), group: chain.group }) }, "side by side") : null));
}

function copyButton() {
  const button = h("button", { type: "button", class: "quiet", onclick: async () => {
    try {
      await navigator.clipboard.writeText(location.href);
      button.textContent = "copied";
    } catch { button.textContent = "copy the address bar"; }
    setTimeout(() => { button.textContent = "copy link"; }, 2000);
  } }, "copy link");
  return button;
}

function toolbar(available, view, draw, chain) {
  const option = (key) => h("label", { class: "option" }, h("input", {
    type: "radio", name: "color", value: key, checked: view.color === key, onchange: () => { view.color = key; draw(); },
  }), COLORS[key].title);
  return [h("fieldset", { class: "segments" }, h("legend", {}, "color by"), available.map(option)),
    h("label", { class: "option toggle" }, h("input", { type: "checkbox", checked: view.raw, onchange: () => { view.raw = !view.raw; draw(); } }), "raw tokens"),
    h("div", { class: "legend" }, legendOf(view.color, view.range, chain.mask_source))];
}

function details(chain) {
  const block = (title, text) => (text ? h("details", {}, h("summary", {}, title), h("pre", {}, text)) : null);
  return h("div", { class: "details" }, block("task", chain.fields), block("metadata", chain.metadata));
}
