"""Validation of one raw record of the official files, and its conversion to a product."""

import re
from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel, ConfigDict, ValidationError

from agentfly.environments.webshop.catalog.product import Product
from agentfly.errors import FormatError
from agentfly.types import Seed

DEFAULT_PRICE = 100.0
"""Price of a product that has none in the files."""
MAX_ASIN = 10
"""Maximum length of an asin; longer ones, and `nan`, are errors of the data collection."""

_PRICES = Seed(0).child("webshop", "price")
_NOT_PRICE = re.compile(r"[^\d.]")


class _Choice(BaseModel):
    value: str


class _Record(BaseModel):
    """The keys of a record that are used; it has many more."""

    model_config = ConfigDict(extra="ignore", coerce_numbers_to_str=True)

    asin: str
    name: str
    full_description: str | None = None
    pricing: str | list[float] | None = None
    product_category: str | None = None
    small_description: list[str | None] | str | None = None
    customization_options: dict[str, list[_Choice] | None] | str | None = None
    query: str | None = None


def read_product(
    raw: Mapping[str, Any], attributes: tuple[str, ...] = (), *, where: str = "a product"
) -> Product | None:
    """Return the product of a record; None for records that the shop never lists.

    >>> raw = {"asin": "B01", "name": "Mug", "pricing": "$5.00$7.00", "query": "Mugs "}
    >>> mug = read_product(raw)
    >>> mug.price_tag, 5 <= mug.price <= 7, mug.query
    ('$5.0 to $7.0', True, 'mugs')
    """
    try:
        record = _Record.model_validate(raw)
    except ValidationError as error:
        first = error.errors()[0]
        key = ".".join(map(str, first["loc"]))
        raise FormatError(f"{where}: {key or 'the record'}: {first['msg']}") from None
    if record.asin == "nan" or len(record.asin) > MAX_ASIN:
        return None
    prices = read_prices(record.pricing, where)
    return Product(
        asin=record.asin,
        title=record.name,
        description=record.full_description or "",
        features=_features(record.small_description),
        price=_price(record.asin, prices),
        price_tag=" to ".join(f"${price}" for price in prices),
        options=_options(record.customization_options),
        attributes=attributes,
        query=(record.query or "").lower().strip(),
        categories=category_names(record.product_category or ""),
    )


def read_prices(pricing: str | list[float] | None, where: str = "a product") -> tuple[float, ...]:
    """Return one price, or the two ends of a range.

    >>> read_prices("$1,299.50"), read_prices("$19.99$27.99"), read_prices("")
    ((1299.5,), (19.99, 27.99), (100.0,))
    """
    if isinstance(pricing, str):
        texts = [_NOT_PRICE.sub("", part) for part in pricing.split("$")[1:]]
        try:
            pricing = [float(text) for text in texts]
        except ValueError:
            raise FormatError(
                f"{where}: pricing: expected prices such as '$19.99$27.99', got {pricing!r}"
            ) from None
    return tuple(pricing[:2]) if pricing else (DEFAULT_PRICE,)


def category_names(path: str) -> frozenset[str]:
    """Return the names along a path.

    >>> sorted(category_names("Home › Tables › Sofa Tables"))
    ['Home', 'Sofa Tables', 'Tables']
    """
    return frozenset(name.strip() for name in path.split("›"))


def _price(asin: str, prices: tuple[float, ...]) -> float:
    """Return the price, drawn from a range with a fixed seed: the same in every process."""
    if len(prices) == 1:
        return prices[0]
    return _PRICES.child(asin).random().uniform(*prices)


def _features(bullets: list[str | None] | str | None) -> tuple[str, ...]:
    if isinstance(bullets, list):
        return tuple(bullet or "" for bullet in bullets)
    return (bullets or "",)


def _options(
    choices: dict[str, list[_Choice] | None] | str | None,
) -> tuple[tuple[str, tuple[str, ...]], ...]:
    if not isinstance(choices, dict):
        return ()
    named = {
        name.lower(): tuple(choice.value.strip().replace("/", " | ").lower() for choice in offered)
        for name, offered in choices.items()
        if offered is not None
    }
    return tuple(named.items())
