"""Goals as the rows of tasks."""

from collections.abc import Iterable, Iterator
from typing import Any

from agentfly.environments.webshop.goal import Goal, Split
from agentfly.environments.webshop.options import WebShopOptions
from agentfly.environments.webshop.shop import Shop, open_shop
from agentfly.errors import ConfigError


def training_tasks(options: WebShopOptions) -> list[dict[str, Any]]:
    """Return the goals to train on, as rows."""
    shop = open_shop(options)
    goals = _split(shop, options).train
    if not goals:
        raise ConfigError(
            "the catalog has one goal only, which is held out: training needs another one"
        )
    return list(_rows(shop, goals))


def held_out_tasks(options: WebShopOptions) -> list[dict[str, Any]]:
    """Return the goals to test on: the published 500, or those of the held-out products."""
    shop = open_shop(options)
    return list(_rows(shop, _split(shop, options).test))


def _split(shop: Shop, options: WebShopOptions) -> Split:
    return shop.human_goals if options.goals == "human" else shop.goals


def _rows(shop: Shop, goals: Iterable[Goal]) -> Iterator[dict[str, Any]]:
    for goal in goals:
        yield {
            "id": goal.id,
            "instruction": goal.instruction,
            "asin": goal.asin,
            "name": shop.product(goal.asin).title,
            "attributes": list(goal.attributes),
            "options": list(goal.options),
            "price_upper": goal.price_upper,
            "weight": goal.weight,
        }
