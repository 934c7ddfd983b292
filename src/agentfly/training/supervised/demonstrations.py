"""Demonstrations for a supervised warm start: files of chains and of chats become samples.

A row of chat data is a conversation, tokenized as the model would write it:

{"messages": [{"role": "user", "content": "What is 2+2?"},
              {"role": "assistant", "tool_calls": [{"function": {"name": "add", "arguments": …}}]},
              {"role": "tool", "content": "4"},
              {"role": "assistant", "content": "It is 4."}],
 "tools": [{"type": "function", "function": {"name": "add", "description": …, "parameters": …}}]}
"""

import hashlib
import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

from agentfly.chat import MaskPolicy, TemplateRenderer
from agentfly.chat.imitation import imitate, require_readable
from agentfly.config.sft_settings import SftDataSettings
from agentfly.errors import ConfigError
from agentfly.tasks import Rows, load_tasks
from agentfly.tasks.task_loading import SHOWN
from agentfly.training.learner.trainable_chains import make_samples
from agentfly.training.supervised.best_of import Kept
from agentfly.training.supervised.chain_files import holds_chains, read_chains
from agentfly.types import (
    Message,
    Sample,
    Seed,
    StopReason,
    Task,
    ToolSpec,
    Trajectory,
    chain_id,
    group_id,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Demonstrations:
    """Samples to learn from and to measure by; no task has some on both sides."""

    train: tuple[Sample, ...]
    held_out: tuple[Sample, ...]
    left_out: Counter[str] = field(default_factory=Counter)
    """Number of conversations that were left out, by reason."""

    @property
    def digest(self) -> str:
        """Checksum of these conversations: the tokens, and which are trained."""
        digest = hashlib.sha256()
        for sample in (*self.train, None, *self.held_out):
            digest.update(repr(sample and (sample.token_ids, sample.mask)).encode())
        return digest.hexdigest()

    def __str__(self) -> str:
        parts = [f"{len(self.train)} to learn from", f"{len(self.held_out)} held out"]
        parts += [f"{count} left out ({reason})" for reason, count in self.left_out.items()]
        return f"conversations: {', '.join(parts)}"


def read_demonstrations(
    data: SftDataSettings,
    renderer: TemplateRenderer,
    *,
    mask: MaskPolicy,
    max_tokens: float,
    seed: Seed,
    base: Path | None = None,
) -> Demonstrations:
    """Read all that the settings name.

    Args:
        data: Which files, and what of them.
        renderer: Of the model that learns.
        mask: Which of the assistant's tokens carry loss.
        max_tokens: A longer conversation is left out, and counted.
        seed: Decides what is held out.
        base: The folder that files are named from; by default the working directory.
    """
    given = _read(data.files, data, renderer, base)
    others = _read(data.held_out, data, renderer, base)
    train, held_out = given.trajectories, others.trajectories
    if not data.held_out:
        train, held_out = _split(train, data.held_out_share, seed)
    left_out = given.left_out + others.left_out
    demonstrations = Demonstrations(
        train=_samples(train, mask, max_tokens, left_out),
        held_out=_samples(held_out, mask, max_tokens, left_out),
        left_out=left_out,
    )
    if not demonstrations.train:
        raise ConfigError(f"there is nothing to learn from; {demonstrations}")
    return demonstrations


def _read(
    names: Iterable[str], data: SftDataSettings, renderer: TemplateRenderer, base: Path | None
) -> Kept:
    trajectories: list[Trajectory] = []
    left_out: Counter[str] = Counter()
    for name in names:
        path = (base or Path()) / name
        if holds_chains(path):
            kept = read_chains(path, data, renderer)
            trajectories += kept.trajectories
            left_out += kept.left_out
        else:
            trajectories += read_chat_rows(name, renderer, base=base)
    return Kept(trajectories=tuple(trajectories), left_out=left_out)


def _split(
    trajectories: Sequence[Trajectory], share: float, seed: Seed
) -> tuple[tuple[Trajectory, ...], tuple[Trajectory, ...]]:
    """Hold a share of the tasks out, at least one: a task's chains resemble one another."""
    tasks = sorted(
        {trajectory.task.id for trajectory in trajectories},
        key=lambda task: seed.child("held out", task).value,
    )
    count = max(1, round(share * len(tasks))) if share and len(tasks) > 1 else 0
    held_out = set(tasks[:count])
    return (
        tuple(trajectory for trajectory in trajectories if trajectory.task.id not in held_out),
        tuple(trajectory for trajectory in trajectories if trajectory.task.id in held_out),
    )


def _samples(
    trajectories: Iterable[Trajectory], mask: MaskPolicy, max_tokens: float, left_out: Counter[str]
) -> tuple[Sample, ...]:
    """Flatten conversations; those without a trained token, and too long ones, are counted."""
    samples: list[Sample] = []
    for sample in (one for t in trajectories for one in make_samples(t, mask)):
        if not sample.num_trained:
            left_out["nothing of it is trained"] += 1
        elif len(sample.token_ids) > max_tokens:
            left_out[f"longer than {max_tokens:g} tokens"] += 1
        else:
            # The temperature that a chain was sampled at is no part of what it shows.
            samples.append(replace(sample, temperature=1.0))
    return tuple(samples)


def read_chat_rows(
    rows: Rows, renderer: TemplateRenderer, *, base: Path | None = None
) -> list[Trajectory]:
    """Imitate every row, or raise one error that lists all rows that can't be."""
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
    # Where the template renders no calls, they are text, also in rows that `agentfly export` wrote.
    require_readable(renderer, stream, calls_in_content=not renderer.capabilities.calls)
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
