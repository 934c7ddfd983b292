"""Tags as calls: `<search>cats</search>` calls the tool `search`, `<answer>…</answer>` answers.

This is how Search-R1 and its relatives (arXiv:2503.09516) let a model act. Each tag is a tool with
one argument, and its closing tag stops the turn.
"""

import re
from collections.abc import Iterator, Mapping, Sequence

from agentfly.chat.formats.call_format import (
    CUT_OFF,
    CallFormat,
    Found,
    Reading,
    assemble,
    unreadable,
    with_content,
)
from agentfly.chat.formats.json_text import dump
from agentfly.chat.formats.text_values import sole_text
from agentfly.types import ToolCall, ToolSpec


def tag_format(
    tags: Mapping[str, str], *, answer: str = "answer", name: str = "tags"
) -> CallFormat:
    """Make a format in which each tag calls the tool of its name with its text as one argument.

    Args:
        tags: The parameter that gets the text, by tag: `{"search": "query", "python": "code"}`.
        answer: The tag around the final answer.
        name: What the format is called.

    >>> tag_format({"search": "query"}).read("I'll look. <search>cats</search>").calls[0].arguments
    '{"query": "cats"}'
    """
    known = "|".join(map(re.escape, [*tags, answer]))
    opening = re.compile(rf"<({known})>")

    def find(text: str) -> Iterator[Found]:
        end = 0
        while (start := opening.search(text, end)) and start[1] != answer:
            body, end = _body(text, start)
            call = _call(start[1], tags[start[1]], body, text[start.end() :])
            yield Found(start.start(), end, [call])

    def read(text: str) -> Reading:
        first = opening.search(text)
        if first and first[1] == answer:
            body, _ = _body(text, first)
            return Reading(content=(text[first.end() :] if body is None else body).strip())
        return assemble(text, find(text))

    def write(calls: Sequence[ToolCall], content: str = "") -> str:
        if not calls:
            return f"<{answer}>{content}</{answer}>"
        return with_content(content, "\n".join(map(write_call, calls)))

    def write_call(call: ToolCall) -> str:
        return f"<{call.name}>{sole_text(call, tags.get(call.name))}</{call.name}>"

    def instructions(tools: Sequence[ToolSpec]) -> str:
        about = {spec.name: f": {spec.description}" for spec in tools}
        listed = "".join(
            f"<{tag}>{parameter}</{tag}>{about.get(tag, '')}\n" for tag, parameter in tags.items()
        )
        return (
            f"To use a tool, write its tag around the input and then stop:\n{listed}"
            "The result comes in the next message. When you know the answer, write "
            f"<{answer}>the answer</{answer}>."
        )

    return CallFormat(
        name=name,
        read=read,
        write=write,
        stop_strings=tuple(f"</{tag}>" for tag in (*tags, answer)),
        instructions=instructions,
    )


def _body(text: str, opening: re.Match[str]) -> tuple[str | None, int]:
    """Return the text up to the closing tag, None if there is none, and where the tag ends."""
    closing = f"</{opening[1]}>"
    end = text.find(closing, opening.end())
    return (None, len(text)) if end < 0 else (text[opening.end() : end], end + len(closing))


def _call(tool: str, parameter: str, body: str | None, rest: str) -> ToolCall:
    if body is None:
        return unreadable(CUT_OFF, rest, name=tool)
    return ToolCall(id="", name=tool, arguments=dump({parameter: body.strip()}))


TAGS = tag_format({"search": "query"})
