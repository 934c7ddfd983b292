"""Chains that are begun in addition, and which of them are kept."""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import replace

import pytest

from agentfly import Agent, ScriptedEngine, reward
from agentfly.chat import CHATML_TOKENS, ByteTokenizer
from agentfly.errors import EngineError
from agentfly.observe import rollout_metrics
from agentfly.rollout import Schedule, plan_groups, stream_groups
from agentfly.runtime.clock import LoopClock
from agentfly.testing import run_in_virtual_time
from agentfly.types import (
    Completion,
    Group,
    OnToken,
    Request,
    SamplingParams,
    Seed,
    StopReason,
    Task,
)


class Timed(ScriptedEngine):
    """Takes the given seconds for each chain of a group; None fails at once."""

    def __init__(self, seconds: Sequence[float | None]) -> None:
        super().__init__(["Done."], tokenizer=ByteTokenizer(CHATML_TOKENS))
        self._seconds = seconds

    async def sample(
        self,
        prompt_ids: Sequence[int],
        params: SamplingParams,
        *,
        request: Request,
        deadline: float,
        on_token: OnToken | None = None,
    ) -> Completion:
        seconds = self._seconds[int(request.chain_id.rpartition("/")[2])]
        if seconds is None:
            raise EngineError("broken")
        await asyncio.sleep(seconds)
        return await super().sample(
            prompt_ids, params, request=request, deadline=deadline, on_token=on_token
        )


@reward
def one(final_response: str) -> float:
    """Return a reward for every answer."""
    return float(bool(final_response))


def run(
    *seconds: float | None, size: int, favor_fast: bool = False, places: int = 100
) -> tuple[Group, float]:
    """Run one group, and return it with the time that it took."""

    async def main() -> tuple[Group, float]:
        runner = Agent(Timed(seconds), reward=one).runner()
        task = Task.from_row({"id": "t", "question": "How long?"})
        [plan] = plan_groups([task], num_chains=size, seed=Seed(0))
        plan = replace(plan, spares=len(seconds) - size, favor_fast=favor_fast)
        schedule = Schedule(
            runner_of=lambda _: runner, clock=LoopClock(), max_concurrent=places, retries=0
        )
        async with stream_groups([plan], schedule) as groups:
            [group] = [group async for group in groups]
        return group, LoopClock().now()

    return run_in_virtual_time(main())


def stops(group: Group) -> Mapping[int, StopReason]:
    return {int(m.chain_id.rpartition("/")[2]): m.stop for m in group.members}


def test_a_spare_chain_is_surplus_unless_one_before_it_failed_however_fast_it_is() -> None:
    group, seconds = run(50.0, 70.0, 1.0, 500.0, size=2)
    answered, surplus = StopReason.ANSWERED, StopReason.SURPLUS
    assert stops(group) == {0: answered, 1: answered, 2: surplus, 3: surplus}
    assert seconds == 70.0
    assert [member.score is not None for member in group.members] == [True, True, False, False]
    metrics = rollout_metrics([group])
    assert metrics["chains/surplus"] == 2.0
    # Kept: 50 and 70. Begun: these, one of 1, and one that was stopped at 70.
    assert metrics["chains/kept_length_ratio"] == pytest.approx(60 / ((50 + 70 + 1 + 70) / 4))


def test_a_spare_chain_takes_the_place_of_one_that_failed() -> None:
    group, seconds = run(50.0, None, 60.0, 500.0, size=2)
    found = stops(group)
    assert found[0] is found[2] is StopReason.ANSWERED
    assert found[1] is StopReason.ENGINE_FAILED
    assert found[3] is StopReason.SURPLUS
    assert seconds == 60.0


def test_fast_chains_are_favored_only_if_asked_for_and_it_shows_in_the_metric() -> None:
    group, seconds = run(50.0, 70.0, 1.0, 500.0, size=2, favor_fast=True)
    assert {i for i, stop in stops(group).items() if stop is StopReason.ANSWERED} == {0, 2}
    assert seconds == 50.0
    ratio = rollout_metrics([group])["chains/kept_length_ratio"]
    assert ratio == pytest.approx(25.5 / ((50 + 50 + 1 + 50) / 4))
    assert ratio < 1


def test_spare_chains_that_were_not_yet_admitted_end_at_once() -> None:
    group, seconds = run(5.0, 5.0, 500.0, 500.0, size=2, places=1)
    assert list(stops(group).values()).count(StopReason.SURPLUS) == 2
    assert seconds == 10.0


def test_a_group_without_enough_good_chains_keeps_what_it_has() -> None:
    group, _ = run(5.0, None, None, size=2)
    assert list(stops(group).values()).count(StopReason.ANSWERED) == 1
