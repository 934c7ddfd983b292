"""How hard a generated shop is."""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType


@dataclass(frozen=True, slots=True, kw_only=True)
class Level:
    """What products have and goals ask for."""

    products: int
    """How many there are unless told otherwise."""
    kinds: int
    """How many kinds of things each department sells."""
    attributes: int
    """True of each product."""
    wanted_attributes: int
    """Of which a goal asks for so many."""
    titled_attributes: int
    """And the title says so many."""
    options: int
    """Names of options at most: color, size."""
    values: int
    """Of each option at most."""
    brands: bool
    """Whether titles begin with a brand."""
    price_ranges: float
    """Share of products with two prices, of which the one that counts is not shown."""


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
