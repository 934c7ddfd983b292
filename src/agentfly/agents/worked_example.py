"""Worked examples for models that call no tools by themselves, found by trial.

First, pieces of the question are tried as arguments (`copied_call`), which needs no model. Where no
such call solves a task, the model's turns are begun for it, the first with the opening of a call in
its own format:

    user       What is 57*83?
    assistant  {"name": "calculator", "arguments": {"expression": "…      completed by the model
    tool       4731
    assistant  The answer is …                                            completed by the model

A small model that would never have begun a call often completes one. A chain that then gets a
reward shows, in the words of the run's own tasks, what the others shall do.
"""

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from agentfly.agents.agent import Agent
from agentfly.agents.copied_call import find_copied_call
from agentfly.agents.kind import WorkedExample
from agentfly.chat import TemplateRenderer
from agentfly.types import (
    Completion,
    Engine,
    FinishReason,
    Message,
    OnToken,
    Request,
    SamplingParams,
    StopReason,
    Task,
    ToolCall,
    ToolSpec,
    ToolStatus,
    Trajectory,
)

NUM_CHAINS = 2
"""Chains of each task in which a call is begun for the model."""
MAX_TOKENS = 64
"""Tokens of a turn: a short call, a short answer."""
MAX_TURNS = 2
"""One call, one answer."""
MAX_TOOLS = 3
"""Tools that are tried, in the order in which the agent has them."""
TEMPERATURE = 0.3
"""Low: what is wanted is one good chain, not many different ones."""
ANSWER_OPENING = "The answer is"
_MARK = "VALUE"


async def find_example(
    agent: Agent,
    tasks: Sequence[Task],
    *,
    seed: int,
    on_trajectory: Callable[[Trajectory], None] | None = None,
) -> WorkedExample | None:
    """Return a chain that solves one of the tasks by one call; None where none does.

    Args:
        agent: With an engine of its own and a template's renderer.
        tasks: Tasks to try.
        seed: Seed of sampling.
        on_trajectory: Called with each chain as it ends.
    """
    for spec in agent.tools.specs[:MAX_TOOLS]:
        chain = await find_copied_call(agent, tasks, spec, seed=seed, on_trajectory=on_trajectory)
        if chain is not None:
            return _example(chain)
    for spec in agent.tools.specs[:MAX_TOOLS]:
        primed = _primed(agent, spec)
        if primed is None:
            continue
        result = await primed.run(
            tasks,
            num_chains=NUM_CHAINS,
            max_turns=MAX_TURNS,
            sampling=SamplingParams(max_tokens=MAX_TOKENS, temperature=TEMPERATURE),
            seed=seed,
            on_trajectory=on_trajectory,
        )
        solved = [chain for chain in result.trajectories if _is_example(chain)]
        if solved:
            return _example(min(solved, key=_length))
    return None


def _is_example(chain: Trajectory) -> bool:
    """Return whether a chain solved its task by one call and an answer, and the better for it."""
    results = [result for turn in chain.turns for result in turn.results]
    return (
        (chain.reward or 0.0) > 0
        and chain.stop is StopReason.ANSWERED
        and [result.status for result in results] == [ToolStatus.OK]
        and not any(call.repaired for turn in chain.turns for call in turn.message.tool_calls)
    )


def _length(chain: Trajectory) -> tuple[float, int]:
    said = sum(len(turn.message.content) for turn in chain.turns)
    return -(chain.reward or 0.0), said


def _example(chain: Trajectory) -> WorkedExample:
    asked = [message for message in chain.task.messages if message.role != "system"]
    turns = [m for turn in chain.turns for m in (_only_calls(turn.message), *turn.replies)]
    return WorkedExample(messages=(*asked, *turns), task_id=chain.task.id)


def _only_calls(message: Message) -> Message:
    """Leave out what was said beside a call: a guess of the result, most often."""
    return replace(message, content="") if message.tool_calls else message


def _primed(agent: Agent, spec: ToolSpec) -> Agent | None:
    """Return the agent with an engine that begins its turns; None where it can't."""
    engine, renderer = agent.model.engine, agent.model.renderer
    if engine is None or not isinstance(renderer, TemplateRenderer):
        return None
    opening = call_opening(renderer, spec)
    if opening is None:
        return None
    openings = [tuple(renderer.tokenizer.encode(text)) for text in (opening, ANSWER_OPENING)]
    return agent.with_engine(PrimedEngine(engine=engine, openings=tuple(openings)))


def call_opening(renderer: TemplateRenderer, spec: ToolSpec) -> str | None:
    """Return a call up to its first argument's value, as the model would write it.

    For example `<tool_call>{"name": "calculator", "arguments": {"expression": "`; None for a tool
    without required parameters.
    """
    required = list(spec.parameters.get("required", ()))
    if not required:
        return None
    text = spec.parameters["properties"][required[0]].get("type") == "string"
    arguments = json.dumps({required[0]: _MARK if text else 0})
    call = ToolCall(id="", name=spec.name, arguments=arguments)
    written = renderer.call_format.write([call])
    mark = _MARK if text else "0"
    return written[: written.rindex(mark)].rstrip(" ") if mark in written else None


@dataclass(frozen=True, slots=True, kw_only=True)
class PrimedEngine:
    """Begins the first turns of every chain, and lets another engine go on."""

    engine: Engine
    openings: tuple[tuple[int, ...], ...]
    """Ids that each turn begins with."""

    async def sample(
        self,
        prompt_ids: Sequence[int],
        params: SamplingParams,
        *,
        request: Request,
        deadline: float,
        on_token: OnToken | None = None,
    ) -> Completion:
        """Return the opening and its continuation as one completion."""
        ids = self.openings[min(request.turn, len(self.openings) - 1)]
        more = await self.engine.sample(
            (*prompt_ids, *ids), params, request=request, deadline=deadline, on_token=on_token
        )
        opening = Completion(
            token_ids=ids,
            logprobs=(0.0,) * len(ids),
            versions=((next(more.version_of_each(), 0), len(ids)),),
            finish_reason=FinishReason.LENGTH,
        )
        return opening.followed_by(more)

    async def close(self) -> None:
        """Leave the engine to its owner."""
