"""Goals: what a session is asked to buy, and their split into train, dev and test."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product as combinations
from math import isnan, prod
from random import Random
from typing import Any

from agentfly.environments.webshop.catalog import Catalog, Product, Request
from agentfly.errors import ConfigError
from agentfly.types import Seed

SHUFFLE = 233
"""Seed of the published order, in which the first 500 goals are for testing."""
TEST, DEV = 500, 1000
"""Maximum number of goals for testing and for development."""

_LIMITS = Seed(0).child("webshop", "price limit")
_TENS = tuple(10.0 * ten for ten in range(1, 100))


@dataclass(frozen=True, slots=True, kw_only=True)
class Goal:
    """A product to buy, with the instruction and the conditions for it."""

    id: str
    """Product and number among that product's goals: `B08ZRR3DZT.3`."""
    asin: str
    """Product that the goal was written for. Another product may earn the same reward."""
    instruction: str
    attributes: tuple[str, ...]
    options: tuple[str, ...] = ()
    """Values of options to choose."""
    option_names: tuple[str, ...] = ()
    """Names of those options, which the published reward compares too; none if people wrote it."""
    price_upper: float | None = None
    """Maximum price; None without a limit."""
    weight: float = 1.0
    """Rarity of the attributes: the mean of 1/count."""

    @classmethod
    def from_row(cls, row: Mapping[str, Any]) -> "Goal":
        """Read the fields of a task, from the kit's `tasks()` or written by a user."""
        missing = [key for key in ("asin", "instruction", "attributes") if key not in row]
        if missing:
            raise ConfigError(
                f"a WebShop task needs the fields asin, instruction and attributes, and may have "
                f"options and price_upper; it lacks {', '.join(missing)}"
            )
        options, names = _texts(row, "options"), _texts(row, "option_names")
        if names and len(names) != len(options):
            raise ConfigError(
                f"option_names of a WebShop task has a name for each of its options, or none: got "
                f"{len(names)} names and {len(options)} options"
            )
        return cls(
            id=str(row.get("id", row["asin"])),
            asin=str(row["asin"]),
            instruction=str(row["instruction"]),
            attributes=_texts(row, "attributes"),
            options=options,
            option_names=names,
            price_upper=_limit(row),
        )


def written_goals(catalog: Catalog) -> list[Goal]:
    """Make the goals of the rule-written requests: one for every combination of options.

    There is none where an option has no values, as in the published goals.
    """
    asked = [
        (product, request)
        for product in catalog.products
        if (request := catalog.requests.get(product.asin)) is not None
        and all(values for _, values in product.options)
    ]
    counts: Counter[str] = Counter()
    for product, request in asked:
        combinations_of_it = prod(len(values) for _, values in product.options)
        counts.update(dict.fromkeys(request.attributes, combinations_of_it))
    return [
        goal
        for product, request in asked
        for goal in _of_every_combination(product, request, _rarity(request, counts))
    ]


def human_goals(catalog: Catalog) -> list[Goal]:
    """Make one goal for each human-written request."""
    return [
        Goal(
            id=f"{product.asin}.h{number}",
            asin=product.asin,
            instruction=request.instruction + _price_words(upper),
            attributes=request.attributes,
            options=request.options or (),
            price_upper=upper,
        )
        for product in catalog.products
        for number, request in enumerate(catalog.human_requests.get(product.asin, ()))
        for upper in [price_limit(product, number)]
    ]


def price_limit(product: Product, number: int = 0) -> float | None:
    """Draw a price limit: the larger of two of the next four multiples of ten.

    >>> price_limit(Product(asin="G1", title="Mug", price=12.0)) in (30.0, 40.0, 50.0)
    True
    >>> price_limit(Product(asin="G1", title="Yacht", price=985.0)) is None
    True
    """
    above = [ten for ten in _TENS if ten > product.price][:4]
    if len(above) < 2:
        return None
    return max(_LIMITS.child(product.asin, number).random().sample(above, 2))


@dataclass(frozen=True, slots=True, kw_only=True)
class Split:
    """Goals for training, development and testing."""

    train: tuple[Goal, ...]
    dev: tuple[Goal, ...] = ()
    test: tuple[Goal, ...]


def split_goals(goals: Sequence[Goal], held_out: frozenset[str] = frozenset()) -> Split:
    """Split goals in the published order, or by product where products are held out.

    With fewer than 3,000 goals the published sizes would leave less than half of them for training:
    then a sixth, but at least one, is for testing and a third for development.
    """
    shuffled = list(goals)
    Random(SHUFFLE).shuffle(shuffled)
    if not held_out:
        test = min(TEST, max(1, len(shuffled) // 6))
        dev = min(DEV, len(shuffled) // 3)
        return Split(
            test=tuple(shuffled[:test]),
            dev=tuple(shuffled[test : test + dev]),
            train=tuple(shuffled[test + dev :]),
        )
    return Split(
        train=tuple(goal for goal in shuffled if goal.asin not in held_out),
        test=tuple(goal for goal in shuffled if goal.asin in held_out),
    )


def _texts(row: Mapping[str, Any], key: str) -> tuple[str, ...]:
    texts = row.get(key, ())
    if not isinstance(texts, list | tuple) or not all(isinstance(text, str) for text in texts):
        raise ConfigError(f"{key} of a WebShop task is a list of texts, got {texts!r:.80}")
    return tuple(texts)


def _limit(row: Mapping[str, Any]) -> float | None:
    upper = row.get("price_upper")
    if upper is None:
        return None
    if isinstance(upper, bool) or not isinstance(upper, int | float) or isnan(upper):
        raise ConfigError(
            "price_upper of a WebShop task is a number of dollars, or null without a limit, "
            f"got {upper!r:.80}"
        )
    return float(upper)


def _of_every_combination(product: Product, request: Request, weight: float) -> Iterator[Goal]:
    upper = price_limit(product)
    names, offered = zip(*sorted(product.options), strict=True) if product.options else ((), ())
    for number, values in enumerate(combinations(*offered)):
        chosen = zip(names, values, strict=True)
        wanted = ", and ".join(f"{name}: {value}" for name, value in chosen)
        yield Goal(
            id=f"{product.asin}.{number}",
            asin=product.asin,
            instruction=request.instruction
            + (f" with {wanted}" if wanted else "")
            + _price_words(upper),
            attributes=request.attributes,
            options=values,
            option_names=names,
            price_upper=upper,
            weight=weight,
        )


def _price_words(upper: float | None) -> str:
    return "" if upper is None else f", and price lower than {upper:.2f} dollars"


def _rarity(request: Request, counts: Counter[str]) -> float:
    return sum(1 / counts[attribute] for attribute in request.attributes) / len(request.attributes)
