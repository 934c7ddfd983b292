"""Finding known words again in rendered text, so that the rest is known to be the template's."""

import json
from collections.abc import Callable, Sequence

from agentfly.chat.safe_encode import Piece


def _in_json(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)[1:-1]


_CHANGES: tuple[Callable[[str], str], ...] = (
    lambda text: text,
    lambda text: text.strip(),
    _in_json,
    lambda text: _in_json(text.strip()),
    lambda text: text.lstrip(),
    lambda text: text.rstrip(),
)
"""What templates do to the words they are given."""


def align(rendered: str, fixed: Sequence[str], words: Sequence[str]) -> list[Piece] | None:
    """Split a rendering into the template's text and the words between; None if they don't fit.

    >>> [piece.text for piece in align("<u>hi</u>", ["<u>", "</u>"], [" hi "])]
    ['<u>', 'hi', '</u>']
    """
    if not rendered.startswith(fixed[0]):
        return None
    pieces = [Piece(fixed[0], trusted=True)]
    position = len(fixed[0])
    for word, following in zip(words, fixed[1:], strict=True):
        found = _find(rendered, position, word, following)
        if found is None:
            return None
        pieces += (Piece(found, trusted=False), Piece(following, trusted=True))
        position += len(found) + len(following)
    return pieces if position == len(rendered) else None


def splice(fixed: Sequence[str], words: Sequence[str]) -> list[Piece]:
    """Put words between the template's own text without asking the template."""
    pieces = [Piece(fixed[0], trusted=True)]
    for word, following in zip(words, fixed[1:], strict=True):
        pieces += (Piece(word, trusted=False), Piece(following, trusted=True))
    return pieces


def shared_length(one: str, other: str) -> int:
    """Return how long the part is with which both texts begin.

    >>> shared_length("<|end|>", "<|eot|>")
    3
    """
    pairs = zip(one, other, strict=False)
    shortest = min(len(one), len(other))
    return next((i for i, (a, b) in enumerate(pairs) if a != b), shortest)


def around(text: str, marks: Sequence[str]) -> tuple[str, ...] | None:
    """Return the text around marks; None unless each stands in it exactly once, in order.

    >>> around("<a>X<b>Y", ["X", "Y"])
    ('<a>', '<b>', '')
    """
    fixed: list[str] = []
    for mark in marks:
        if text.count(mark) != 1:
            return None
        before, _, text = text.partition(mark)
        fixed.append(before)
    return (*fixed, text)


def _find(rendered: str, position: int, word: str, following: str) -> str | None:
    for change in _CHANGES:
        changed = change(word)
        if rendered.startswith(changed, position) and rendered.startswith(
            following, position + len(changed)
        ):
            return changed
    return None
