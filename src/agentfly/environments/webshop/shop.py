"""The shop: one read-only catalog and index per process, and its goals as task rows."""

import threading
from collections.abc import Iterable, Iterator
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any

from agentfly.environments.webshop.catalog import Catalog, Product, load_catalog
from agentfly.environments.webshop.catalog.generated import generate_catalog
from agentfly.environments.webshop.goal import Goal, Split, human_goals, split_goals, written_goals
from agentfly.environments.webshop.options import WebShopOptions
from agentfly.environments.webshop.product_search import SearchIndex
from agentfly.errors import ConfigError

_opening = threading.Lock()


class Shop:
    """A catalog with a search index and goals."""

    def __init__(self, catalog: Catalog) -> None:
        self.catalog = catalog
        self._by_asin = {product.asin: product for product in catalog.products}
        self._index = SearchIndex(product.indexed_text for product in catalog.products)

    def product(self, asin: str) -> Product:
        """Return the product of this asin; ConfigError if the shop has none."""
        if asin not in self._by_asin:
            raise ConfigError(
                f"the shop has no product {asin!r} among its {len(self._by_asin)}: a task must be "
                "of the catalog that the environment's options name"
            )
        return self._by_asin[asin]

    def search(self, query: str) -> list[Product]:
        """Return the products found, best first."""
        return [self.catalog.products[place] for place in self._index.find(query)]

    @cached_property
    def goals(self) -> Split:
        """Goals that were written by rule."""
        goals = written_goals(self.catalog)
        if not goals:
            raise ConfigError(
                f"none of the {len(self._by_asin)} products is asked for: give some of them an "
                "instruction and instruction_attributes in items_ins_v2*.json"
            )
        return split_goals(goals, self.catalog.held_out)

    @cached_property
    def human_goals(self) -> Split:
        """Goals that people wrote."""
        goals = human_goals(self.catalog)
        if not goals:
            raise ConfigError(
                "there are no goals written by people: put an items_human_ins.json that asks for "
                "some of the products into the folder that `data` names, or choose "
                'goals = "written"'
            )
        return split_goals(goals)


def open_shop(options: WebShopOptions) -> Shop:
    """Return the shop of these options, which is made at the first call."""
    data = None if options.data is None else options.data.resolve()
    with _opening:
        return _shop(data, full=options.full, level=options.level, products=options.products)


@lru_cache(maxsize=8)
def _shop(data: Path | None, *, full: bool, level: str, products: int | None) -> Shop:
    if data is None:
        return Shop(generate_catalog(level, products))
    return Shop(load_catalog(data, full=full, limit=products))


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
            "option_names": list(goal.option_names),
            "price_upper": goal.price_upper,
            "weight": goal.weight,
        }
