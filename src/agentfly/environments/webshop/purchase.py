"""The reward of a purchase (arXiv:2207.01206).

    reward = r_type * (attribute hits + option hits + [price within the limit])
                    / (attributes + options + 1)

`r_type` measures whether the product is of the right kind. It compares the nouns of two titles;
here all content words are taken for nouns.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

from agentfly.environments.webshop.catalog import Product
from agentfly.environments.webshop.goal import Goal
from agentfly.environments.webshop.text_match import (
    COLORS,
    content_words,
    plain_color,
    similarity,
)

SIMILAR_ABOVE = 85
"""Similarity, of at most 100, above which two texts match."""
TITLE_WITHOUT_NOUNS = 0.2
"""Title score where the wanted title has no nouns."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """The score of a purchase and its parts."""

    r_type: float
    title_score: float
    attribute_hits: int
    attributes: int
    option_hits: int
    options: int
    within_price: bool

    @property
    def reward(self) -> float:
        """Reward between 0 and 1.

        >>> Verdict(r_type=0.5, title_score=0.15, attribute_hits=1, attributes=2, option_hits=0,
        ...     options=1, within_price=True).reward
        0.25
        """
        hits = self.attribute_hits + self.option_hits + self.within_price
        return self.r_type * hits / (self.attributes + self.options + 1)

    @property
    def parts(self) -> dict[str, float]:
        """Parts of the reward, each between 0 and 1; only those that the goal asks for."""
        shares = {"type": self.r_type, "price": float(self.within_price)}
        if self.attributes:
            shares["attributes"] = self.attribute_hits / self.attributes
        if self.options:
            shares["options"] = self.option_hits / self.options
        return {**shares, "success": float(self.reward == 1.0)}


OptionMatch = Literal["published", "values"]


def judge(
    bought: Product,
    chosen: Iterable[str],
    goal: Goal,
    wanted: Product,
    *,
    option_match: OptionMatch = "published",
) -> Verdict:
    """Score a purchase with its chosen values against a goal and the product that it names."""
    as_pairs = option_match == "published" and goal.option_names
    options = _pairs(goal) if as_pairs else [plain_color(value) for value in goal.options]
    title_score = compare_titles(bought.title, wanted.title)
    return Verdict(
        r_type=type_factor(bought, wanted, title_score),
        title_score=title_score,
        attribute_hits=sum(_has_attribute(bought, attribute) for attribute in goal.attributes),
        attributes=len(goal.attributes),
        option_hits=_option_hits(list(chosen), options),
        options=len(goal.options),
        within_price=goal.price_upper is None or bought.price <= goal.price_upper,
    )


def compare_titles(bought: str, wanted: str) -> float:
    """Return the share of the wanted title's nouns that the other has; repeats count again.

    >>> compare_titles("Red Wool Scarf", "Long Wool Scarf for Men")
    0.5
    """
    nouns = content_words(wanted)
    if not nouns:
        return TITLE_WITHOUT_NOUNS
    return len(set(nouns) & set(content_words(bought))) / len(nouns)


def type_factor(bought: Product, wanted: Product, title_score: float) -> float:
    """Return `r_type`: 1 for the same kind of product, 0.5 or less for another one."""
    if title_score == 0:
        return 0.0
    if title_score < 0.1:
        return 0.1
    same_query = bought.query == wanted.query
    same_category = len(bought.categories & wanted.categories) >= 2
    return 1.0 if same_query or same_category or title_score > 0.2 else 0.5


def _has_attribute(product: Product, attribute: str) -> bool:
    if any(similarity(own, attribute) > SIMILAR_ABOVE for own in product.attributes):
        return True
    texts = (product.title, " ".join(product.features), product.description)
    return any(attribute in text.lower() for text in texts)


def _pairs(goal: Goal) -> list[str]:
    """Return the options as the published reward compares them: name and value as one text.

    Unlike the chosen values, they are not reduced to a plain color, unless the value is one. So the
    right value may be missed: of "tailored" only its "red" is compared.
    """
    pairs = zip(goal.option_names, goal.options, strict=True)
    return [next((color for color in COLORS if color in pair), str(pair)) for pair in pairs]


def _option_hits(chosen: Sequence[str], wanted: Sequence[str]) -> int:
    plain = [plain_color(value) for value in chosen]
    return sum(any(similarity(own, text) > SIMILAR_ABOVE for own in plain) for text in wanted)
