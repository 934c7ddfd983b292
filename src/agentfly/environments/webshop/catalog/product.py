"""A product as the shop keeps it."""

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Product:
    """Everything that a page shows, a search finds and a reward weighs.

    There is one object of it in a shop, which is what caches know it by.
    """

    asin: str
    """What it is known by: `B06Y3VLDFB`."""
    title: str
    description: str = ""
    features: tuple[str, ...] = ()
    """Its bullet points."""
    price: float = 100.0
    """What is really paid; one draw between the two where the tag names two prices."""
    price_tag: str = "$100.0"
    """What is shown: `$19.99`, or `$19.99 to $27.99`."""
    options: tuple[tuple[str, tuple[str, ...]], ...] = ()
    """What can be chosen: `(("color", ("red", "blue")), ("size", ("small",)))`."""
    attributes: tuple[str, ...] = ()
    """What is known to be true of it: `("easy clean", "solid wood")`."""
    query: str = ""
    """The words by which such things are looked for: `console tables`."""
    categories: frozenset[str] = frozenset()
    """The names along its path through the departments."""

    @property
    def indexed_text(self) -> str:
        """What a search looks through.

        >>> Product(asin="G1", title="Red Scarf", options=(("size", ("s", "m")),)).indexed_text
        'red scarf   size: s, m'
        """
        options = ", and ".join(f"{name}: {', '.join(values)}" for name, values in self.options)
        first_feature = self.features[0] if self.features else ""
        return " ".join((self.title, self.description, first_feature, options)).lower()


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """Somebody's words for one product."""

    instruction: str
    """`Find me easy clean console tables`."""
    attributes: tuple[str, ...]
    options: tuple[str, ...] | None = None
    """The values asked for, of a person's request. None of a written one, which then is asked for
    with every combination of its product's options."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Catalog:
    """All products in order, and what is asked for, by the product's asin."""

    products: tuple[Product, ...]
    requests: Mapping[str, Request] = field(default_factory=dict)
    """At most one for each product, written by rule."""
    human_requests: Mapping[str, tuple[Request, ...]] = field(default_factory=dict)
    """What people wrote."""
    held_out: frozenset[str] = frozenset()
    """Products that only held-out goals ask for; empty where goals are split otherwise."""
