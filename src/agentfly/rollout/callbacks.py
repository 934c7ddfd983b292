"""Telling a user's callback."""

from collections.abc import Callable, Sequence
from typing import TypeVar

from agentfly.errors import CallbackError, boundary

T = TypeVar("T")


def call_user(callback: Callable[[T], None], news: T, name: str) -> None:
    """Call it; what it raises is nobody else's failure, and stops the run under its own name."""
    with boundary(CallbackError, f"your {name}"):
        callback(news)


class TextStream:
    """Tells what each new token adds to the text.

    A token's own text can depend on its neighbors, so a short window is decoded again each time
    rather than the token alone.
    """

    def __init__(self, decode: Callable[[Sequence[int]], str]) -> None:
        self._decode = decode
        self._window: list[int] = []
        self._shown = ""

    def add(self, token_id: int) -> str:
        """Return the new text; empty while a character is incomplete."""
        self._window.append(token_id)
        text = self._decode(self._window)
        if text.endswith("\ufffd") and len(self._window) < _PATIENCE:
            return ""
        new = text[len(self._shown) :]
        self._window = [token_id]
        self._shown = self._decode(self._window)
        return new


_PATIENCE = 6
"""A character has at most four bytes; what is still broken after this many tokens is shown so."""
