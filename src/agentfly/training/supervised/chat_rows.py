"""Chat data as demonstrations: each row a conversation, imitated as the model would write it.

{"messages": [{"role": "user", "content": "What is 2+2?"},
              {"role": "assistant", "tool_calls": [{"function": {"name": "add", "arguments": …}}]},
              {"role": "tool", "content": "4"},
              {"role": "assistant", "content": "It is 4."}],
 "tools": [{"type": "function", "function": {"name": "add", "description": …, "parameters": …}}]}
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import Any

from agentfly.chat import TemplateRenderer
from agentfly.chat.imitation import imitate, require_readable
from agentfly.errors import ConfigError
from agentfly.tasks import Rows, load_tasks
from agentfly.tasks.task_loading import SHOWN
from agentfly.types import (
    Message,
    StopReason,
    Task,
    ToolSpec,
    Trajectory,
    chain_id,
    group_id,
)


def read_chat_rows(
    rows: Rows, renderer: TemplateRenderer, *, base: Path | None = None
) -> list[Trajectory]:
    """Imitate every row, or raise one error that tells of all rows that can't be."""
    demonstrations: list[Trajectory] = []
    problems: list[str] = []
    for number, task in enumerate(load_tasks(rows, base=base), start=1):
        try:
            demonstrations.append(_demonstration(task, number, renderer))
        except ConfigError as error:
            problems.append(f"row {number}: {error}")
    if problems:
        where = f" of {rows}" if isinstance(rows, str) else ""
        shown = "\n  ".join(problems[:SHOWN])
        raise ConfigError(
            f"{len(problems)} rows{where} can't be learned from; the first ones:\n  {shown}"
        )
    return demonstrations


def _demonstration(task: Task, number: int, renderer: TemplateRenderer) -> Trajectory:
    if not task.messages:
        raise ConfigError(
            f"a row of chat data has `messages`, got {', '.join(map(repr, task.fields))}"
        )
    tools = tuple(map(_tool, _listed(task.fields.get("tools"))))
    messages = _answering(task.messages)
    stream = imitate(renderer, messages, tools)
    require_readable(renderer, stream)
    group = group_id(task.id, number)
    opening = len(messages) - sum(1 + len(turn.replies) for turn in stream.turns)
    return Trajectory(
        task=task,
        group_id=group,
        chain_id=chain_id(group, 0),
        messages=messages[:opening],
        tools=tools,
        streams=(stream,),
        stop=StopReason.ANSWERED,
    )


def _answering(messages: Sequence[Message]) -> tuple[Message, ...]:
    """Give each call an id and each result the name of its call, as a chain would have.

    Rows often leave them out, and some templates can't do without.
    """
    joined: list[Message] = []
    waiting: dict[str, str] = {}
    for message in messages:
        if message.role == "assistant":
            message = _with_ids(message)
            waiting = {call.id: call.name for call in message.tool_calls}
        elif message.role == "tool" and waiting:
            answered = message.tool_call_id or next(iter(waiting))
            name = message.name or waiting.get(answered)
            message = replace(message, tool_call_id=answered, name=name)
            waiting.pop(answered, None)
        joined.append(message)
    return tuple(joined)


def _with_ids(message: Message) -> Message:
    calls = (
        replace(call, id=call.id or f"call_{index}")
        for index, call in enumerate(message.tool_calls)
    )
    return replace(message, tool_calls=tuple(calls))


def _listed(tools: object) -> Iterator[str]:
    """Yield the JSON text of each tool; data sets that want one type a column hold them as text."""
    if isinstance(tools, str):
        try:
            tools = json.loads(tools)
        except ValueError as error:
            raise ConfigError(f"`tools` is a text that is not JSON: {error}") from error
    if tools is None:
        return
    if not isinstance(tools, Sequence) or not all(isinstance(tool, Mapping) for tool in tools):
        raise ConfigError(f"`tools` must be a list of JSON schemas, got {tools!r}")
    yield from (json.dumps(tool) for tool in tools)


@lru_cache(maxsize=1024)
def _tool(text: str) -> ToolSpec:
    """Read a tool; equal ones are one object, by which renderers know what they have rendered."""
    tool: Mapping[str, Any] = json.loads(text)
    function = tool.get("function", tool)
    if not isinstance(function, Mapping) or not isinstance(function.get("name"), str):
        raise ConfigError(f"a tool needs a function with a name, got {text}")
    return ToolSpec(
        name=function["name"],
        description=function.get("description") or "",
        parameters=function.get("parameters") or {"type": "object", "properties": {}},
    )
