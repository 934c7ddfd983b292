"""When a step's chains are not fit to learn from."""

from dataclasses import replace

import pytest
import torch

from agentfly.algorithms.group import has_spread
from agentfly.errors import RunError
from agentfly.observe import rollout_metrics
from agentfly.training.health import (
    TimeLimitWarning,
    has_trainable,
    require_healthy,
    require_no_timeouts,
)
from agentfly.types import (
    Completion,
    FinishReason,
    Group,
    Message,
    Score,
    StopReason,
    Task,
    TokenStream,
    ToolResult,
    ToolStatus,
    Trajectory,
    Turn,
)

TASK = Task.from_row({"id": "t", "question": "?"})


def turn(**changes: object) -> Turn:
    completion = Completion(
        token_ids=(1,), logprobs=(-0.1,), versions=((0, 1),), finish_reason=FinishReason.STOP
    )
    plain = Turn(
        index=0,
        context_ids=(5,),
        completion=completion,
        message=Message(role="assistant", content="x"),
        temperature=1.0,
    )
    return replace(plain, **changes)  # type: ignore[arg-type]


def chain(
    number: int, reward: float | None, *, stop: StopReason = StopReason.ANSWERED
) -> Trajectory:
    return Trajectory(
        task=TASK,
        group_id="t/0",
        chain_id=f"t/0/{number}",
        messages=(),
        streams=(TokenStream(turns=(turn(),)),),
        stop=stop,
        score=None if reward is None else Score(value=reward),
        error="EnvError: it fell over" if stop.verdict.failure else None,
    )


def group(*members: Trajectory) -> Group:
    return Group(id="t/0", task=TASK, members=members)


def test_spread_is_seen_among_trainable_chains_only() -> None:
    assert group(chain(0, 1.0), chain(1, 0.0)).has_spread
    assert not group(chain(0, 1.0), chain(1, 1.0)).has_spread
    assert not group(chain(0, 1.0), chain(1, None, stop=StopReason.ENV_CRASHED)).has_spread
    assert not group(chain(0, 1.0), chain(1, 0.0, stop=StopReason.TIME_LIMIT)).has_spread
    assert not group().has_spread
    assert not has_trainable(group(chain(0, None, stop=StopReason.ENV_CRASHED)))


@pytest.mark.parametrize("rewards", [(0.3, 0.1 + 0.2), (0.0, 1.0), (0.0, 0.0), (1e7, 1e7 + 1)])
def test_groups_without_spread_are_those_that_give_no_gradient(rewards: tuple[float, ...]) -> None:
    """The sampler that replaces them, the metric and the algorithms can't disagree."""
    compared = group(*(chain(number, reward) for number, reward in enumerate(rewards)))
    assert compared.has_spread == has_spread(torch.tensor(rewards))
    assert rollout_metrics([compared])["reward/flat_groups"] == float(not compared.has_spread)


def test_a_share_of_failures_up_to_the_limit_is_borne() -> None:
    crashed = [chain(i, None, stop=StopReason.ENV_CRASHED) for i in range(2)]
    require_healthy([group(*crashed, chain(2, 0.0), chain(3, 1.0))], max_failed_share=0.5)


def test_beyond_it_the_run_ends_and_says_what_failed() -> None:
    crashed = [chain(i, None, stop=StopReason.ENV_CRASHED) for i in range(3)]
    with pytest.raises(RunError, match=r"3 of 4 chains failed.*EnvError 3.*t/0/0.*--resume"):
        require_healthy([group(*crashed, chain(3, 1.0))], max_failed_share=0.5)


def test_chains_dropped_for_time_are_warned_of_when_there_are_more(
    caplog: pytest.LogCaptureFixture,
) -> None:
    too_slow = TimeLimitWarning()
    for share in (0.0, 0.125, 0.1, 0.25):
        too_slow.update(share)
    told = [record.getMessage() for record in caplog.records]
    assert [text[:3] for text in told] == ["12%", "25%"]
    assert "favors short chains" in told[0]


def test_a_deadline_ends_a_deterministic_run() -> None:
    require_no_timeouts([group(chain(0, 1.0))])
    with pytest.raises(RunError, match="t/0/1"):
        require_no_timeouts([group(chain(0, 1.0), chain(1, None, stop=StopReason.TIME_LIMIT))])
    late = turn(results=(ToolResult(observation="late", status=ToolStatus.TIMEOUT),))
    slow = replace(chain(2, 1.0), streams=(TokenStream(turns=(late,)),))
    with pytest.raises(RunError, match="t/0/2"):
        require_no_timeouts([group(slow)])
