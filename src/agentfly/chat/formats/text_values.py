"""Parameters that are written as bare text between tags, with nothing to say what type they have.

`<parameter=year>2024</parameter>` may be the number or the string. Values are kept as strings, word
for word: whoever validates them knows the types, and can read a list or a boolean out of its text,
but could not tell from a list how its text was spaced. Only numbers are read here, and only where
writing them back gives the same text, so that nothing is lost:

    2024 → 2024      1.50 → "1.50"      007 → "007"      true → "true"      [1,2] → "[1,2]"
"""

import json
import re
from dataclasses import dataclass
from typing import Any

from agentfly.chat.formats.json_text import dump
from agentfly.types import ToolCall


def value_of(text: str) -> int | float | str:
    """Read one parameter's text."""
    try:
        value = json.loads(text, parse_constant=str)  # "NaN" is a word
    except (ValueError, RecursionError):
        return text
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return value if is_number and dump(value) == text else text


def text_of(value: object) -> str:
    """Write one parameter's text: strings as they are, everything else as JSON."""
    return value if isinstance(value, str) else dump(value)


def arguments_of(call: ToolCall) -> dict[str, Any] | None:
    """Return a call's arguments by name; None if they aren't an object, as in a malformed call."""
    try:
        arguments = json.loads(call.arguments)
    except (ValueError, RecursionError):
        return None
    return arguments if isinstance(arguments, dict) else None


def written_parameters(call: ToolCall, form: str) -> str:
    """Write each argument in a form such as `<{}>{}</>`; what isn't an object, word for word."""
    arguments = arguments_of(call)
    if arguments is None:
        return call.arguments
    return "".join(form.format(key, text_of(value)) for key, value in arguments.items())


def sole_text(call: ToolCall, parameter: str | None) -> str:
    """Return the text of a call's one parameter, or its raw arguments if it has none such."""
    arguments = arguments_of(call) or {}
    return text_of(arguments[parameter]) if parameter in arguments else call.arguments


@dataclass(frozen=True, slots=True)
class ParameterTags:
    """How a format marks its parameters."""

    opening: re.Pattern[str]
    """What stands before a value; the first group is the parameter's name."""
    closing: re.Pattern[str]
    """What stands after a value."""
    following: re.Pattern[str]
    """What can't be part of a value that lacks its closing tag."""

    @classmethod
    def of(cls, *, opening: str, closing: str, following: str) -> "ParameterTags":
        """Make them from patterns; a closing tag that `following` doesn't follow is just text."""
        closed = re.compile(rf"{closing}(?=\s*(?:{following}|\Z))")
        return cls(re.compile(opening), closed, re.compile(following))

    def read(self, text: str, pos: int) -> tuple[dict[str, Any], int, bool]:
        """Return the parameters from `pos` on, where they end, and whether all were closed."""
        values: dict[str, Any] = {}
        all_closed = True
        while opening := self.opening.match(text, pos):
            closing = self.closing.search(text, opening.end())
            end = closing or self.following.search(text, opening.end())
            stop = end.start() if end else len(text)
            values[opening[1].strip()] = value_of(text[opening.end() : stop].removesuffix("\n"))
            pos = closing.end() if closing else stop
            all_closed = all_closed and closing is not None
        return values, pos, all_closed
