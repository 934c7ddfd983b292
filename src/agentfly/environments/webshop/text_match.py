"""Words of titles and queries."""

import re

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
"""English words of the closed classes: all but nouns, adjectives, verbs and most adverbs."""

_WORD = re.compile(r"\b[^\W\d_]\w*")


def content_words(text: str) -> list[str]:
    """Return the words of a title that may be nouns, repeated ones included.

    What begins with a digit is left out.

    >>> content_words("Sofa-Table for 2 Sofas, 42W")
    ['sofa', 'table', 'sofas']
    """
    return [word for word in _WORD.findall(text.lower()) if word not in FUNCTION_WORDS]
