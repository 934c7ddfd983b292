"""The interface of a tool-call format, and the result of reading a completion's text with it.

`custom_format` makes a format from a user's own parser.
"""

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

from agentfly.chat.formats.json_text import dump
from agentfly.chat.formats.text_values import arguments_of, recover_types
from agentfly.errors import ConfigError
from agentfly.types import ToolCall, ToolSpec

logger = logging.getLogger(__name__)

CUT_OFF = "the call was cut off before its end"
"""The problem of a call that the completion's last token left unfinished."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """A completion's text, taken apart."""

    content: str
    """Text to the user: everything around the calls."""
    calls: tuple[ToolCall, ...] = ()
    """In the order in which they were written, the unreadable ones included."""
    call_spans: tuple[tuple[int, int], ...] = ()
    """Half-open ranges of the text that are calls, where the format has them."""
    reasoning: str | None = None
    """Only from formats that mark reasoning themselves, such as harmony."""
    reasoning_spans: tuple[tuple[int, int], ...] = ()
    """Half-open ranges of the text that are reasoning."""


Parser = Callable[[str], Reading | Sequence[ToolCall] | None]
"""A function from a completion's text to a reading, its calls, or None if it has none."""


class CallWriter(Protocol):
    """Writes what a model would emit for some calls, without an end token."""

    def __call__(self, calls: Sequence[ToolCall], content: str = "") -> str:
        """Write the calls, after the content; without calls, the content as an answer."""


def _native(_: Sequence[ToolSpec]) -> str | None:
    return None


@dataclass(frozen=True, slots=True, kw_only=True)
class CallFormat:
    """The format in which a family of models writes its tool calls.

    >>> from agentfly.chat.formats import get_format
    >>> hermes = get_format("hermes")
    >>> hermes.read('<tool_call>{"name": "add", "arguments": {"a": 1}}</tool_call>').calls[0].name
    'add'
    """

    name: str
    read: Callable[[str], Reading]
    """Read a completion's text: special tokens kept, `<think>` blocks and the end token taken off.

    Never raises, for any text. A call that can't be read is still a call, with its `problem`.
    """
    write: CallWriter
    """Never raises for calls that were read: malformed arguments are written word for word."""
    stop_strings: tuple[str, ...] = ()
    """Strings that end a turn. The text that is read goes up to and including the one sampled."""
    instructions: Callable[[Sequence[ToolSpec]], str | None] = _native
    """The piece of system prompt that teaches the format; None where the template does it."""
    reads_reasoning: bool = False
    """Whether `read` itself separates reasoning from content, as in formats with channels."""
    bare_values: bool = False
    """Whether every argument is written as bare text, which doesn't show its type."""

    def typed(self, calls: Sequence[ToolCall], tools: Sequence[ToolSpec]) -> tuple[ToolCall, ...]:
        """Convert the arguments of parsed calls to the types in the tools' schemas."""
        if not self.bare_values:
            return tuple(calls)
        schemas = {tool.name: tool.parameters for tool in tools}
        return tuple(_typed(call, schemas.get(call.name)) for call in calls)


def _typed(call: ToolCall, schema: Mapping[str, Any] | None) -> ToolCall:
    arguments = arguments_of(call)
    if schema is None or arguments is None or call.problem:
        return call
    return replace(call, arguments=dump(recover_types(arguments, schema)))


@dataclass(frozen=True, slots=True)
class Found:
    """Calls and the half-open range of the text that they take up."""

    start: int
    end: int
    calls: Sequence[ToolCall]


def assemble(text: str, found: Iterable[Found], *, drop: Sequence[str] = ()) -> Reading:
    """Number the calls that were found and keep the text around them, without the marks in `drop`.

    >>> call = ToolCall(id="", name="f", arguments="{}")
    >>> reading = assemble("Let me see. <f>", [Found(12, 15, [call])])
    >>> reading.content, reading.calls[0].id
    ('Let me see.', 'call_0')
    """
    pieces, calls, spans, at = list[str](), list[ToolCall](), list[tuple[int, int]](), 0
    for region in found:
        pieces.append(text[at : region.start])
        calls.extend(region.calls)
        spans.append((region.start, region.end))
        at = region.end
    if not calls:
        return Reading(content=text)
    pieces.append(text[at:])
    return Reading(content=_joined(pieces, drop), calls=numbered(calls), call_spans=tuple(spans))


def numbered(calls: Iterable[ToolCall]) -> tuple[ToolCall, ...]:
    """Assign `call_0`, `call_1`, ... to the calls whose format has no ids."""
    return tuple(
        call if call.id else replace(call, id=f"call_{index}") for index, call in enumerate(calls)
    )


def unreadable(problem: str, text: str, *, name: str = "") -> ToolCall:
    """Make the call that represents text from which none could be read."""
    return ToolCall(id="", name=name, arguments=text, problem=problem)


def with_content(content: str, calls: str) -> str:
    """Put what is said in front of the calls, on lines of their own."""
    return f"{content}\n{calls}" if content and calls else content or calls


def _joined(pieces: Iterable[str], drop: Sequence[str]) -> str:
    cleaned = []
    for piece in pieces:
        for mark in drop:
            piece = piece.replace(mark, "")
        cleaned.append(piece.strip())
    return "\n".join(filter(None, cleaned))


def tool_instructions(tools: Sequence[ToolSpec], how: str) -> str:
    """Return a system prompt that lists the tools as JSON, one per line, and how to call them."""
    listed = "\n".join(dump(tool.to_openai()["function"]) for tool in tools)
    return f"You can use these tools:\n{listed}\n\n{how}"


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

    def given_instructions(_: Sequence[ToolSpec]) -> str | None:
        return instructions

    return CallFormat(
        name=name,
        read=read,
        write=write or cannot_write,
        stop_strings=stop_strings,
        instructions=given_instructions,
    )


def _reading(text: str, result: Reading | Sequence[ToolCall] | None) -> Reading:
    if isinstance(result, Reading):
        return replace(result, calls=numbered(result.calls))
    calls = tuple(result or ())
    if not all(isinstance(call, ToolCall) for call in calls):
        raise TypeError(f"expected a Reading, a list of ToolCall or None, got {result!r}")
    return Reading(content=text, calls=numbered(calls))
