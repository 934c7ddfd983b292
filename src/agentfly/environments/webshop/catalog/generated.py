"""The generated catalog, a fixed function of level and number of products; nothing is scraped."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import cycle, islice
from random import Random
from types import MappingProxyType

from agentfly.environments.webshop.catalog import Catalog, Product, Request
from agentfly.environments.webshop.catalog.departments import DEPARTMENTS, Department
from agentfly.environments.webshop.catalog.product_record import category_names
from agentfly.types import Seed

TRAINING = (
    "Find me {attributes} {things}",
    "I am looking for {attributes} {things}",
    "Show me {things} that are {attributes}",
    "I want to buy {things}, {attributes}",
    "Help me choose {attributes} {things}",
    "I would like {things} with {attributes}",
)
HELD_OUT = (
    "I need {things} which should be {attributes}",
    "Could you order {attributes} {things} for me",
    "We are out of {things}, ideally get {attributes}",
)
_BEGINNINGS = "Bel Cor Dal Fen Gar Hol Jun Kes Lor Mar Nor Or Pel Quin Ros Sol Tam Ul Ver Wen"
_ENDINGS = "ado beck caster dine ella fort gate hurst iro land mont nell ova pine quist rane"


def brand_names(random: Random) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Make up brand names, for training products and for held-out ones."""
    names = [begin + end for begin in _BEGINNINGS.split() for end in _ENDINGS.split()]
    random.shuffle(names)
    cut = len(names) * 4 // 5
    return tuple(names[:cut]), tuple(names[cut:])


def word_instruction(template: str, things: str, attributes: tuple[str, ...]) -> str:
    """Fill the template of an instruction.

    >>> word_instruction(TRAINING[0], "mugs", ("oven safe", "lead free"))
    'Find me oven safe, lead free mugs'
    """
    return template.format(things=things, attributes=", ".join(attributes))


@dataclass(frozen=True, slots=True, kw_only=True)
class Level:
    """Difficulty of a generated shop: what products have and goals ask for."""

    products: int
    """Default number of products."""
    kinds: int
    """Number of kinds of products in each department."""
    attributes: int
    """Number of attributes of a product."""
    wanted_attributes: int
    """Number of those that a goal asks for."""
    titled_attributes: int
    """Number of those in the title."""
    options: int
    """Maximum number of options, such as color and size."""
    values: int
    """Maximum number of values of an option."""
    brands: bool
    """Whether titles start with a brand."""
    price_ranges: float
    """Share of products whose tag is a price range, which hides the actual price."""


LEVELS: Mapping[str, Level] = MappingProxyType(
    {
        "easy": Level(
            products=300,
            kinds=2,
            attributes=2,
            wanted_attributes=1,
            titled_attributes=2,
            options=1,
            values=3,
            brands=False,
            price_ranges=0.0,
        ),
        "medium": Level(
            products=3000,
            kinds=6,
            attributes=4,
            wanted_attributes=2,
            titled_attributes=2,
            options=2,
            values=4,
            brands=True,
            price_ranges=0.0,
        ),
        "hard": Level(
            products=3000,
            kinds=6,
            attributes=5,
            wanted_attributes=3,
            titled_attributes=1,
            options=3,
            values=5,
            brands=True,
            price_ranges=0.1,
        ),
    }
)


HELD_OUT_SHARE = 5
"""Every fifth product is asked for by held-out goals only. The number of kinds is no multiple of
five at any level, so that there are such products of every kind."""


def generate_catalog(level: str, products: int | None = None) -> Catalog:
    """Generate a catalog with its requests. Held-out requests use other wordings.

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
    """Cycle through all kinds of products."""
    shelves = [
        (department, kind)
        for department in DEPARTMENTS
        for kind in department.kinds[: recipe.kinds]
    ]
    return islice(cycle(shelves), count)


@dataclass(frozen=True, slots=True, kw_only=True)
class _ProductDraw:
    """The random draw of one product."""

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
