"""Telling a user's callback."""

from collections.abc import Callable
from typing import TypeVar

from agentfly.errors import CallbackError, boundary

T = TypeVar("T")


def call_user(callback: Callable[[T], None], news: T, name: str) -> None:
    """Call it; what it raises is nobody else's failure, and stops the run under its own name."""
    with boundary(CallbackError, f"your {name}"):
        callback(news)
