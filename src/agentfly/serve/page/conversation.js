// A chain as a conversation: messages, calls, results, states.

import { h } from "./dom.js";
import { rewardBadge } from "./chains.js";
import { count, number, whole } from "./format.js";
import { rawTokens, sampledTokens } from "./tokens.js";

const LONG = 1500;

/** All messages of a chain; `view` has the color, `raw` for tokens beside the text, and the panel. */
export function conversation(chain, view) {
  return h("div", { class: `talk by-${view.color} ${view.raw ? "with-raw" : ""}` },
    chain.tools.length ? toolList(chain.tools) : null,
    opening(chain.opening),
    chain.turns.map((turn) => turnBlock(turn, view)));
}

function toolList(tools) {
  return h("details", { class: "tools" }, h("summary", {}, `${count(tools.length, "tool")}: ${tools.map((tool) => tool.name).join(", ")}`),
    h("dl", {}, tools.map((tool) => [h("dt", { class: "mono" }, tool.name), h("dd", {}, tool.description)])));
}

/** The messages before the first turn; those of a worked example look like the model's own. */
function opening(messages) {
  const isExample = messages.some((message) => message.role === "assistant");
  return [isExample ? h("p", { class: "muted" }, "The prompt, with a worked example:") : null,
    messages.map((message) => bubble(message)),
    isExample ? h("p", { class: "muted" }, "From here on the model itself:") : null];
}

function bubble(message) {
  return h("article", { class: `bubble ${message.role}`, "aria-label": message.role },
    h("header", {}, message.name ? `${message.role} · ${message.name}` : message.role),
    longText(message.content), message.calls.map((call) => h("div", { class: "call" }, callLine(call))), pictures(message.images));
}

/** A text that is cut until it is asked for. */
function longText(text, kind = "") {
  if (text.length <= LONG) return text ? h("div", { class: `text ${kind}` }, text) : null;
  const box = h("div", { class: `text ${kind}` }, `${text.slice(0, LONG)}… `);
  const more = h("button", { type: "button", class: "quiet", onclick: () => { box.textContent = text; } }, `${whole(text.length - LONG)} more characters`);
  box.append(more);
  return box;
}

function pictures(images) {
  return images.map((image, index) => h("img", { src: image, alt: `image ${index + 1}`, class: "picture", loading: "lazy" }));
}

function turnBlock(turn, view) {
  const hasTokens = turn.tokens !== null;
  const said = h("article", { class: "bubble assistant", "aria-label": `assistant, turn ${turn.index}` },
    h("header", {}, `assistant · turn ${turn.index}`,
      h("span", { class: "muted" }, [hasTokens ? `${turn.tokens.sampled.ids.length} tokens` : "no token ids", turn.finish, `temperature ${number(turn.temperature)}`].filter(Boolean).join(" · ")),
      turn.reward === null ? null : h("span", { class: "badge" }, `turn reward ${number(turn.reward)}`)),
    hasTokens && turn.tokens.sampled.texts ? sampledTokens(turn, view) : plainTurn(turn),
    hasTokens && turn.tokens.left_out ? h("p", { class: "muted" }, `${turn.tokens.left_out} more tokens are not shown.`) : null,
    turn.message.calls.map((call, index) => callBlock(call, turn.results[index])));
  const raw = view.raw && hasTokens ? h("aside", { class: "raw-side", "aria-label": "raw tokens" }, rawTokens(turn, view)) : null;
  return h("div", { class: "turn", id: `turn-${turn.index}` }, h("div", { class: "pair" }, said, raw),
    replies(turn).map((message) => bubble(message)), stateBlock(turn));
}

function plainTurn(turn) {
  return [turn.message.reasoning ? longText(turn.message.reasoning, "reasoning") : null, longText(turn.message.content)];
}

/** Replies that are not already shown as the result of a call. */
function replies(turn) {
  return turn.replies.filter((message) => message.images.length || !turn.results.some((result) => result.observation === message.content));
}

function callLine(call) {
  return h("div", { class: "mono" }, h("span", { class: "arrow", "aria-hidden": "true" }, "→ "), h("b", {}, call.name), `(${call.arguments})`);
}

function callBlock(call, result) {
  const status = result?.status ?? "not run";
  return h("div", { class: `call ${status === "ok" ? "" : "failed"}` },
    callLine(call),
    call.problem ? h("div", { class: "bad-text" }, call.problem) : null,
    result ? h("div", { class: "result" }, h("span", { class: `badge ${status === "ok" ? "good" : "bad"}` }, status),
      result.reward === null ? null : h("span", { class: "badge" }, `reward ${number(result.reward)}`),
      longText(result.observation, "mono"), pictures(result.images)) : null);
}

/** What the environment recorded of its state in a turn. */
function stateBlock(turn) {
  const rows = [];
  if (turn.state) rows.push(["state before", turn.state]);
  if (turn.invalid) rows.push(["action", "impossible"]);
  if (turn.info) rows.push(["info", turn.info]);
  for (const result of turn.results) {
    if (result.state) rows.push(["state after", result.state]);
    if (result.info) rows.push(["info", result.info]);
  }
  if (!rows.length) return null;
  return h("details", { class: "state" }, h("summary", {}, "state of the environment"), h("dl", {}, rows.map(([name, value]) =>
    [h("dt", {}, name), h("dd", {}, h("pre", {}, value))])));
}

/** A column of a group: the same conversation, as text. */
export function briefConversation(chain) {
  return h("div", { class: "talk brief" }, chain.turns.map((turn) => h("div", { class: "turn" },
    h("article", { class: "bubble assistant" }, h("header", {}, `turn ${turn.index}`), longText(turn.message.content), turn.message.calls.map((call, index) => callBlock(call, turn.results[index]))),
    replies(turn).map((message) => bubble(message)))));
}

/** Reward, its parts, and how the chain ended. */
export function outcome(chain) {
  return h("div", { class: "outcome" }, rewardBadge(chain.reward), h("span", { class: "badge" }, chain.stop),
    Object.entries(chain.parts).map(([name, value]) => h("span", { class: "badge" }, `${name} ${number(value)}`)),
    chain.attempt ? h("span", { class: "badge bad" }, `attempt ${chain.attempt + 1}`) : null,
    chain.error ? h("p", { class: "note error" }, chain.error) : null);
}
