"""Stand-ins for the code's objects in test programs: standard library only, for a sandbox.

An object of the code's own class stays where it was made. The test gets a stand-in that can be
given back to the code, called, and asked for its attributes; to compare it, print it or loop over
it fails the test, since the code would decide the outcome.

Two kinds of objects have contents that are plain values, with which the test works instead:

    namedtuple      a tuple of its values, which is compared without the code
    iterator        a list of what it yields, made at once when the test begins to read

At once, so that the code does not see where a test stops reading.
"""

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, NamedTuple, NoReturn

from agentfly.environments.code.judging.writing import Remote

_OF_GENERATORS = ("send", "throw", "close")
_LIST_ITEMS = '["list_items"]({})'
_WAS_READ = "an iterator that a test has begun to read can't be given back to the code"


class Kept(NamedTuple):
    """An object that the code has made, in its own sandbox."""

    variable: str
    problem: str | None
    """Why it is no plain value."""
    contents: tuple[Any, ...] | None
    """The values of a namedtuple; it has no problem."""
    is_iterator: bool
    fail: Callable[[str], NoReturn]
    """Ends the test."""


Ask = Callable[..., Any]
"""Function that applies a form to a kept variable: `ask("__object_1", ".data = {}", 5)`."""


def stand_in(kept: Kept, ask: Ask) -> Remote:
    """Return what a test gets for an object of the code."""
    if kept.contents is not None:
        return _NamedTuple(kept, ask)
    return _Iterator(kept, ask) if kept.is_iterator else _Object(kept, ask)


def _without_dict(self: Remote) -> NoReturn:
    raise AttributeError("__dict__")


_NO_DICT = property(_without_dict)
"""Hides what a stand-in itself holds: that is no part of its object."""


class _Forwarding(Remote):
    """Has the attributes that its object has."""

    __dict__ = _NO_DICT

    def __init__(self, kept: Kept, ask: Ask) -> None:
        super().__init__(kept.variable)
        object.__setattr__(self, "_ask", partial(ask, kept.variable))

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return self._ask(f".{name}")

    def __setattr__(self, name: str, value: object) -> None:
        self._ask(f".{name} = {{}}", value)


class _NamedTuple(_Forwarding, tuple[Any, ...]):
    """Stand-in for a namedtuple: a tuple in itself, with names that are forwarded."""

    __dict__ = _NO_DICT

    def __new__(cls, kept: Kept, ask: Ask) -> "_NamedTuple":
        return super().__new__(cls, kept.contents or ())

    # Names that a field may have, although every tuple has them.
    count = property(lambda self: self._ask(".count"))
    index = property(lambda self: self._ask(".index"))


class _Object(_Forwarding):
    """Stand-in for an object of the code: attributes and calls are forwarded to it."""

    def __init__(self, kept: Kept, ask: Ask) -> None:
        super().__init__(kept, ask)
        object.__setattr__(self, "_fail", partial(kept.fail, str(kept.problem)))

    def __call__(self, *args: object, **kwargs: object) -> Any:
        return self._ask("({})", *args, **kwargs)


def _refuse(self: _Object, *args: object) -> NoReturn:
    object.__getattribute__(self, "_fail")()
    raise AssertionError("unreachable")


for _name in (
    *("eq", "ne", "lt", "le", "gt", "ge", "hash", "bool", "len", "iter", "next", "contains"),
    *("getitem", "setitem", "delitem", "repr", "str", "format", "int", "float", "index", "complex"),
    *("add", "radd", "sub", "rsub", "mul", "rmul", "truediv", "rtruediv", "floordiv", "mod", "pow"),
    *("and", "or", "xor", "rand", "ror", "rxor", "neg", "pos", "abs", "invert", "round", "await"),
    *("enter", "exit", "aiter", "anext", "bytes", "reversed", "rfloordiv", "rmod", "rpow"),
):
    setattr(_Object, f"__{_name}__", _refuse)


class _Iterator(_Object):
    """Stand-in for an iterator: yields plain values, which are all listed before the first."""

    def __init__(self, kept: Kept, ask: Ask) -> None:
        super().__init__(kept, ask)
        object.__setattr__(self, "_list_items", partial(ask, "__writer__", _LIST_ITEMS, self))
        object.__setattr__(self, "_items", None)
        object.__setattr__(self, "_fail_after_reading", partial(kept.fail, _WAS_READ))

    def _written(self) -> str:
        if self._items is not None:
            self._fail_after_reading()
        return super()._written()

    def __getattr__(self, name: str) -> Any:
        if name in _OF_GENERATORS:
            self._written()
            return super().__getattr__(name)
        raise AttributeError(name)  # `dict(pairs)` looks for `keys`.

    def __iter__(self) -> Iterator[Any]:
        return self

    def __next__(self) -> Any:
        if self._items is None:
            items = self._list_items()
            if type(items) is not list:
                self._fail()
            object.__setattr__(self, "_items", iter(items))
        return next(self._items)

    def __contains__(self, wanted: object) -> bool:
        return any(item is wanted or item == wanted for item in self)

    def __len__(self) -> int:
        raise TypeError("an iterator has no len()")  # `list(items)` asks for it, as for a hint.
