"""Looking things up by a name that a person or a model wrote."""

import difflib
from collections.abc import Collection, Iterable, Mapping
from typing import TypeVar

from agentfly.errors import ConfigError

T = TypeVar("T")


def look_up(name: str, known: Mapping[str, T], what: str) -> T:
    """Return what a name stands for.

    >>> look_up("gpro", {"grpo": 1, "ppo": 2}, "algorithm")
    Traceback (most recent call last):
    agentfly.errors.ConfigError: unknown algorithm 'gpro'. Did you mean 'grpo'? Known: grpo, ppo.
    """
    return known[require_name(name, known, what)]


def require_name(name: str, known: Collection[str], what: str) -> str:
    """Return a name that must be one of those known.

    >>> require_name("grpo", ["grpo", "ppo"], "algorithm")
    'grpo'
    """
    if name not in known:
        raise ConfigError(f"unknown {what} {name!r}. {suggestion(name, known)}")
    return name


def suggestion(name: str, known: Iterable[str]) -> str:
    """Return a hint: the closest name, and all known names.

    >>> suggestion("serach", ["search", "open"])
    "Did you mean 'search'? Known: open, search."
    >>> suggestion("gpro", ["gspo", "grpo"])
    "Did you mean 'grpo'? Known: grpo, gspo."
    """
    names = sorted(known)
    # Two letters in the wrong order are the likeliest slip.
    swapped = [other for other in names if sorted(other) == sorted(name)]
    close = swapped or difflib.get_close_matches(name, names, n=1)
    guess = f"Did you mean {close[0]!r}? " if close else ""
    return f"{guess}Known: {', '.join(names) or 'none'}."
