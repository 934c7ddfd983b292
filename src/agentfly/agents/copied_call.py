"""Worked examples whose call is copied from the question, found without sampling.

Many tools look something up, and the question names what:

    user       How much does the red desk cost?
    assistant  price(product="red desk")          a piece of the question, tried among others
    tool       866
    assistant  The answer is 866.

Every piece is tried as the argument, through the run's own chain loop, and the run's own reward
decides which call solves the task.
"""

import asyncio
import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice, product
from typing import Any

from agentfly.agents.agent import Agent
from agentfly.observe.summary import SOLVED
from agentfly.types import (
    Message,
    SamplingParams,
    StopReason,
    Task,
    ToolCall,
    ToolSpec,
    ToolStatus,
    Trajectory,
)

MAX_TASKS = 4
MAX_CALLS = 48
"""Calls that are tried for one task and tool."""
MAX_WORDS = 4
"""Words of a piece of the question."""
MAX_ANSWER = 200
"""Characters of a result that may be the answer."""
MAX_CONCURRENT = 8
ANSWERS = ("The answer is {}.", "{}")
"""What is said of a result, for rewards that read a sentence and for those that compare it all."""


async def find_copied_call(
    agent: Agent,
    tasks: Sequence[Task],
    spec: ToolSpec,
    *,
    seed: int,
    on_trajectory: Callable[[Trajectory], None] | None = None,
) -> Trajectory | None:
    """Return the chain with the shortest copied arguments that solves one of the first tasks.

    Args:
        agent: Tools and reward; its model is not asked.
        tasks: Tasks to try.
        spec: Tool that is called.
        seed: Seed of environments.
        on_trajectory: Called with each chain that solves a task.
    """
    for task in tasks[:MAX_TASKS]:
        calls = [
            ToolCall(id="call_0", name=spec.name, arguments=json.dumps(arguments))
            for arguments in islice(copied_arguments(_question(task), spec), MAX_CALLS)
        ]
        for answer in ANSWERS:
            chains = await _attempts(agent, task, [_OneCall(call, answer) for call in calls], seed)
            answered = [chain for chain in chains if _has_answer(chain)]
            if solved := [chain for chain in answered if (chain.reward or 0.0) >= SOLVED]:
                best = min(solved, key=lambda chain: len(_call(chain).arguments))
                if on_trajectory is not None:
                    on_trajectory(best)
                return best
            calls = [_call(chain) for chain in answered]
    return None


def copied_arguments(question: str, spec: ToolSpec) -> Iterator[dict[str, Any]]:
    """Yield arguments whose values are pieces of a question; none for types that can't be.

    >>> from agentfly.tools import calculator
    >>> next(copied_arguments("What is 57*83?", calculator.spec))
    {'expression': '57*83'}
    """
    properties, required = spec.parameters["properties"], spec.parameters.get("required", ())
    values = [list(_values(properties[name], question)) for name in required]
    if values:
        for chosen in product(*values):
            yield dict(zip(required, chosen, strict=True))


def _values(schema: Mapping[str, Any], question: str) -> Iterator[Any]:
    if "enum" in schema:
        yield from schema["enum"]
        return
    match schema.get("type"):
        case "string":
            yield from _pieces(question)
        case "integer":
            yield from map(int, re.findall(r"(?<![\d.])-?\d+(?![\d.]*\d)", question))
        case "number":
            yield from map(float, re.findall(r"-?\d+(?:\.\d+)?", question))
        case "boolean":
            yield from (True, False)


def _pieces(question: str) -> Iterator[str]:
    """Yield runs of words without the punctuation around them, those with a digit first."""
    words = question.split()
    runs = [
        " ".join(words[start : start + length]).strip("\"'`“”‘’«».,;:!?()[]{}")
        for length in range(1, MAX_WORDS + 1)
        for start in range(len(words) - length + 1)
    ]
    found = [piece for piece in dict.fromkeys(runs) if piece]
    yield from sorted(found, key=lambda piece: not any(map(str.isdigit, piece)))


def _question(task: Task) -> str:
    asked = [message.content for message in task.messages if message.role == "user"]
    return asked[-1] if asked else ""


async def _attempts(
    agent: Agent, task: Task, players: Sequence["_OneCall"], seed: int
) -> list[Trajectory]:
    places = asyncio.Semaphore(MAX_CONCURRENT)

    async def attempt(player: _OneCall) -> Trajectory:
        async with places:
            result = await agent.with_chat_model(player).run(
                task, max_turns=2, seed=seed, retries=0
            )
        return result.trajectories[0]

    async with asyncio.TaskGroup() as group:
        attempts = [group.create_task(attempt(player)) for player in players]
    return [attempt.result() for attempt in attempts]


def _call(chain: Trajectory) -> ToolCall:
    return chain.turns[0].message.tool_calls[0]


def _has_answer(chain: Trajectory) -> bool:
    """Return whether the one call of a chain gave a result that is short enough to be said."""
    results = [result for turn in chain.turns for result in turn.results]
    return (
        chain.stop is StopReason.ANSWERED
        and [result.status for result in results] == [ToolStatus.OK]
        and 0 < len(results[0].observation) <= MAX_ANSWER
    )


@dataclass(frozen=True, slots=True)
class _OneCall:
    """A chat model that makes one call and answers with its result."""

    call: ToolCall
    answer: str

    async def reply(
        self,
        messages: Sequence[Message],
        tools: Sequence[ToolSpec],
        params: SamplingParams,
        *,
        deadline: float,
    ) -> Message:
        """Call first; then say what came back."""
        del tools, params, deadline
        if messages[-1].role != "tool":
            return Message(role="assistant", content="", tool_calls=(self.call,))
        return Message(role="assistant", content=self.answer.format(messages[-1].content))
