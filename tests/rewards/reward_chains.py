"""Chains to be scored, made by hand."""

from collections.abc import Sequence
from typing import Any

from agentfly.testing import make_context
from agentfly.types import (
    Completion,
    FinishReason,
    Message,
    Reward,
    Score,
    StopReason,
    Task,
    TokenStream,
    Trajectory,
    Turn,
)


def task_of(**fields: Any) -> Task:
    return Task(id="t", messages=(), fields=fields)


def turn_of(index: int, message: Message | str, *, tokens: int | None = None) -> Turn:
    said = Message(role="assistant", content=message) if isinstance(message, str) else message
    completion = None
    if tokens is not None:
        completion = Completion(
            token_ids=tuple(range(tokens)),
            logprobs=(-1.0,) * tokens,
            versions=((0, tokens),),
            finish_reason=FinishReason.STOP,
        )
    return Turn(index=index, context_ids=(), completion=completion, message=said, temperature=1.0)


def chain_of(
    said: Sequence[Turn | str] | str,
    task: Task | None = None,
    *,
    stop: StopReason = StopReason.ANSWERED,
    number: int = 0,
    opening: Sequence[Message] = (),
) -> Trajectory:
    """Make a chain of what the model said, in one turn or several."""
    words = [said] if isinstance(said, str) else said
    turns = tuple(turn_of(i, w) if isinstance(w, str) else w for i, w in enumerate(words))
    return Trajectory(
        task=task or task_of(),
        group_id="t/0",
        chain_id=f"t/0/{number}",
        messages=tuple(opening),
        streams=(TokenStream(turns=turns),) if turns else (),
        stop=stop,
        error="EnvError: broken" if stop.verdict.failure else None,
    )


async def score_of(reward: Reward, said: Sequence[Turn | str] | str, **fields: Any) -> Score:
    """Score a chain of a task with these fields."""
    trajectory = chain_of(said, task_of(**fields))
    return await reward.score(trajectory, make_context(trajectory.task))


async def value_of(reward: Reward, said: str, **fields: Any) -> float:
    return (await score_of(reward, said, **fields)).value
