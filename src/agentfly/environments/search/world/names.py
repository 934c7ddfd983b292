"""Invented names, so that nothing can be answered from memory."""

from collections.abc import Callable, Iterator
from random import Random

ONSETS = "b br d dr f g gr h k kl l m n p pl r s sk t tr v z".split()  # noqa: SIM905
VOWELS = ("a", "e", "i", "o", "u", "ai", "ou")
CODAS = ("", "l", "m", "n", "r", "k", "x", "nd", "rt")


def invented_word(random: Random, syllables: int = 2) -> str:
    """Make up a word.

    >>> invented_word(Random(4))
    'Hidraix'
    """
    parts = [random.choice(ONSETS) + random.choice(VOWELS) for _ in range(syllables)]
    return ("".join(parts) + random.choice(CODAS)).capitalize()


class Names:
    """Gives each name once, and no word of one in another.

    A word that stood in two names would let a search for one find the other.
    """

    def __init__(self, random: Random, *, short: bool) -> None:
        self._random = random
        self._short = short
        self._words: set[str] = set()

    def new_name(self, kind: str) -> str:
        """Make up a name for something of this kind."""
        if self._short:
            return self._word()
        return _FULL[kind](self._fresh())

    def _fresh(self) -> Iterator[str]:
        while True:
            yield self._word()

    def _word(self) -> str:
        while (word := invented_word(self._random)).lower() in self._words:
            pass
        self._words.add(word.lower())
        return word


_FULL: dict[str, Callable[[Iterator[str]], str]] = {
    "person": lambda words: f"{next(words)} {next(words)}",
    "town": lambda words: next(words),
    "company": lambda words: f"{next(words)} Works",
    "book": lambda words: f"The {next(words)} of {next(words)}",
    "river": lambda words: f"River {next(words)}",
    "mountain": lambda words: f"Mount {next(words)}",
}
