"""Leases: together, in order, bounded, and given back on every way out."""

import asyncio
import random
import socket
import threading
from collections.abc import Iterator
from typing import Any

import pytest
from tests.resources.pool_environments import TASK, Box, Crate, broken, soon, until

from agentfly.errors import ConfigError, EnvError, LeaseTimeout
from agentfly.resources import EnvironmentManager, Pooling
from agentfly.testing import run_in_virtual_time
from agentfly.types import EnvSpec, Seed

BOX, CRATE = EnvSpec(Box), EnvSpec(Crate)


@pytest.fixture(autouse=True)
def what_was_made_is_closed_once() -> Iterator[None]:
    Box.made.clear()
    yield
    assert {box.closed for box in Box.made} <= {1}


def manager(**options: Any) -> EnvironmentManager:
    pooling = Pooling(**options)
    return EnvironmentManager({Box: pooling, Crate: pooling})


async def test_equal_specs_give_one_object_and_different_specs_distinct_ones() -> None:
    small, large = BOX, EnvSpec(Box, (("size", 9),))
    async with (
        manager() as pool,
        pool.lease([small, large, small], owner="me", deadline=soon()) as leased,
    ):
        assert {spec: box.size for spec, box in leased.items()} == {small: 1, large: 9}
        assert leased[small] is not leased[large]


async def test_a_chain_gets_a_new_instance_unless_its_class_says_otherwise() -> None:
    async with manager(max_instances=1) as pool:
        for _ in range(3):
            async with pool.lease([BOX], owner="me", deadline=soon()) as leased:
                assert leased[BOX].total == 0
                leased[BOX].step("go")
        assert len(Box.made) == 3
        assert [box.closed for box in Box.made] == [1, 1, 1]


async def test_an_instance_is_reused_so_many_times_and_only_after_a_reset() -> None:
    async with manager(max_uses=2) as pool:
        for chain in range(4):
            async with pool.lease([BOX], owner="me", deadline=soon()) as leased:
                if chain % 2:
                    with pytest.raises(EnvError, match="reset it before calling total"):
                        _ = leased[BOX].total
                leased[BOX].reset(TASK, Seed(0))
                assert leased[BOX].total == 0
                leased[BOX].step("go")
        assert len(Box.made) == 2
        (state,) = pool.snapshot().stocks
        assert (state.created, state.recycled, state.crashed) == (2, 2, 0)


def test_an_instance_that_is_too_old_is_replaced() -> None:
    async def main() -> None:
        async with manager(max_uses=100, max_age=50.0) as pool:
            for _ in range(3):
                async with pool.lease([BOX], owner="me", deadline=soon()):
                    await asyncio.sleep(20)
            assert len(Box.made) == 1
            await asyncio.sleep(100)
            assert [box.closed for box in Box.made] == [1], "nobody asked for it any more"

    run_in_virtual_time(main())


async def test_what_fails_in_an_instance_poisons_it() -> None:
    async with manager(max_uses=100) as pool:
        async with pool.lease([BOX], owner="me", deadline=soon()) as leased:
            with pytest.raises(RuntimeError, match="fell down"):
                leased[BOX].step("fail")
        async with pool.lease([BOX], owner="me", deadline=soon()):
            pass
        assert [box.closed for box in Box.made] == [1, 0]
        assert pool.snapshot().stocks[0].crashed == 1


async def test_a_reset_that_fails_means_replacement() -> None:
    class Stuck(Box):
        def reset(self, *_: object) -> str:
            raise RuntimeError("stuck")

    spec = EnvSpec(Stuck)
    async with EnvironmentManager({Stuck: Pooling(max_uses=9, max_instances=1)}) as pool:
        for _ in range(2):
            async with pool.lease([spec], owner="me", deadline=soon()) as leased:
                with pytest.raises(RuntimeError, match="stuck"):
                    leased[spec].reset(TASK, Seed(0))
        assert [box.closed for box in Box.made] == [1, 1]


async def test_a_call_that_still_runs_at_the_end_of_the_lease_never_meets_another_chain() -> None:
    may_go_on = threading.Event()

    class Slow(Box):
        def step(self, action: str) -> Any:
            may_go_on.wait(30)
            return super().step(action)

    spec = EnvSpec(Slow)
    async with EnvironmentManager({Slow: Pooling(max_uses=9)}) as pool:
        async with pool.lease([spec], owner="first", deadline=soon()) as leased:
            handle = leased[spec]
            thread = threading.Thread(target=handle.step, args=("go",))
            thread.start()
        async with pool.lease([spec], owner="second", deadline=soon()) as leased:
            may_go_on.set()
            thread.join()
            assert leased[spec].total == 0
        with pytest.raises(EnvError, match="after the lease's end"):
            handle.step("go")
        assert len(Box.made) == 2


async def test_an_instance_that_is_closed_by_its_chain_takes_no_place_with_it() -> None:
    async with manager(max_instances=1, max_uses=9) as pool:
        for _ in range(3):
            async with pool.lease([BOX], owner="me", deadline=soon()) as leased:
                leased[BOX].close()
    assert len(Box.made) == 3


async def test_even_an_object_that_was_closed_directly_takes_no_place_with_it() -> None:
    class Once(Box):
        def close(self) -> None:
            if self.closed:
                raise RuntimeError("closed twice")
            super().close()

    spec = EnvSpec(Once)
    async with EnvironmentManager({Once: Pooling(max_instances=1)}) as pool:
        for _ in range(3):
            async with pool.lease([spec], owner="me", deadline=soon()) as leased:
                leased[spec].close()
    assert len(Box.made) == 3


async def test_a_lease_is_all_or_nothing() -> None:
    bad = EnvSpec(broken)
    async with manager(max_uses=9) as pool:
        with pytest.raises(EnvError, match="making environment broken raised OSError"):
            async with pool.lease([BOX, bad], owner="me", deadline=soon()):
                pytest.fail("it can't be made")
        async with pool.lease([BOX], owner="me", deadline=soon()):
            pass
        assert len(Box.made) == 1, "what was made for the first is there for the second"


def test_a_wait_in_vain_says_who_holds_what() -> None:
    async def main() -> None:
        async with manager(max_instances=1) as pool:
            async with pool.lease([BOX], owner="t/0/1", deadline=soon()):
                await asyncio.sleep(2)
                with pytest.raises(LeaseTimeout) as caught:
                    async with pool.lease([BOX, CRATE], owner="t/0/2", deadline=soon(5.0)):
                        pytest.fail("there is only one")
            assert "Box and Crate did not become free for t/0/2 within 5.0 s" in str(caught.value)
            assert "1 of at most 1 Box are held (by t/0/1 for 7.0 s)" in str(caught.value)
            assert "0 of at most 1 Crate are held, 1 ready" in str(caught.value)
            async with pool.lease([BOX, CRATE], owner="t/0/2", deadline=soon()):
                pass

    run_in_virtual_time(main())


def test_first_come_first_served_within_a_priority() -> None:
    order: list[str] = []

    async def chain(pool: EnvironmentManager, name: str, priority: int) -> None:
        async with pool.lease([BOX], owner=name, deadline=soon(), priority=priority):
            order.append(name)
            await asyncio.sleep(1)

    async def main() -> None:
        async with manager(max_instances=1, max_uses=99) as pool, asyncio.TaskGroup() as chains:
            for number, priority in enumerate([0, 1, 1, 0, -1, 0]):
                chains.create_task(chain(pool, f"{number}", priority))
                await asyncio.sleep(0.01)

    run_in_virtual_time(main())
    assert order == ["0", "4", "3", "5", "1", "2"]


def test_who_needs_two_kinds_is_not_starved_and_holds_back_only_rivals() -> None:
    got: list[str] = []
    other = EnvSpec(Box, (("size", 7),))

    async def chain(pool: EnvironmentManager, name: str, specs: list[EnvSpec]) -> None:
        async with pool.lease(specs, owner=name, deadline=soon()):
            got.append(name)
            await asyncio.sleep(1)

    async def main() -> None:
        async with manager(max_instances=1, max_uses=99) as pool, asyncio.TaskGroup() as chains:
            wishes = [[BOX], [BOX, CRATE], [CRATE], [other], [BOX]]
            for name, specs in zip(["a", "both", "crate", "other", "b"], wishes, strict=True):
                chains.create_task(chain(pool, name, specs))
                await asyncio.sleep(0.01)

    run_in_virtual_time(main())
    assert got == ["a", "other", "both", "crate", "b"]


def test_chains_that_need_two_kinds_in_both_orders_all_end() -> None:
    ended: list[int] = []

    async def chain(pool: EnvironmentManager, number: int) -> None:
        specs = [BOX, CRATE] if number % 2 else [CRATE, BOX]
        async with pool.lease(specs, owner=str(number), deadline=soon(1e6)) as leased:
            for spec in specs:
                leased[spec].reset(TASK, Seed(0))
            await asyncio.sleep(random.Random(number).random())
            assert (leased[BOX].step("go").observation, leased[CRATE].total) == ("NOW AT 1.", 0)
        ended.append(number)

    async def main() -> None:
        async with manager(max_instances=1, max_uses=7) as pool, asyncio.TaskGroup() as chains:
            for number in range(200):
                chains.create_task(chain(pool, number))

    run_in_virtual_time(main())
    assert ended == list(range(200))
    assert len(Box.made) == 2 * -(-200 // 7)


def test_a_cancelled_or_failing_chain_gives_everything_back() -> None:
    async def chain(pool: EnvironmentManager, number: int) -> None:
        async with pool.lease([BOX, CRATE], owner=str(number), deadline=soon(1e6)):
            await asyncio.sleep(random.Random(number).random())
            if number % 3 == 0:
                raise ValueError(number)

    async def main() -> None:
        rng = random.Random(3)
        async with manager(max_instances=4, max_uses=5) as pool:
            loop = asyncio.get_running_loop()
            chains = [loop.create_task(chain(pool, number)) for number in range(100)]
            for unlucky in rng.sample(chains, 40):
                await asyncio.sleep(rng.random() / 10)
                unlucky.cancel()
            await asyncio.wait(chains)
            for ended in chains:
                assert ended.cancelled() or isinstance(ended.exception(), ValueError | None)
            await asyncio.sleep(1)
            for state in pool.snapshot().stocks:
                assert (state.leased, state.waiting, state.making, state.ending) == (0, 0, 0, 0)
            # All of it can be had again at once.
            async with asyncio.TaskGroup() as group:
                for number in range(4):
                    group.create_task(chain(pool, 3 * number + 1))

    run_in_virtual_time(main())


def test_what_is_granted_in_the_moment_of_giving_up_goes_back() -> None:
    async def wait(pool: EnvironmentManager) -> None:
        async with pool.lease([BOX], owner="waiter", deadline=soon()):
            pytest.fail("it was cancelled")

    async def main() -> None:
        async with manager(max_instances=1, max_uses=9) as pool:
            loop = asyncio.get_running_loop()
            async with pool.lease([BOX], owner="holder", deadline=soon()):
                waiter = loop.create_task(wait(pool))
                await asyncio.sleep(1)
            # The release has granted it, and the waiter has not run since.
            assert pool.snapshot().leases[0].owner == "waiter"
            waiter.cancel()
            await asyncio.wait([waiter])
            assert waiter.cancelled()
            async with pool.lease([BOX], owner="third", deadline=soon(1)):
                pass

    run_in_virtual_time(main())


async def test_a_minimum_is_kept_warm_ahead_of_need() -> None:
    async with manager(min_warm=2, max_instances=3) as pool:
        await pool.warm_up([BOX])
        await until(lambda: pool.snapshot().stocks[0].warm >= 2)
        async with pool.lease([BOX], owner="me", deadline=soon(0.0)):
            await until(lambda: pool.snapshot().stocks[0].warm >= 2)
            async with pool.lease([BOX], owner="you", deadline=soon()):
                assert pool.snapshot().stocks[0].leased == 2
        assert len(Box.made) <= 5


async def test_a_warm_minimum_that_can_not_be_made_is_not_tried_for_ever() -> None:
    tries = []

    def failing() -> Box:
        tries.append(1)
        raise OSError("never")

    spec = EnvSpec(failing)
    async with EnvironmentManager({failing: Pooling(min_warm=3)}) as pool:
        await pool.warm_up([spec])
        await until(lambda: not pool.snapshot().stocks[0].making)
        assert len(tries) == 3
        with pytest.raises(EnvError, match="never"):
            async with pool.lease([spec], owner="me", deadline=soon()):
                pytest.fail("it can't be made")


def test_the_sick_are_found_when_they_come_back_and_while_they_are_warm() -> None:
    class Patient(Box):
        is_well = True

        async def healthy(self) -> bool:
            await asyncio.sleep(0.1)
            return self.is_well

    spec = EnvSpec(Patient)

    async def main() -> None:
        async with EnvironmentManager({Patient: Pooling(max_uses=99)}) as pool:
            for _ in range(2):
                async with pool.lease([spec], owner="me", deadline=soon()):
                    pass
                await asyncio.sleep(1)
            (patient,) = Box.made
            async with pool.lease([spec], owner="me", deadline=soon()):
                patient.is_well = False  # type: ignore[attr-defined]
            await asyncio.sleep(1)
            assert patient.closed == 1
            async with pool.lease([spec], owner="me", deadline=soon()):
                pass
            await asyncio.sleep(1)
            assert Box.made[1].closed == 0
            Box.made[1].is_well = False  # type: ignore[attr-defined]
            await asyncio.sleep(60)
            assert Box.made[1].closed == 1, "found on a round"
            assert pool.snapshot().stocks[0].crashed == 2

    run_in_virtual_time(main())


def alive_mb() -> int:
    return sum(40 if isinstance(box, Crate) else 60 for box in Box.made if not box.closed)


async def together(pool: EnvironmentManager, wishes: list[list[EnvSpec]], seen: list[int]) -> None:
    async def chain(specs: list[EnvSpec]) -> None:
        async with pool.lease(specs, owner="me", deadline=soon(1e6)):
            seen.append(alive_mb())
            await asyncio.sleep(1)

    async with asyncio.TaskGroup() as chains:
        for specs in wishes:
            chains.create_task(chain(specs))


def test_one_budget_holds_for_all_kinds_and_the_warm_make_room() -> None:
    table = {Box: Pooling(memory_mb=60, max_uses=99), Crate: Pooling(memory_mb=40, max_uses=99)}
    seen: list[int] = []

    async def main() -> None:
        async with EnvironmentManager(table, memory_mb=130) as pool:
            await together(pool, [[BOX], [BOX]], seen)
            assert alive_mb() == 120, "both are warm"
            await together(pool, [[CRATE]], seen)
            assert alive_mb() == 100, "one of them made room"
            await together(pool, [[CRATE]] * 3, seen)
            assert alive_mb() == 120, "so did the other"
            await together(pool, [[BOX], [CRATE], [BOX, CRATE]] * 20, seen)

    run_in_virtual_time(main())
    assert len(seen) == 66
    assert max(seen) == 120


async def test_what_can_never_fit_the_budget_is_said_at_once() -> None:
    async with EnvironmentManager({Box: Pooling(cpus=3), Crate: Pooling(cpus=2)}, cpus=4) as pool:
        async with pool.lease([BOX], owner="me", deadline=soon()):
            pass
        with pytest.raises(ConfigError, match="more than the budget of inf MB and 4 CPUs"):
            async with pool.lease([BOX, CRATE], owner="me", deadline=soon()):
                pytest.fail("5 CPUs are more than 4")


async def test_an_instance_that_comes_too_late_is_closed() -> None:
    may_go_on = threading.Event()

    def slow() -> Box:
        may_go_on.wait(30)
        return Box()

    async with EnvironmentManager({slow: Pooling(make_seconds=0.05)}) as pool:
        with pytest.raises(EnvError, match="did not answer within"):
            async with pool.lease([EnvSpec(slow)], owner="me", deadline=soon()):
                pytest.fail("it can't be ready yet")
    may_go_on.set()
    await until(lambda: [box.closed for box in Box.made] == [1])


async def test_a_close_that_hangs_or_fails_holds_nobody_up(
    caplog: pytest.LogCaptureFixture,
) -> None:
    never = threading.Event()

    class Sticky(Box):
        def close(self) -> None:
            super().close()
            if len(Box.made) == 1:
                never.wait(30)
            raise RuntimeError("stuck shut")

    spec = EnvSpec(Sticky)
    async with EnvironmentManager({Sticky: Pooling(close_seconds=0.1, max_instances=1)}) as pool:
        for _ in range(3):
            async with pool.lease([spec], owner="me", deadline=soon()):
                pass
    never.set()
    assert "did not answer within 0.1 s" in caplog.text
    assert "stuck shut" in caplog.text


def test_instances_end_with_their_event_loop_and_the_manager_serves_the_next() -> None:
    pool = manager(max_uses=9, min_warm=2)

    async def main() -> None:
        async with pool.lease([BOX], owner="me", deadline=soon()):
            pass

    for _ in range(2):
        asyncio.run(main())
        assert {box.closed for box in Box.made} == {1}


async def test_waiters_get_an_error_when_the_manager_is_closed() -> None:
    pool = manager(max_instances=1)

    async def wait() -> None:
        with pytest.raises(EnvError, match="was closed"):
            async with pool.lease([BOX], owner="waiter", deadline=soon()):
                pytest.fail("it was closed")

    async with pool.lease([BOX], owner="holder", deadline=soon()), asyncio.TaskGroup() as group:
        group.create_task(wait())
        await asyncio.sleep(0.01)
        await pool.close()


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"max_uses": 0}, "max_uses must be greater than 0, got 0"),
        ({"min_warm": -1}, "min_warm must be at least 0"),
        ({"min_warm": 9, "max_instances": 3}, "min_warm=9 can't be kept: max_instances is 3"),
    ],
)
def test_pooling_that_can_not_be_is_refused(options: dict[str, Any], words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        Pooling(**options)


def test_an_address_without_http_is_refused_and_its_token_is_not_shown() -> None:
    with pytest.raises(ConfigError, match=r"'host:8700/' has no http://") as refused:
        Pooling(where="host:8700/?token=0123456789abcdef")
    assert "0123456789abcdef" not in str(refused.value)


async def test_a_wait_for_what_is_still_being_made_says_so() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        where = f"http://127.0.0.1:{silent.getsockname()[1]}"
        table = {Box: Pooling(where=where, make_seconds=2.0)}
        async with EnvironmentManager(table) as pool:
            with pytest.raises(LeaseTimeout, match=rf"Making Box \(where='{where}'\) takes longer"):
                async with pool.lease([BOX], owner="me", deadline=soon(0.5)):
                    pytest.fail("nothing answers there")


async def test_places_and_poolings_are_checked() -> None:
    class Wrong(Box):
        pooling = {"max_uses": 3}  # noqa: RUF012 - wrong on purpose

    for factory, words in [(Wrong, "must be a Pooling"), (Box, "unknown place .*'proces'")]:
        table = {Box: Pooling(where="proces")}
        async with EnvironmentManager(table) as pool:
            with pytest.raises(ConfigError, match=words):
                async with pool.lease([EnvSpec(factory)], owner="me", deadline=soon()):
                    pytest.fail("that is no pooling")
