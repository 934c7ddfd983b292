"""Making the catalog: the same level and number give the same shop, everywhere."""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import cycle, islice
from random import Random

from agentfly.environments.webshop.catalog import Catalog, Product, Request
from agentfly.environments.webshop.catalog.record import category_names
from agentfly.environments.webshop.generated.departments import DEPARTMENTS, Department
from agentfly.environments.webshop.generated.level import LEVELS, Level
from agentfly.environments.webshop.generated.wording import (
    HELD_OUT,
    TRAINING,
    brand_names,
    word_instruction,
)
from agentfly.types import Seed

HELD_OUT_SHARE = 5
"""Every fifth product is asked for by held-out goals only. The number of kinds is no multiple of
five at any level, so that there are such products of every kind."""


def generate_catalog(level: str, products: int | None = None) -> Catalog:
    """Make a catalog with its requests; held-out ones are worded otherwise.

    >>> shop = generate_catalog("easy", 50)
    >>> len(shop.products), len(shop.requests), len(shop.held_out)
    (50, 50, 10)
    """
    recipe = LEVELS[level]
    seed = Seed(0).child("webshop", level)
    training_brands, held_out_brands = brand_names(seed.child("brands").random())
    made = []
    for number, (department, kind) in enumerate(
        _kinds_in_turn(recipe, products or recipe.products)
    ):
        held_out = number % HELD_OUT_SHARE == HELD_OUT_SHARE - 1
        maker = _ProductDraw(
            recipe=recipe,
            department=department,
            kind=kind,
            brands=held_out_brands if held_out else training_brands,
            templates=HELD_OUT if held_out else TRAINING,
            random=seed.child(number).random(),
        )
        product = maker.product(f"G{number:04d}")
        made.append((product, maker.request(product), held_out))
    return Catalog(
        products=tuple(product for product, _, _ in made),
        requests={product.asin: request for product, request, _ in made},
        held_out=frozenset(product.asin for product, _, held_out in made if held_out),
    )


def _kinds_in_turn(recipe: Level, count: int) -> Iterator[tuple[Department, str]]:
    """Go through all kinds of things again and again."""
    shelves = [
        (department, kind)
        for department in DEPARTMENTS
        for kind in department.kinds[: recipe.kinds]
    ]
    return islice(cycle(shelves), count)


@dataclass(frozen=True, slots=True, kw_only=True)
class _ProductDraw:
    """One product's draw."""

    recipe: Level
    department: Department
    kind: str
    brands: tuple[str, ...]
    templates: tuple[str, ...]
    random: Random

    def product(self, asin: str) -> Product:
        attributes = tuple(self.random.sample(self.department.attributes, self.recipe.attributes))
        brand, style = self.random.choice(self.brands), self.random.choice(self.department.styles)
        prices = self._prices()
        return Product(
            asin=asin,
            title=self._title(brand, style, attributes),
            description=f"A {style.lower()} {self.kind} by {brand}.",
            features=(", ".join(attributes).capitalize(), *self._advice()),
            price=self.random.uniform(*prices) if len(prices) > 1 else prices[0],
            price_tag=" to ".join(f"${price}" for price in prices),
            options=self._options(),
            attributes=attributes,
            query=f"{self.kind}s",
            categories=category_names(f"{self.department.path} › {self.kind.title()}s"),
        )

    def request(self, product: Product) -> Request:
        wanted = tuple(self.random.sample(product.attributes, self.recipe.wanted_attributes))
        template = self.random.choice(self.templates)
        return Request(
            instruction=word_instruction(template, product.query, wanted), attributes=wanted
        )

    def _title(self, brand: str, style: str, attributes: tuple[str, ...]) -> str:
        named = f"{style} {self.kind.title()}"
        shown = [attribute.title() for attribute in attributes[: self.recipe.titled_attributes]]
        return ", ".join([f"{brand} {named}" if self.recipe.brands else named, *shown])

    def _advice(self) -> tuple[str, ...]:
        days = self.random.choice((14, 30, 60))
        return (f"Return it within {days} days",) if self.recipe.brands else ()

    def _options(self) -> tuple[tuple[str, tuple[str, ...]], ...]:
        names = list(self.department.options)[: self.recipe.options]
        offered = self.random.randint(1, len(names))
        return tuple(
            (name, self._values(self.department.options[name])) for name in names[:offered]
        )

    def _values(self, values: tuple[str, ...]) -> tuple[str, ...]:
        count = self.random.randint(2, min(self.recipe.values, len(values)))
        return tuple(self.random.sample(values, count))

    def _prices(self) -> tuple[float, ...]:
        lowest, highest = self.department.prices
        price = round(self.random.uniform(lowest, highest)) - 0.01
        if self.random.random() < self.recipe.price_ranges:
            return price, round(price * 1.3, 2)
        return (price,)
