"""Text comparison of the published reward: content words, plain colors, fuzzy similarity."""

import re
from functools import cache, lru_cache
from typing import Any

from agentfly.runtime.extra import import_extra

_CLOSED_CLASSES = """
a about above across after against all along also am among an and any are around as at be
because been before behind being below beneath beside between beyond both but by can could did
do does down during each either every few for from had has have he her here hers him his how i
if in inside into is it its just like many may me might mine more most much must my near neither
no nor not of off on once one only onto or other our ours out outside over own per s same shall
she should since so some such t than that the their theirs them then there these they this
those through till to too toward under until up upon us very via was we were what when where
which while who whom whose why will with within without would you your yours
"""
FUNCTION_WORDS = frozenset(_CLOSED_CLASSES.split())
"""English words of the closed classes: no nouns, adjectives, verbs or usual adverbs."""

_NOT_ASCII = dict.fromkeys(range(128, 256))
_WORD = re.compile(r"\b[^\W\d_]\w*")


def content_words(text: str) -> list[str]:
    """Return the words of a title that may be nouns, repeated ones included.

    Words that begin with a digit are left out.

    >>> content_words("Sofa-Table for 2 Sofas, 42W")
    ['sofa', 'table', 'sofas']
    """
    return [word for word in _WORD.findall(text.lower()) if word not in FUNCTION_WORDS]


_COLOR_NAMES = """
alabaster apricot aqua ash asphalt azure banana beige black blue blush bordeaux bronze brown
burgundy camel camo caramel champagne charcoal cheetah chestnut chocolate christmas coffee
cognac copper coral cranberry cream crystal dark denim eggplant elephant espresso fuchsia gold
granite grape graphite grass gray green grey heather indigo ivory ivy khaki lavender lemon
leopard light lilac lime magenta maroon mauve merlot midnight mint mocha multicolor mushroom
mustard natural navy nude olive orange peach pewter pink plum purple rainbow red rose royal
rust sand sapphire seashell silver skull slate steel stone stonewash sunflower tan taupe teal
tiger turquoise violet walnut wheat white wine yellow
"""
COLORS = tuple(_COLOR_NAMES.split())
"""Plain color names, in the order in which the published reward tries them (arXiv:2207.01206)."""


def plain_color(value: str) -> str:
    """Return the first color of the list that occurs in a value; without one, the value.

    Any value is searched, also inside words, as in the published reward.

    >>> plain_color("dark navy blue"), plain_color("tailored"), plain_color("x-large")
    ('blue', 'red', 'x-large')
    """
    return next((color for color in COLORS if color in value), value)


@lru_cache(1 << 14)
def similarity(one: str, other: str) -> int:
    """Return the token set ratio of two texts, from 0 to 100, rounded as published.

    >>> similarity("essential oils", "oils, essential"), similarity("red", "redwood")
    (100, 60)
    """
    fuzz, default_process = _rapidfuzz()
    texts = [default_process(text.translate(_NOT_ASCII)) for text in (one, other)]
    ratio: float = fuzz.token_set_ratio(*texts)
    return round(ratio)


@cache
def _rapidfuzz() -> tuple[Any, Any]:
    fuzz, utils = (
        import_extra(f"rapidfuzz.{part}", extra="webshop", purpose="WebShop")
        for part in ("fuzz", "utils")
    )
    return fuzz, utils.default_process
