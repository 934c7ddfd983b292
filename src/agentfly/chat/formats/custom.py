"""A user's own parser as a format."""

import logging
from collections.abc import Callable, Sequence
from dataclasses import replace

from agentfly.chat.formats.call_format import CallFormat, CallWriter, Reading, numbered
from agentfly.errors import ConfigError
from agentfly.types import ToolCall, ToolSpec

logger = logging.getLogger(__name__)

Parser = Callable[[str], Reading | Sequence[ToolCall] | None]
"""Takes a completion's text; returns a reading, or its calls, or None if it holds none."""


def custom_format(
    function: Parser,
    *,
    name: str = "custom",
    stop_strings: tuple[str, ...] = (),
    write: CallWriter | None = None,
    instructions: str | None = None,
) -> CallFormat:
    """Make a format from a function that reads a completion's text.

    If the function raises, that is logged and the whole text is taken as content.

    >>> def shout(text):
    ...     return [ToolCall(id="", name="shout", arguments="{}")] if text.isupper() else None
    >>> custom_format(shout).read("HELP").calls[0].id
    'call_0'
    """

    def read(text: str) -> Reading:
        try:
            return _reading(text, function(text))
        except Exception:
            logger.exception("the parser of format %r raised; its text is taken as content", name)
            return Reading(content=text)

    def cannot_write(calls: Sequence[ToolCall], content: str = "") -> str:
        raise ConfigError(
            f"format {name!r} only reads: pass custom_format(..., write=...) to write calls in it"
        )

    def teach(_: Sequence[ToolSpec]) -> str | None:
        return instructions

    return CallFormat(
        name=name,
        read=read,
        write=write or cannot_write,
        stop_strings=stop_strings,
        instructions=teach,
    )


def _reading(text: str, result: Reading | Sequence[ToolCall] | None) -> Reading:
    if isinstance(result, Reading):
        return replace(result, calls=numbered(result.calls))
    calls = tuple(result or ())
    if not all(isinstance(call, ToolCall) for call in calls):
        raise TypeError(f"expected a Reading, a list of ToolCall or None, got {result!r}")
    return Reading(content=text, calls=numbered(calls))
