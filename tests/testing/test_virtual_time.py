import asyncio
import time

import pytest
from tests.patience import PATIENCE

from agentfly.runtime.clock import LoopClock
from agentfly.testing import run_in_virtual_time


def test_hours_pass_in_no_time_and_in_order() -> None:
    woke: list[tuple[str, float]] = []

    async def sleeper(name: str, seconds: float) -> None:
        await LoopClock().sleep(seconds)
        woke.append((name, LoopClock().now()))

    async def main() -> None:
        async with asyncio.TaskGroup() as group:
            for name, seconds in (("late", 7200.0), ("early", 60.0), ("middle", 3600.0)):
                group.create_task(sleeper(name, seconds))

    start = time.monotonic()
    run_in_virtual_time(main())
    assert time.monotonic() - start < PATIENCE < 7200
    assert woke == [("early", 60.0), ("middle", 3600.0), ("late", 7200.0)]


def test_deadlines_fire_in_virtual_time() -> None:
    async def main() -> float:
        clock = LoopClock()
        with pytest.raises(TimeoutError):
            async with clock.timeout_at(clock.now() + 100):
                await asyncio.Event().wait()
        return clock.now()

    assert run_in_virtual_time(main()) == pytest.approx(100)


def test_a_deadlock_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("agentfly.testing.virtual_time.REAL_WAIT_SECONDS", 0.05)

    async def main() -> None:
        await asyncio.Event().wait()

    with pytest.raises(RuntimeError, match="deadlock"):
        run_in_virtual_time(main())


def test_threads_still_answer() -> None:
    async def main() -> int:
        return await asyncio.to_thread(lambda: 42)

    assert run_in_virtual_time(main()) == 42
