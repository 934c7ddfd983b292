// Questions that people ask first of a run that misbehaves.

import { h, link, note, show, tableHead } from "./dom.js";
import { get, run } from "./data.js";
import { chainTable } from "./chains.js";
import { number, percent } from "./format.js";

export const QUESTIONS = {
  worse: "Chains that got worse since a step",
  tools: "Tools that fail",
  waits: "Longest waits",
  flat: "Groups without spread",
  publish: "What changed after the last publish",
};

/** One button for each question. */
export function questionButtons(name, current = "") {
  return h("p", { class: "asks" }, Object.entries(QUESTIONS).map(([key, title]) =>
    h("a", { class: "ask", href: link(["run", name, "ask", key]), "aria-current": key === current ? "page" : null }, title)));
}

/** The answer to a question. */
export async function questionView(body, { name, parts, query, signal, go }) {
  const key = parts[3];
  const place = h("div", {});
  show(body, h("div", { class: "head" }, h("h1", {}, QUESTIONS[key] ?? "Questions")), questionButtons(name, key), place);
  if (!QUESTIONS[key]) {
    show(place, note("Choose a question. Each is answered from all chains of the run."));
    return;
  }
  for (;;) {
    const search = query.step ? `?step=${encodeURIComponent(query.step)}` : "";
    const answer = await get(run(name, `/ask/${encodeURIComponent(key)}${search}`), signal);
    show(place, key === "worse" ? stepChoice(answer, (step) => go(["run", name, "ask", key], { step })) : null, h("p", { class: "sentence" }, answer.sentence),
      answer.indexed < 1 ? note(`${percent(answer.indexed)} of the chains are indexed so far.`) : null,
      answer.rows.length ? answerTable(name, answer) : null,
      answer.chains.length ? [h("h2", {}, "Chains to look at"), chainTable(name, answer.chains)] : null);
    if (answer.indexed >= 1 || signal.aborted) return;
  }
}

function stepChoice(answer, choose) {
  return h("label", { class: "slider" }, "since step", h("input", {
    type: "number", min: 0, max: answer.last_step, value: answer.step, onchange: (event) => choose(event.target.value),
  }), ` of ${answer.last_step}`);
}

function answerTable(name, answer) {
  const cell = (value) => {
    if (value !== null && typeof value === "object") return h("td", {}, h("a", { href: link(["run", name, "chains"], value.query) }, value.text));
    return h("td", { class: typeof value === "number" ? "right" : "" }, typeof value === "number" ? number(value) : value ?? "–");
  };
  return h("div", { class: "scroll" }, h("table", { class: "rows fit" },
    tableHead(answer.columns),
    h("tbody", {}, answer.rows.map((row) => h("tr", {}, row.map(cell))))));
}
