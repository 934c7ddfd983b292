"""An exception of the code, on its way from the code's sandbox to a test that may expect it.

A traceback tells neither the bases of a class nor where a message of several lines begins. So the
sandbox notes each exception, and is asked for the note after the call:

    raise TooSmallError(3)  →  (["TooSmallError", "ValueError", "Exception", …], "(3,)", "3")
                            →  Raised(kind="ValueError", args=(3,), message="3")

The note is made beside the code, which can forge it. That is worth no more than to raise the
exception that it names: anything but a built-in error is a failed call.
"""

import builtins
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from agentfly.environments.code.judging.literal import NotPlainError, read_value

MAX_MESSAGE = 2000
"""Characters of an exception's message, and of its arguments, that are sent."""
_NOTES = f"""
_notes = {{}}

def note(number, error):
    kinds = [kind.__name__ for kind in type(error).__mro__]
    _notes[number] = kinds, _text(_arguments, error), _text(str, error)

def take(number):
    return _notes.pop(number, None)

def _arguments(error):
    return repr(error.__reduce__()[1])  # Unlike `args`, it has the file of an OSError.

def _text(write, error):
    try:
        return write(error)[:{MAX_MESSAGE}]
    except Exception:  # Methods of the code's classes may raise anything.
        return ""
"""
REPORTER = f"__reporter__ = {{}}\nexec({_NOTES!r}, __reporter__)\n"
"""Makes the reporter, with variables of its own: the code may call one of its own `str`."""
_WATCHED = """\
try:
    __value__ = {call}
except BaseException as __error__:
    __reporter__["note"]({number}, __error__)
    raise
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Raised:
    """An error of the code: no exit, and no limit."""

    kind: str
    """Name of the nearest built-in class, which is an Exception."""
    args: tuple[Any, ...]
    """Its arguments if they are plain values, or else its message."""
    message: str


def watched(call: str, number: int) -> str:
    """Return a program that sets `__value__` to a call's value and notes an exception.

    The call may also be an assignment.
    """
    return _WATCHED.format(call=call, number=number)


def asking_for_note(number: int) -> str:
    """Return a cell whose value is the note on that call."""
    return f'__reporter__["take"]({number})'


def read_raised(note: str) -> Raised | None:
    """Read a note; None if it is on an exit, or is none.

    >>> read_raised("(['M', 'ValueError', 'Exception'], '(3,)', '3')")
    Raised(kind='ValueError', args=(3,), message='3')
    """
    match _read(note):
        case ([*names], str(args), str(message)):
            kind = _nearest(names)
        case _:
            return None
    if not issubclass(kind, Exception):
        return None
    given = _read(args)
    plain = given if isinstance(given, tuple) else (message,)
    return Raised(kind=kind.__name__, args=plain, message=message)


def _read(text: str) -> Any:
    try:
        return read_value(text)
    except NotPlainError:
        return None


_BUILTIN = {
    name: kind
    for name, kind in vars(builtins).items()
    if isinstance(kind, type) and issubclass(kind, BaseException)
}


def _nearest(names: Iterable[object]) -> type[BaseException]:
    known = (_BUILTIN[name] for name in names if isinstance(name, str) and name in _BUILTIN)
    return next(known, BaseException)
