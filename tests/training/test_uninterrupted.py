"""Work that is seen through to its end."""

import asyncio
import os
import signal
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from agentfly.training.publisher import uninterrupted


async def test_a_cancelled_waiter_gets_the_result_first_and_the_cancellation_after() -> None:
    begun, go_on = threading.Event(), threading.Event()
    seen: list[str] = []

    def work() -> int:
        begun.set()
        assert go_on.wait(10)
        return 7

    async def waiter(thread: ThreadPoolExecutor) -> None:
        seen.append(f"result {await uninterrupted(work, thread)}")
        await asyncio.sleep(10)
        seen.append("went on")

    with ThreadPoolExecutor(1) as thread:
        async with asyncio.TaskGroup() as group:
            task = group.create_task(waiter(thread))
            await asyncio.to_thread(begun.wait, 10)
            task.cancel()
            await asyncio.sleep(0.01)
            task.cancel()
            await asyncio.sleep(0.01)
            assert not task.done()
            go_on.set()
    assert seen == ["result 7"]
    assert task.cancelled()


async def test_an_error_of_the_work_comes_out() -> None:
    def work() -> None:
        raise KeyError("boom")

    with ThreadPoolExecutor(1) as thread, pytest.raises(KeyError, match="boom"):
        await uninterrupted(work, thread)


def test_ctrl_c_during_the_work_is_still_a_keyboard_interrupt() -> None:
    finished: list[bool] = []

    def work() -> None:
        os.kill(os.getpid(), signal.SIGINT)
        threading.Event().wait(0.2)
        finished.append(True)

    async def main() -> None:
        with ThreadPoolExecutor(1) as thread:
            await uninterrupted(work, thread)
            await asyncio.sleep(10)

    with pytest.raises(KeyboardInterrupt):
        asyncio.run(main())
    assert finished == [True]
