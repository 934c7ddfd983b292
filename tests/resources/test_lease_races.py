"""Leases that end, time out and are cancelled in the same moment: no instance is ever lost."""

import asyncio
import math
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator
from typing import Any

import pytest
from tests.resources.pool_environments import Box, soon, until

from agentfly.errors import EnvError, LeaseTimeout
from agentfly.resources import EnvironmentManager, Pooling
from agentfly.resources.placement import PLACEMENTS, Instance
from agentfly.resources.placement.in_process import InProcessInstance, make_in_process
from agentfly.runtime.clock import LoopClock
from agentfly.testing import run_in_virtual_time
from agentfly.types import EnvSpec

BOX = EnvSpec(Box)
CHAINS, INSTANCES = 200, 4


@pytest.fixture(autouse=True)
def every_instance_is_closed_once() -> Iterator[None]:
    Box.made.clear()
    yield
    assert {box.closed for box in Box.made} <= {1}


def manager(**options: Any) -> EnvironmentManager:
    return EnvironmentManager({Box: Pooling(**options)})


async def hold_all(pool: EnvironmentManager, instances: int) -> None:
    """Lease every instance at once, which needs all of them to be there."""
    everyone = asyncio.Barrier(instances)

    async def hold() -> None:
        async with pool.lease([BOX], owner="everyone", deadline=soon(100)):
            await everyone.wait()

    async with asyncio.TaskGroup() as group:
        for _ in range(instances):
            group.create_task(hold())


async def wait_to_a_deadline(pool: EnvironmentManager, seconds: int) -> None:
    async with pool.lease([BOX], owner="me", deadline=soon(seconds)):
        await asyncio.sleep(1)


async def wait_to_a_time_limit(pool: EnvironmentManager, seconds: int) -> None:
    async with asyncio.timeout(seconds) as limit:
        async with pool.lease([BOX], owner="me", deadline=math.inf):
            limit.reschedule(None)
            await asyncio.sleep(1)


@pytest.mark.parametrize("chain", [wait_to_a_deadline, wait_to_a_time_limit])
def test_waits_that_end_as_leases_come_back_lose_nothing(
    chain: Callable[[EnvironmentManager, int], Awaitable[None]],
) -> None:
    ends: Counter[str] = Counter()

    async def run(pool: EnvironmentManager, number: int) -> None:
        try:
            await chain(pool, 1 + number % 7)
        except (TimeoutError, LeaseTimeout):
            ends["too late"] += 1
        else:
            ends["served"] += 1

    async def main() -> None:
        async with manager(max_instances=INSTANCES, max_uses=99) as pool:
            async with asyncio.TaskGroup() as chains:
                for number in range(CHAINS):
                    chains.create_task(run(pool, number))
            assert ends.total() == CHAINS
            # One batch a second; the last deadline is at 7 s.
            assert 6 * INSTANCES <= ends["served"] <= 8 * INSTANCES
            await hold_all(pool, INSTANCES)

    run_in_virtual_time(main())


def test_a_waiter_that_is_cancelled_before_the_release_is_passed_over() -> None:
    served: list[str] = []

    async def wait(pool: EnvironmentManager, name: str) -> None:
        async with pool.lease([BOX], owner=name, deadline=soon()):
            served.append(name)

    async def main() -> None:
        async with manager(max_instances=1, max_uses=99) as pool:
            loop = asyncio.get_running_loop()
            async with pool.lease([BOX], owner="holder", deadline=soon()):
                waiters = [loop.create_task(wait(pool, name)) for name in ("a", "b", "c")]
                await asyncio.sleep(1)
                # Its future is cancelled now; it leaves the line when it runs next.
                waiters[0].cancel()
            await asyncio.wait(waiters)
            assert waiters[0].cancelled()
        assert served == ["b", "c"]
        assert len(Box.made) == 1

    run_in_virtual_time(main())


def test_a_grant_that_nobody_received_costs_no_use() -> None:
    async def wait(pool: EnvironmentManager) -> None:
        async with pool.lease([BOX], owner="waiter", deadline=soon()):
            pytest.fail("it was cancelled")

    async def main() -> None:
        async with manager(max_instances=1, max_uses=2) as pool:
            loop = asyncio.get_running_loop()
            async with pool.lease([BOX], owner="holder", deadline=soon()):
                waiter = loop.create_task(wait(pool))
                await asyncio.sleep(1)
            assert pool.snapshot().leases[0].owner == "waiter"
            waiter.cancel()
            await asyncio.wait([waiter])
            async with pool.lease([BOX], owner="third", deadline=soon(0)):
                assert len(Box.made) == 1, "the second use of two"

    run_in_virtual_time(main())


@pytest.mark.parametrize("deadline", [-math.inf, -5.0, 0.0])
def test_a_deadline_that_is_past_takes_what_is_there_and_waits_for_nothing(deadline: float) -> None:
    async def main() -> None:
        async with manager(max_instances=1, max_uses=9) as pool:
            with pytest.raises(LeaseTimeout):
                async with pool.lease([BOX], owner="early", deadline=deadline):
                    pytest.fail("it can't be made yet")
            await asyncio.sleep(1)
            async with pool.lease([BOX], owner="me", deadline=deadline):
                with pytest.raises(LeaseTimeout):
                    async with pool.lease([BOX], owner="you", deadline=deadline):
                        pytest.fail("there is only one")
            await hold_all(pool, 1)

    run_in_virtual_time(main())


def test_a_chain_cancelled_while_its_instance_closes_loses_nothing() -> None:
    class Slow(Box):
        async def close(self) -> None:  # type: ignore[override]
            await asyncio.sleep(0.5)
            self.closed += 1

    spec = EnvSpec(Slow)

    async def use(pool: EnvironmentManager) -> None:
        async with pool.lease([spec], owner="me", deadline=soon()):
            pass

    async def main() -> None:
        async with EnvironmentManager({Slow: Pooling(max_instances=1)}) as pool:
            user = asyncio.get_running_loop().create_task(use(pool))
            await asyncio.sleep(0.1)
            user.cancel()
            await asyncio.wait([user])
            assert user.cancelled()
            assert [box.closed for box in Box.made] == [0]
            await use(pool)
            assert [box.closed for box in Box.made] == [1, 1]

    run_in_virtual_time(main())


def test_closing_the_manager_sees_slow_closes_through() -> None:
    class Slow(Box):
        async def close(self) -> None:  # type: ignore[override]
            await asyncio.sleep(5)
            self.closed += 1

    spec = EnvSpec(Slow)

    async def main() -> None:
        async with (
            EnvironmentManager({Slow: Pooling()}) as pool,
            pool.lease([spec], owner="me", deadline=soon()),
        ):
            pass
        assert [box.closed for box in Box.made] == [1]

    run_in_virtual_time(main())


def test_a_manager_whose_close_is_cancelled_still_ends_its_instances() -> None:
    class Slow(Box):
        async def close(self) -> None:  # type: ignore[override]
            await asyncio.sleep(5)
            self.closed += 1

    spec = EnvSpec(Slow)

    async def main() -> None:
        pool = EnvironmentManager({Slow: Pooling(max_uses=9)})
        async with pool.lease([spec], owner="me", deadline=soon()):
            pass
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(1):
                await pool.close()
        await asyncio.sleep(5)
        assert [box.closed for box in Box.made] == [1]

    run_in_virtual_time(main())


async def test_what_a_placement_raises_reaches_the_waiter_and_takes_no_room() -> None:
    """Such as the system's refusal of another socket, which no place foresaw."""
    refusals = [OSError(24, "Too many open files"), RuntimeError("can't start new thread")]

    async def crowded(spec: EnvSpec, pooling: Pooling, clock: LoopClock) -> Instance:
        if refusals:
            raise refusals.pop()
        return await make_in_process(spec, pooling, clock)

    PLACEMENTS["crowded"] = crowded  # type: ignore[assignment]
    try:
        async with manager(where="crowded", max_instances=1, max_uses=9) as pool:
            for words in ("can't start new thread", "Too many open files"):
                with pytest.raises(EnvError, match=words):
                    async with pool.lease([BOX], owner="me", deadline=soon()):
                        pytest.fail("it can't be made")
            await hold_all(pool, 1)
    finally:
        del PLACEMENTS["crowded"]


async def test_an_instance_that_can_not_even_be_looked_at_is_replaced() -> None:
    class Unlookable(InProcessInstance):
        looks = 0

        @property
        def unfit(self) -> str | None:  # type: ignore[override]
            Unlookable.looks += 1
            if Unlookable.looks % 2:
                raise OSError("the system does not say")
            return None

    async def odd(spec: EnvSpec, pooling: Pooling, clock: LoopClock) -> Instance:
        made = await make_in_process(spec, pooling, clock)
        return Unlookable(made.environment, spec, pooling, clock)

    PLACEMENTS["odd"] = odd  # type: ignore[assignment]
    try:
        async with manager(where="odd", max_instances=2, max_uses=9) as pool:
            for _ in range(6):
                await hold_all(pool, 2)
            assert len(Box.made) > 2
    finally:
        del PLACEMENTS["odd"]
    await until(lambda: all(box.closed for box in Box.made))
