"""Text around marks: what a template writes on both sides of words that it was given."""

from collections.abc import Sequence

from agentfly.chat.safe_encode import Piece


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
