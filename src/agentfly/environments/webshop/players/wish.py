"""What an instruction asks for, read from its words alone."""

import re
from dataclasses import dataclass

from agentfly.environments.webshop.text_match import content_words

_PRICE = re.compile(r",? and price lower than ([\d.]+) dollars")
_OPTIONS = re.compile(r" with (?=(?:(?! with )[^:])+: )")
_INSTRUCTION = re.compile(r"Instruction:(?:\s|\[SEP\])*(.+?)\s*(?:\[SEP\]|\n|$)")

_AROUND = """
find show looking want buy help choose need order ideally get search please something item
"""
FILLER_WORDS = frozenset(_AROUND.split())
"""What people say around what they want."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ParsedInstruction:
    """An instruction, taken apart."""

    words: tuple[str, ...]
    """What kind of thing, and what is to be true of it."""
    options: tuple[str, ...]
    """Values to choose."""
    price: float
    """The most it may cost."""

    @property
    def query(self) -> str:
        """What to search for."""
        return " ".join((*self.words, *self.options))


def parse_instruction(observation: str) -> ParsedInstruction:
    """Read the first page.

    >>> parse_instruction("Instruction: Find me non stick pans with color: red, and size: 9 inch, "
    ...     "and price lower than 40.00 dollars")
    ParsedInstruction(words=('non', 'stick', 'pans'), options=('red', '9 inch'), price=40.0)
    """
    found = _INSTRUCTION.search(observation)
    text = found.group(1) if found else observation
    price = _PRICE.search(text)
    asked, *options = _OPTIONS.split(_PRICE.sub("", text), maxsplit=1)
    words = [word for word in content_words(asked) if word not in FILLER_WORDS]
    return ParsedInstruction(
        words=tuple(dict.fromkeys(words)),
        options=tuple(
            pair.partition(": ")[2] for pair in ", ".join(options).split(", and ") if pair
        ),
        price=float(price.group(1)) if price else float("inf"),
    )
