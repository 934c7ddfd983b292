"""Values as expressions that depend on no names: standard library only, for a sandbox as well.

[1, (2,), set(), inf]  →  "[1, (2, ), {*(), }, 1e999]"
"""

import datetime
import math
import re
from collections import deque
from collections.abc import Iterable
from decimal import Decimal
from fractions import Fraction
from typing import Any

MAX_NESTED = 90
MAX_CHARACTERS = 90_000
"""Maximum length of the arguments of a call, and of the items of an iterator."""
MAX_DECIMAL_BITS = 2048
"""Size of the largest integer that is written in decimal digits.

Python may refuse to write or to read more than 640 digits, as that takes quadratic time.
"""
_CONTAINERS = (list, tuple, set, frozenset, dict)
_PLAIN = (bool, int, float, complex, str, bytes, type(None))
_PLAIN_PACKAGES = ("numpy", "collections", "array")
"""Packages of types whose values are written as those of built-in types."""
_ITERATOR_PACKAGES = ("builtins", "itertools")


class UnsendableError(Exception):
    """A value that can't be written; the argument is the value."""


class Text:
    """A text that is its own `repr`, as the result of a cell."""

    def __init__(self, text: str) -> None:
        self._text = text

    def __repr__(self) -> str:
        return self._text


class Remote:
    """A value that stays in another process, written as the variable that holds it there."""

    def __init__(self, variable: str) -> None:
        object.__setattr__(self, "_variable", variable)

    def _written(self) -> str:
        return str(object.__getattribute__(self, "_variable"))


def write_value(value: Any) -> str:
    """Write a value as an expression that needs no names, not even built-in ones.

    >>> write_value([1, (2,), set(), float("inf")])
    '[1, (2, ), {*(), }, 1e999]'
    >>> write_value(Fraction(1, 2))
    "__import__('fractions').Fraction(1, 2, )"
    """
    kind = type(value)
    if isinstance(value, Remote):
        return str(object.__getattribute__(value, "_written")())
    if kind is int:
        return repr(value) if value.bit_length() <= MAX_DECIMAL_BITS else hex(value)
    if kind in _PLAIN:
        return _number(value) if kind in (float, complex) else repr(value)
    if kind in _CONTAINERS:
        return _container(value)
    for made in (_made_by_import(value), _view(value), _from_package(value)):
        if made is not None:
            return made
    raise UnsendableError(value)


def _number(value: float | complex) -> str:
    if isinstance(value, complex):
        return f"({_number(value.real)}+{_number(value.imag)}*1j)"
    if math.isfinite(value):
        return repr(value)
    return "(1e999-1e999)" if math.isnan(value) else f"{'-' * (value < 0)}1e999"


def _container(value: Any) -> str:
    if isinstance(value, dict):
        items = (f"{write_value(key)}: {write_value(item)}" for key, item in value.items())
        return f"{{{', '.join(items)}}}"
    inside = "".join(f"{write_value(item)}, " for item in value)
    if isinstance(value, list):
        return f"[{inside.removesuffix(', ')}]"
    if isinstance(value, tuple):
        return f"({inside})"
    written = f"{{*(), {inside.removesuffix(', ')}}}"
    is_frozen = isinstance(value, frozenset)
    return f"__import__('builtins').frozenset({written})" if is_frozen else written


def show_value(value: Any) -> str:
    """Return the `repr` of a value, or its text by `write_value` if an integer is too long."""
    try:
        return repr(value)
    except ValueError:
        return write_value(value)


def write_result(value: Any) -> Text:
    """Return the text of any value, which can be read if it is a plain one or a namedtuple."""
    try:
        if isinstance(value, tuple) and hasattr(type(value), "_fields"):
            return Text(f"namedtuple({show_value((*tuple.__iter__(value),))})")
        return Text(show_value(value))
    except UnsendableError:
        return Text(object.__repr__(value))


class TooLongError(BaseException):
    """An iterator that yields too much; a BaseException, so that no test can expect it."""


def is_iterator(value: Any) -> bool:
    """Return whether a value is a generator, a `map`, or another iterator of a built-in kind."""
    return hasattr(type(value), "__next__") and type(value).__module__ in _ITERATOR_PACKAGES


def list_items(iterator: Iterable[Any]) -> list[Any]:
    """List what an iterator yields; TooLongError if its text is too long, or has no end."""
    items = list[Any]()
    left = MAX_CHARACTERS
    for item in iterator:
        left -= len(show_value(item)) + len(", ")
        if left < 0:
            raise TooLongError(f"an iterator without end, or of over {MAX_CHARACTERS:,} characters")
        items.append(item)
    return items


def _made_by_import(value: Any) -> str | None:
    """Write a value of the standard library as a call of its type; None for any other."""
    arguments: tuple[Any, ...]
    match value:
        case Decimal():
            arguments = (str(value),)
        case Fraction():
            arguments = (value.numerator, value.denominator)
        case deque():
            arguments = (list(value),) if value.maxlen is None else (list(value), value.maxlen)
        case bytearray():
            arguments = (bytes(value),)
        case range():
            arguments = (value.start, value.stop, value.step)
        case datetime.timedelta():
            arguments = (value.days, value.seconds, value.microseconds)
        case datetime.date() | datetime.time():
            arguments = tuple(map(int, re.findall(r"\d+", repr(value))))
        case _:
            return None
    kind = type(value)
    return f"__import__({kind.__module__!r}).{kind.__qualname__}{write_value(arguments)}"


def _view(value: Any) -> str | None:
    """Write the keys or items of a dict; None for any other value."""
    match type(value).__name__:
        case "dict_keys":
            return f"{write_value(dict.fromkeys(value))}.keys()"
        case "dict_items":
            return f"{write_value(dict(value))}.items()"
    return None


def _from_package(value: Any) -> str | None:
    """Write an array or a special dict as a plain value; None for any other."""
    if type(value).__module__.partition(".")[0] not in _PLAIN_PACKAGES:
        return None
    if isinstance(value, dict):
        return write_value(dict(value))
    plain = value.tolist() if hasattr(value, "tolist") else value
    return None if type(plain) is type(value) else write_value(plain)


def is_too_large(values: Iterable[Any], most: int) -> bool:
    """Return whether values are nested too deeply or have too many parts to be written."""
    layer = list(values)
    for _ in range(MAX_NESTED):
        layer = [part for item in layer if type(item) in _CONTAINERS for part in _parts(item)]
        if len(layer) > most:
            return True
    return bool(layer)


def _parts(container: Any) -> list[Any]:
    return [*container, *container.values()] if type(container) is dict else list(container)
