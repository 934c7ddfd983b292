"""What is asked of the shop, before prices and choices make goals of it."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from agentfly.environments.webshop.catalog.product import Product


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
