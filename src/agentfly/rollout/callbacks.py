"""Users' callbacks: calling them, and the text of each token for `on_event`."""

from collections.abc import Callable, Sequence
from typing import TypeVar

from agentfly.errors import CallbackError, boundary

T = TypeVar("T")


def call_user(callback: Callable[[T], None], value: T, name: str) -> None:
    """Call a user's callback; an exception in it stops the run as a CallbackError."""
    with boundary(CallbackError, f"your {name}"):
        callback(value)


class TextStream:
    """Incremental decoder: the text that each new token adds, never half a character.

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
        if text.endswith("\ufffd") and len(self._window) < _MAX_WINDOW:
            return ""
        new = text[len(self._shown) :]
        self._window = [token_id]
        self._shown = self._decode(self._window)
        return new


_MAX_WINDOW = 6
"""Tokens after which an incomplete character is shown as it is: none has more than four bytes."""
