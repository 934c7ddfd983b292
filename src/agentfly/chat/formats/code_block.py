"""Fenced code blocks: each one is a call of the tool that runs code.

    Let me compute it.
    ```python
    print(2 ** 10)
    ```

A reply without such a block is the answer.
"""

import re
from collections.abc import Iterator, Sequence

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

_FENCE = re.compile(r"^`{3,}+[ \t]*+$", re.M)


def code_format(
    *,
    tool: str = "python",
    parameter: str = "code",
    languages: Sequence[str] = ("python", "py"),
    name: str = "code",
) -> CallFormat:
    r"""Make a format in which a block in one of `languages` calls `tool` with the code.

    >>> code_format().read("```python\nprint(1)\n```").calls[0].arguments
    '{"code": "print(1)"}'
    """
    labels = "|".join(map(re.escape, languages))
    opening = re.compile(rf"^(`{{3,}}+)[ \t]*+(?i:{labels})[ \t]*+$\n?", re.M)

    def find(text: str) -> Iterator[Found]:
        end = 0
        while start := opening.search(text, end):
            code, end = _code_at(text, start)
            yield Found(start.start(), end, [_call(tool, parameter, code, text[start.end() : end])])

    def read(text: str) -> Reading:
        return assemble(text, find(text))

    def write(calls: Sequence[ToolCall], content: str = "") -> str:
        blocks = (_fenced(sole_text(call, parameter), languages[0]) for call in calls)
        return with_content(content, "\n".join(blocks))

    def instructions(tools: Sequence[ToolSpec]) -> str:
        about = "".join(f"{spec.description}\n" for spec in tools if spec.name == tool)
        return (
            "To run code, write it in one fenced block and then stop:\n"
            f"```{languages[0]}\n...\n```\n"
            f"{about}The output comes in the next message. When you know the answer, reply without "
            "any code block."
        )

    return CallFormat(name=name, read=read, write=write, instructions=instructions)


def _code_at(text: str, start: re.Match[str]) -> tuple[str | None, int]:
    """Return the code of a block, None if it isn't closed, and where the block ends."""
    for fence in _FENCE.finditer(text, start.end()):
        if len(fence[0].rstrip()) >= len(start[1]):
            return text[start.end() : fence.start()].removesuffix("\n"), fence.end()
    return None, len(text)


def _call(tool: str, parameter: str, code: str | None, raw: str) -> ToolCall:
    if code is None:
        return unreadable(CUT_OFF, raw, name=tool)
    return ToolCall(id="", name=tool, arguments=dump({parameter: code}))


def _fenced(code: str, language: str) -> str:
    """Put a fence around code that is longer than any that the code itself has."""
    longest = max((len(fence[0].rstrip()) for fence in _FENCE.finditer(code)), default=2)
    fence = "`" * (longest + 1)
    return f"{fence}{language}\n{code}\n{fence}"


CODE = code_format()
