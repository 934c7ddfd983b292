"""What a person types, as the message of a model."""

import json
import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from agentfly.types import Message, ToolCall, ToolSpec

SAY = "/say"
_NAMED = re.compile(r"([^\s\[(]+)(?:\s+(.*)|\[(.*)\]|\((.*)\))?", re.DOTALL)


@dataclass(frozen=True, slots=True, kw_only=True)
class Typed:
    """A line that was understood, or what is wrong with it."""

    message: Message | None = None
    problem: str | None = None


def read_line(line: str, tools: Sequence[ToolSpec]) -> Typed:
    """Read a call from a line, whatever the person would naturally write.

    >>> look = ToolSpec(name="look", description="", parameters={})
    >>> read_line("look", [look]).message.tool_calls[0].name
    'look'

    With one tool, the line goes to its parameter; with several, the first word names the tool:
    `search red mug`, `search[red mug]` or `search(red mug)`. Several parameters are given as
    key=value. Without tools an environment takes the words.
    """
    text = line.strip()
    if not text:
        return Typed(problem="")
    if text == SAY or text.startswith(f"{SAY} "):
        return _said(text.removeprefix(SAY).strip())
    if not tools:
        return _said(text)
    by_name = {tool.name: tool for tool in tools}
    first, rest = _parted(text)
    if first in by_name:
        return _call(by_name[first], rest)
    if len(tools) == 1:
        return _call(tools[0], text)
    known = ", ".join(by_name)
    return Typed(problem=f"{first!r} is no tool. Begin with one of {known}, or with {SAY}")


def _parted(text: str) -> tuple[str, str]:
    """Part a name from what follows it; of brackets without an end, the first word is the name.

    >>> _parted("search red mug"), _parted("search[red mug]"), _parted("print(6) * 7")
    (('search', 'red mug'), ('search', 'red mug'), ('print(6)', '* 7'))
    """
    found = _NAMED.fullmatch(text)
    if found is None:
        first, _, rest = text.partition(" ")
        return first, rest.strip()
    name, *inside = found.groups(default="")
    return name, "".join(inside).strip()


def _said(words: str) -> Typed:
    return Typed(message=Message(role="assistant", content=words))


def _call(tool: ToolSpec, text: str) -> Typed:
    try:
        arguments = _arguments(tool, text)
    except ValueError as error:
        return Typed(problem=f"{tool.name}: {error}")
    call = ToolCall(id="call", name=tool.name, arguments=json.dumps(arguments))
    return Typed(message=Message(role="assistant", tool_calls=(call,)))


def _arguments(tool: ToolSpec, text: str) -> Mapping[str, Any]:
    parameters = list(tool.parameters.get("properties", {}))
    if not text:
        return {}
    if not parameters:
        raise ValueError(f"it takes nothing, got {text!r}")
    required = list(tool.parameters.get("required", ()))
    if len(parameters) == 1 or (len(required) == 1 and "=" not in text):
        return {(required or parameters)[0]: _value(tool, (required or parameters)[0], text)}
    pairs = [part.partition("=") for part in shlex.split(text)]
    if not all(equals for _, equals, _ in pairs):
        raise ValueError(f"write {' '.join(f'{name}=…' for name in parameters)}")
    return {key: _value(tool, key, value) for key, _, value in pairs}


def _value(tool: ToolSpec, parameter: str, text: str) -> Any:
    """Take a number for what is one; whatever is wrong with it, the tool will say."""
    kind = tool.parameters["properties"].get(parameter, {}).get("type")
    if kind == "string":
        return text
    try:
        return json.loads(text)
    except ValueError:
        return text
