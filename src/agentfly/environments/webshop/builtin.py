"""WebShop as a built-in environment: its definition and its reward."""

from contextlib import AbstractContextManager
from functools import partial

from agentfly.environments.index import INDEX
from agentfly.environments.kit import EnvironmentDefinition, Kit
from agentfly.environments.webshop.environment import WebShop
from agentfly.environments.webshop.options import WebShopOptions
from agentfly.environments.webshop.players import (
    gold_player,
    play_expert,
    random_player,
    to_player,
)
from agentfly.environments.webshop.shop import held_out_tasks, training_tasks
from agentfly.environments.webshop.tools import one_tool, three_tools
from agentfly.rewards import reward
from agentfly.runtime.http import require_server_packages
from agentfly.runtime.http.address import Listen
from agentfly.types import EnvSpec, Reward, Score, Tool


def purchase_reward(shop: EnvSpec) -> Reward:
    """Return the reward of a chain: the score of its purchase, and 0 without one."""

    @reward(name="purchase", env=shop, range=(0, 1))
    def purchase(env: WebShop) -> Score:
        verdict = env.verdict
        if verdict is None:
            return Score(value=0.0, parts={"success": 0.0, "bought": 0.0})
        return Score(value=verdict.reward, parts={**verdict.parts, "bought": 1.0})

    return purchase


_SYSTEM_PROMPTS = {
    "tools": "Buy what the instruction asks for: search, open a product, click its options, buy.",
    "tool": "Buy what the instruction asks for: search[words], click[product], click[option], "
    "click[buy now].",
    "text": "Buy what the instruction asks for. Say one action at a time and nothing else: "
    "search[words], click[product], click[option], click[buy now].",
    "last_line": "Buy what the instruction asks for. Compare prices, then say one action on the "
    "last line: search[words], click[product], click[option], click[buy now].",
}


def make_webshop(options: WebShopOptions) -> Kit:
    """Make the kit for one choice of options. The shop is opened when it is first used."""
    choices = options.model_dump(mode="json", exclude_defaults=True)
    shop = EnvSpec(WebShop, tuple(sorted(choices.items())))
    return Kit(
        tasks=partial(training_tasks, options),
        eval_tasks=partial(held_out_tasks, options),
        tools=_tools(options, shop),
        reward=purchase_reward(shop),
        environment=shop,
        system_prompt=_SYSTEM_PROMPTS[options.actions],
        max_turns=options.max_turns,
        expert=to_player(play_expert, options.actions, compares=options.actions == "last_line"),
        gold=to_player(gold_player(options), options.actions),
        random=to_player(random_player(options), options.actions),
        pages=partial(_site, options),
    )


def _tools(options: WebShopOptions, shop: EnvSpec) -> tuple[Tool, ...]:
    if options.actions in {"text", "last_line"}:
        return ()
    return three_tools(shop) if options.actions == "tools" else one_tool(shop)


def _site(options: WebShopOptions, listen: Listen) -> AbstractContextManager[str]:
    require_server_packages("the shop as a site")
    from agentfly.environments.webshop.website import shop_site

    return shop_site(options, listen)


WEBSHOP = EnvironmentDefinition(
    name="webshop",
    summary=INDEX["webshop"].summary,
    options=WebShopOptions,
    make=make_webshop,
    requires=INDEX["webshop"].requires,
)
