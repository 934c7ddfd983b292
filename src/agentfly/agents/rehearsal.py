"""Rehearsal of a run: one scripted chain per source, and the fields that rewards and tools need.

The chain goes through the real kind, tools, environments, reward and mask, with the template of the
run's model if its folder is on this machine. It calls each tool once, with made-up arguments, and
answers with the task's `answer`. No weights are loaded, and nothing is fetched.
"""

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Protocol, cast

from agentfly.agents.agent import Agent
from agentfly.agents.model import tokenizer_of
from agentfly.agents.run_parts import RunParts
from agentfly.agents.source import Source
from agentfly.chat import CHATML_TOKENS, ByteTokenizer, MaskPolicy, TemplateRenderer, apply_mask
from agentfly.engines import ScriptedEngine, ScriptedTurn
from agentfly.errors import AgentFlyError
from agentfly.models import zoo
from agentfly.observe.finding_rules import diagnose_unseen_tools
from agentfly.observe.summary import ended_unscored
from agentfly.rollout import Limits
from agentfly.tasks import load_tasks
from agentfly.tasks.task_loading import HubDataset, Rows
from agentfly.types import (
    EnvSpec,
    SamplingParams,
    StopReason,
    Task,
    ToolCall,
    ToolResult,
    ToolSpec,
    ToolStatus,
    Trajectory,
)
from agentfly.types.short_text import count

SHOWN = 5
"""Maximum number of rows that a problem names."""
MAX_SHOWN = 200
"""Maximum characters of an observation in a summary."""
MAX_CALLS = 8
"""Maximum number of tools that the scripted chain calls."""
SECONDS = 120.0
"""Time limit of the scripted chain."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rehearsal:
    """Outcome of the rehearsal of one source."""

    source: str
    summary: str
    """Description of the scripted chain in one line."""
    problems: tuple[str, ...] = ()
    """Why the source can't be trained on; empty if it can."""
    warnings: tuple[str, ...] = ()
    """Why a run on the source may learn nothing, although it can begin."""


class _ReadsFields(Protocol):
    """Part that reads fields of a task: tools and rewards of functions."""

    def missing_fields(self, task: Task, leased: Collection[EnvSpec]) -> Sequence[str]: ...


async def rehearse(parts: RunParts) -> list[Rehearsal]:
    """Rehearse every source of a run."""
    return [await _rehearse_source(source, parts) for source in parts.sources]


async def _rehearse_source(source: Source, parts: RunParts) -> Rehearsal:
    if isinstance(source.tasks, HubDataset):
        return Rehearsal(source=source.name, summary="tasks of a hub are not fetched: not played")
    try:
        tasks = load_tasks(source.tasks, source=source.name)
        held_out = _held_out(source.eval_tasks) if parts.settings.eval.is_on else []
    except AgentFlyError as error:
        return Rehearsal(source=source.name, summary="no tasks", problems=(str(error),))
    problems = [
        *_missing_fields(source.agent, tasks, "tasks"),
        *_missing_fields(source.agent, held_out, "held-out tasks"),
    ]
    counted = f"{count(len(tasks), 'task')}, {len(held_out)} held out"
    if not tasks:
        said = "its tasks are empty: there is nothing to train on. Add rows, or another file"
        return Rehearsal(source=source.name, summary=counted, problems=(said,))
    if held_out:
        counted += f" ({parts.settings.eval.size_text(len(parts.settings.eval.select(held_out)))})"
    if problems:
        said = "no chain was played, because fields are missing"
        played = Rehearsal(source=source.name, summary=said, problems=tuple(problems))
    else:
        played = await _play(source, tasks[0], parts)
    return replace(
        played,
        summary=f"{counted}; {played.summary}",
        warnings=(*_unseen_tools(source, parts), *played.warnings),
    )


def _unseen_tools(source: Source, parts: RunParts) -> tuple[str, ...]:
    """Return the finding with which the run would begin, if its model can't call the tools."""
    model = parts.settings.model.name
    unseen = zoo.unseen_tools(model, [spec.name for spec in source.agent.tools.specs])
    return (str(diagnose_unseen_tools(model, unseen)),) if unseen else ()


def _held_out(rows: Rows) -> list[Task]:
    return [] if isinstance(rows, HubDataset) else load_tasks(rows)


def _missing_fields(agent: Agent, tasks: Sequence[Task], what: str) -> list[str]:
    """Describe each field that a reward or tool needs and that some tasks lack."""
    found = []
    for label, part in _parts_with_fields(agent):
        lacking: dict[str, list[int]] = {}
        for number, task in enumerate(tasks):
            for name in part.missing_fields(task, agent.environments):
                lacking.setdefault(name, []).append(number)
        for name, rows in lacking.items():
            found.append(
                f"{label} reads the field {name!r}, which {len(rows)} of {len(tasks)} {what} lack: "
                f"{_rows(rows)}. The first of them has: {', '.join(tasks[rows[0]].fields)}. Add "
                f"{name!r} to those rows, take the parameter's name from a field that is there, or "
                "give it a default"
            )
    return found


def _rows(numbers: Sequence[int]) -> str:
    shown = ", ".join(str(number + 1) for number in numbers[:SHOWN])
    more = f" and {len(numbers) - SHOWN} more" if len(numbers) > SHOWN else ""
    return f"row{'s' if len(numbers) > 1 else ''} {shown}{more}"


def _parts_with_fields(agent: Agent) -> list[tuple[str, _ReadsFields]]:
    rewards = [part for part in (agent.reward, agent.group_reward) if part is not None]
    inner = [part for one in rewards for part in getattr(one, "weights", ())]
    named = [(f"reward {part.name!r}", part) for part in (*rewards, *inner)]
    tools = [(f"tool {tool.spec.name!r}", tool) for tool in agent.tools]
    found = [(label, part) for label, part in (*named, *tools) if hasattr(part, "missing_fields")]
    return cast(list[tuple[str, _ReadsFields]], found)


async def _play(source: Source, task: Task, parts: RunParts) -> Rehearsal:
    """Play the scripted chain; return what happened, what was wrong, and what may be."""
    agent = source.agent
    try:
        actor = _with_script(agent, task, parts)
        chains = 2 if agent.group_reward is not None else 1
        async with actor:
            result = await actor.run(
                task,
                num_chains=chains,
                max_turns=min(len(agent.tools.specs), MAX_CALLS) + 1,
                sampling=SamplingParams(max_tokens=1 << 16),
                retries=0,
            )
        trajectory = result.trajectories[0]
        trained = _count_trained(trajectory, parts.mask)
    except AgentFlyError as error:
        said = "the scripted chain could not be played"
        return Rehearsal(source=source.name, summary=said, problems=(str(error),))
    problems = [] if trajectory.error is None else [trajectory.error]
    if trajectory.stop is StopReason.CONTEXT_LIMIT and not trajectory.turns:
        problems.append(
            "the prompt of its first task fills the context: shorten the question, raise "
            "rollout.context_length, or choose a model with a longer context"
        )
    elif not trained and not problems:
        problems.append(
            f"the mask {parts.settings.rollout.mask!r} leaves no token of the scripted chain to "
            "train on: choose another, such as 'all_sampled'"
        )
    return Rehearsal(
        source=source.name,
        summary=_describe(trajectory, trained),
        problems=tuple(problems),
        warnings=_unscored(trajectory),
    )


def _unscored(trajectory: Trajectory) -> tuple[str, ...]:
    """Warn of a chain that ended well without a score."""
    if not ended_unscored(trajectory):
        return ()
    return (
        "its scripted chain ended without a score: no step had a reward, and no reward function "
        "scored it. Such chains are not trained on and are missing from the mean reward: let every "
        "Step have a reward, such as reward=0.0, or name a reward function",
    )


def _with_script(agent: Agent, task: Task, parts: RunParts) -> Agent:
    settings = parts.settings
    folder = _local_folder(settings.model.name)
    limits = Limits(seconds=SECONDS)
    if folder is None or agent.model.is_given:
        engine = ScriptedEngine(["…"], tokenizer=ByteTokenizer(CHATML_TOKENS))
        actor = agent.with_model(engine)
    else:
        actor = agent.for_run(
            folder,
            sampling=SamplingParams(),
            limits=limits,
            template_options=settings.model.template_options,
        )
    renderer = actor.model.renderer
    tokenizer = tokenizer_of(renderer) or ByteTokenizer(CHATML_TOKENS)
    script = _script(actor.tools.specs, task, renderer)
    played = actor.with_engine(ScriptedEngine(script, tokenizer=tokenizer))
    played.limits = replace(limits, context_length=actor.limits.context_length)
    return played


def _local_folder(name: str) -> Path | None:
    if (Path(name).expanduser() / "config.json").is_file():
        return Path(name).expanduser()
    return zoo.model_info(name).folder if name in zoo.names() else None


def _script(tools: Sequence[ToolSpec], task: Task, renderer: object) -> Any:
    calls = [
        ToolCall(id="", name=tool.name, arguments=json.dumps(example(tool.parameters)))
        for tool in tools[:MAX_CALLS]
    ]
    answer = task.fields.get("answer", "Done.")
    words = str(answer[0] if isinstance(answer, list) and answer else answer)

    def say(turn: ScriptedTurn) -> str:
        now = calls[turn.request.turn : turn.request.turn + 1]
        said = "" if now else words
        if isinstance(renderer, TemplateRenderer):
            return renderer.call_format.write(now, said)
        return said

    return say


def example(schema: Mapping[str, Any]) -> Any:
    """Make a value that fits a JSON Schema, as far as the usual keywords go.

    >>> example({"type": "object", "properties": {"n": {"type": "integer", "minimum": 3}},
    ...          "required": ["n"]})
    {'n': 3}
    """
    given = [schema[key] for key in ("default", "const") if key in schema]
    given += [schema[key][0] for key in ("enum", "examples") if schema.get(key)]
    inner = [schema[key][0] for key in ("anyOf", "oneOf", "allOf") if schema.get(key)]
    if given or inner:
        return given[0] if given else example(inner[0])
    kind = schema.get("type", "string")
    kind = kind[0] if isinstance(kind, list) else kind
    if kind == "object":
        known = schema.get("properties", {})
        return {name: example(known.get(name, {})) for name in schema.get("required", ())}
    if kind == "array":
        return [example(schema.get("items", {}))] * schema.get("minItems", 1)
    if kind in ("integer", "number"):
        return schema.get("minimum", 1)
    return {"boolean": False, "null": None}.get(kind, "1")


def _count_trained(trajectory: Trajectory, mask: MaskPolicy) -> int:
    if not trajectory.turns:
        return 0
    return sum(sum(flags) for flags in apply_mask(mask, trajectory.turns))


def _outcome(result: ToolResult) -> str:
    if result.status is ToolStatus.OK:
        return "answered"
    said = f"gave {result.status} ({result.observation[:MAX_SHOWN]})"
    return f"{said}, which its made-up arguments may explain"


def _describe(trajectory: Trajectory, trained: int) -> str:
    results = [
        f"{call.name} {_outcome(result)}"
        for turn in trajectory.turns
        for call, result in turn.call_results
    ]
    called = f"tools with made-up arguments: {', '.join(results)}" if results else "no tools"
    scored = "no reward" if trajectory.reward is None else f"reward {trajectory.reward:g}"
    tokens = sum(len(stream.token_ids) for stream in trajectory.streams)
    return (
        f"a scripted chain on its first task: {called}; {scored}; "
        f"{trained} of {tokens} tokens trained"
    )
