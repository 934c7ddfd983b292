"""Finished groups as a stream, in virtual time."""

import asyncio
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import count

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentfly.errors import ConfigError
from agentfly.rollout import GroupPlan, Order, Runner, Schedule, plan_groups, stream_groups
from agentfly.runtime.clock import LoopClock
from agentfly.testing import run_in_virtual_time
from agentfly.types import (
    Attempt,
    Context,
    Event,
    Group,
    Score,
    Seed,
    Stopped,
    StopReason,
    Task,
    Trajectory,
)


class Sleeping:
    """A harness whose chains take as long as their tasks say, and which counts what runs."""

    def __init__(self) -> None:
        self.running = self.most = 0
        self.began: list[str] = []

    async def run(self, attempt: Attempt) -> Trajectory:
        self.began.append(attempt.chain_id)
        self.running += 1
        self.most = max(self.most, self.running)
        try:
            await asyncio.sleep(attempt.task.fields["seconds"])
        finally:
            self.running -= 1
        return Trajectory(
            task=attempt.task,
            group_id=attempt.group_id,
            chain_id=attempt.chain_id,
            messages=(),
            stop=StopReason.ANSWERED,
        )


class SlowJudge:
    """A group reward that takes its time."""

    name = "slow_judge"

    async def score_group(self, group: Group, context: Context) -> list[Score | None]:
        del context
        await asyncio.sleep(100)
        return [Score(value=1.0) for _ in group.members]


def task(id: str, seconds: float, source: str = "default") -> Task:
    return Task(id=id, messages=(), fields={"seconds": seconds}, source=source)


def planned(*seconds: float, size: int = 2) -> list[GroupPlan]:
    tasks = [task(str(place), wait) for place, wait in enumerate(seconds)]
    return plan_groups(tasks, num_chains=size, seed=Seed(0))


def schedule(
    runner_of: Callable[[Task], Runner],
    *,
    max_concurrent: int = 100,
    on_event: Callable[[Event], None] | None = None,
    on_trajectory: Callable[[Trajectory], None] | None = None,
) -> Schedule:
    return Schedule(
        runner_of=runner_of,
        clock=LoopClock(),
        max_concurrent=max_concurrent,
        on_event=on_event,
        on_trajectory=on_trajectory,
    )


def sleeping(harness: Sleeping, **options: int) -> Schedule:
    runner = Runner(harness=harness)
    return schedule(lambda _: runner, **options)  # type: ignore[arg-type]


async def taken(
    plans: Iterable[GroupPlan], how: Schedule, order: Order = "completion"
) -> list[tuple[str, float]]:
    """Return which groups came, and when."""
    clock = LoopClock()
    start = clock.now()
    async with stream_groups(plans, how, order=order) as groups:
        return [(group.task.id, clock.now() - start) async for group in groups]


def test_groups_come_when_they_are_finished() -> None:
    came = run_in_virtual_time(taken(planned(9, 1, 5), sleeping(Sleeping())))
    assert came == [("1", 1), ("2", 5), ("0", 9)]


def test_groups_come_in_the_order_of_the_plans_where_that_is_asked_for() -> None:
    came = run_in_virtual_time(taken(planned(5, 1, 9), sleeping(Sleeping()), "admission"))
    assert came == [("0", 5), ("1", 5), ("2", 9)]


def test_a_bound_holds_new_groups_back_until_finished_ones_are_taken() -> None:
    harness = Sleeping()
    drawn: list[int] = []

    def endless() -> Iterator[GroupPlan]:
        for place in count():
            drawn.append(place)
            yield from plan_groups([task(str(place), 1)], num_chains=2, seed=Seed(0))

    async def slow_consumer() -> list[int]:
        begun: list[int] = []
        how = sleeping(harness)
        async with stream_groups(endless(), how, max_in_flight=3) as groups:
            async for _ in groups:
                await asyncio.sleep(100)  # all that may be begun is finished by now
                begun.append(len(harness.began))
                if len(begun) == 4:
                    return begun
        raise AssertionError("endless")

    # One group is taken, and two chains of each of the three that follow it may be begun.
    assert run_in_virtual_time(slow_consumer()) == [8, 10, 12, 14]
    assert harness.most == 6
    assert len(drawn) == 7, "a plan is drawn when there is room for it"


def test_chains_at_once_are_bounded_and_admitted_in_order() -> None:
    harness = Sleeping()
    run_in_virtual_time(taken(planned(3, 1, 2, 1), sleeping(harness, max_concurrent=3)))
    assert harness.most == 3
    assert harness.began == [f"{place}/0/{i}" for place in range(4) for i in range(2)]


def test_leaving_the_block_cancels_what_is_under_way() -> None:
    harness = Sleeping()
    events: list[Event] = []
    how = schedule(lambda _: Runner(harness=harness), on_event=events.append)

    async def first_only() -> float:
        async with stream_groups(planned(1, 50, 50), how) as groups:
            async for _ in groups:
                break
        return LoopClock().now()

    assert run_in_virtual_time(first_only()) == 1
    assert harness.running == 0
    stopped = [event.chain_id for event in events if isinstance(event, Stopped)]
    cancelled = [
        event.chain_id
        for event in events
        if isinstance(event, Stopped) and event.stop is StopReason.CANCELLED
    ]
    assert sorted(cancelled) == ["1/0/0", "1/0/1", "2/0/0", "2/0/1"]
    assert len(stopped) == 6


def test_cancelling_the_consumer_cancels_the_chains() -> None:
    harness = Sleeping()

    async def cut_short() -> None:
        async with asyncio.timeout(2):
            await taken(planned(1, 50), sleeping(harness))

    with pytest.raises(TimeoutError):
        run_in_virtual_time(cut_short())
    assert harness.running == 0


def test_what_the_consumer_raises_ends_the_chains_and_comes_out_as_itself() -> None:
    harness = Sleeping()

    async def failing() -> None:
        async with stream_groups(planned(1, 50), sleeping(harness)) as groups:
            async for _ in groups:
                raise OSError("no space")

    with pytest.raises(OSError, match="no space"):
        run_in_virtual_time(failing())
    assert harness.running == 0


def test_a_bug_in_a_chain_ends_the_stream_as_itself() -> None:
    class Broken(Sleeping):
        async def run(self, attempt: Attempt) -> Trajectory:
            await asyncio.sleep(1)
            raise AssertionError(f"a bug in {attempt.chain_id}")

    broken, good = Runner(harness=Broken()), Runner(harness=Sleeping())
    how = schedule(lambda one: broken if one.id == "1" else good)
    with pytest.raises(AssertionError, match="a bug in 1/0/0"):
        run_in_virtual_time(taken(planned(0.5, 1, 50), how))


def test_a_group_reward_delays_neither_other_chains_nor_their_reports() -> None:
    harness = Sleeping()
    runners: Mapping[str, Runner] = {
        "judged": Runner(harness=harness, group_reward=SlowJudge(), group_reward_seconds=1000),
        "plain": Runner(harness=harness),
    }
    told: dict[str, float] = {}
    tasks = [task("a", 1, "judged"), task("b", 2, "plain"), task("c", 3, "plain")]
    how = schedule(
        lambda one: runners[one.source],
        max_concurrent=2,
        on_trajectory=lambda chain: told.update({chain.chain_id: LoopClock().now()}),
    )
    plans = plan_groups(tasks, num_chains=2, seed=Seed(0))
    came = run_in_virtual_time(taken(plans, how))
    assert came == [("b", 3), ("c", 6), ("a", 101)]
    assert told == {
        **{"b/0/0": 3, "b/0/1": 3, "c/0/0": 6, "c/0/1": 6},
        **{"a/0/0": 101, "a/0/1": 101},
    }


def test_a_slow_chain_is_reported_at_once_although_another_source_is_scored() -> None:
    """Chains of a source without a group reward are final when they end, before their siblings."""
    told: list[tuple[str, float]] = []
    judged = Runner(harness=Sleeping(), group_reward=SlowJudge())

    class Staggered(Sleeping):
        async def run(self, attempt: Attempt) -> Trajectory:
            await asyncio.sleep(10 * int(attempt.chain_id[-1]))
            return await super().run(attempt)

    plain = Runner(harness=Staggered())
    how = schedule(
        lambda one: judged if one.source == "judged" else plain,
        on_trajectory=lambda chain: told.append((chain.chain_id, LoopClock().now())),
    )
    tasks = [task("a", 1, "judged"), task("b", 1, "plain")]
    run_in_virtual_time(taken(plan_groups(tasks, num_chains=2, seed=Seed(0)), how))
    assert told[:2] == [("b/0/0", 1), ("b/0/1", 11)]


def test_a_bound_below_one_is_refused() -> None:
    async def never() -> None:
        async with stream_groups([], sleeping(Sleeping()), max_in_flight=0):
            raise AssertionError("refused before")

    with pytest.raises(ConfigError, match="max_in_flight must be at least 1, got 0"):
        run_in_virtual_time(never())


@settings(max_examples=60, deadline=None)
@given(
    seconds=st.lists(st.integers(0, 9), max_size=12),
    size=st.integers(1, 3),
    places=st.integers(1, 7),
    bound=st.none() | st.integers(1, 5),
    order=st.sampled_from(["completion", "admission"]),
)
def test_every_group_comes_once_and_whole(
    seconds: list[int], size: int, places: int, bound: int | None, order: Order
) -> None:
    harness = Sleeping()

    async def all_groups() -> list[Group]:
        how = sleeping(harness, max_concurrent=places)
        plans = planned(*seconds, size=size)
        async with stream_groups(plans, how, order=order, max_in_flight=bound) as groups:
            return [group async for group in groups]

    groups = run_in_virtual_time(all_groups())
    ids = [int(group.task.id) for group in groups]
    assert sorted(ids) == list(range(len(seconds)))
    assert ids == sorted(ids) or order == "completion"
    assert harness.most <= min(places, size * (bound or 100))
    for group in groups:
        assert [m.chain_id for m in group.members] == [f"{group.id}/{i}" for i in range(size)]
