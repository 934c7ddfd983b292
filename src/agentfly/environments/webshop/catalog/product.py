"""Products, the requests for them, and the catalog that holds both."""

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Product:
    """A product with all that pages, search and reward use.

    A shop has one object per product; caches compare it by identity.
    """

    asin: str
    """Id of the product: `B06Y3VLDFB`."""
    title: str
    description: str = ""
    features: tuple[str, ...] = ()
    """Bullet points."""
    price: float = 100.0
    """Price that is paid; drawn between the two prices where the tag is a range."""
    price_tag: str = "$100.0"
    """Price as it is shown: `$19.99`, or `$19.99 to $27.99`."""
    options: tuple[tuple[str, tuple[str, ...]], ...] = ()
    """Options with their values: `(("color", ("red", "blue")), ("size", ("small",)))`."""
    attributes: tuple[str, ...] = ()
    """Known attributes: `("easy clean", "solid wood")`."""
    query: str = ""
    """Search words for this kind of product: `console tables`."""
    categories: frozenset[str] = frozenset()
    """Names along its path through the departments."""

    @property
    def indexed_text(self) -> str:
        """Text that the search index holds.

        >>> Product(asin="G1", title="Red Scarf", options=(("size", ("s", "m")),)).indexed_text
        'red scarf   size: s, m'
        """
        options = ", and ".join(f"{name}: {', '.join(values)}" for name, values in self.options)
        first_feature = self.features[0] if self.features else ""
        return " ".join((self.title, self.description, first_feature, options)).lower()


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """An instruction for one product, before prices and options make goals of it."""

    instruction: str
    """`Find me easy clean console tables`."""
    attributes: tuple[str, ...]
    options: tuple[str, ...] | None = None
    """Values that a human-written request asks for. None for a rule-written one, which makes a goal
    for every combination of the product's options."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Catalog:
    """All products in order, and the requests by the product's asin."""

    products: tuple[Product, ...]
    requests: Mapping[str, Request] = field(default_factory=dict)
    """Rule-written requests, at most one per product."""
    human_requests: Mapping[str, tuple[Request, ...]] = field(default_factory=dict)
    """Human-written requests."""
    held_out: frozenset[str] = frozenset()
    """Products that only held-out goals ask for; empty where goals are split otherwise."""
