// The chains of one group side by side: same task, different attempts.

import { h, note, show } from "./dom.js";
import { get, run } from "./data.js";
import { chainLink } from "./chains.js";
import { briefConversation, outcome } from "./conversation.js";

/** A group by its file and id. */
export async function groupView(body, { name, query, signal }) {
  const search = new URLSearchParams({ file: query.file ?? "", group: query.group ?? "" });
  const group = await get(run(name, `/group?${search}`), signal);
  const rewards = group.chains.map((chain) => chain.reward).filter((reward) => reward !== null);
  const flat = rewards.length > 1 && Math.max(...rewards) === Math.min(...rewards);
  const question = group.chains[0]?.opening.filter((message) => message.role === "user").at(-1)?.content ?? "";
  show(body, h("div", { class: "head" }, h("h1", { class: "mono" }, group.group), h("span", { class: "muted" }, `step ${group.step}, ${group.count} chains`)),
    question ? h("p", { class: "question" }, question.slice(0, 500)) : null,
    flat ? note("All rewards are equal: nothing can be learned by comparing these chains.") : null,
    h("div", { class: "columns", tabindex: 0, role: "group", "aria-label": "chains side by side" }, group.chains.map((chain) => h("section", { class: "column", "aria-label": chain.chain },
      h("h2", {}, h("a", { href: chainLink(name, chain), class: "mono" }, chain.chain)), outcome(chain), briefConversation(chain)))));
}
