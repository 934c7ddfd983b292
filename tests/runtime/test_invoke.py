import asyncio
import contextlib
import functools
import gc
import logging
import math
import threading
import time
from collections.abc import Callable
from typing import Any
from xmlrpc.client import ServerProxy

import pytest
from tests.patience import PATIENCE

from agentfly.errors import DeadlineError, EnvError
from agentfly.runtime.clock import LoopClock
from agentfly.runtime.invoke import invoke, is_async, supervised
from agentfly.runtime.threads import WorkerThreads

CLOCK = LoopClock()


async def called(function: Callable[[], Any], *, seconds: float = math.inf) -> Any:
    return await invoke(function, name="the function", clock=CLOCK, deadline=CLOCK.now() + seconds)


class Callable1:
    async def __call__(self) -> str:
        return "object"


async def later(word: str = "later") -> str:
    await asyncio.sleep(0)
    return word


@pytest.mark.parametrize(
    ("function", "expected"),
    [
        (lambda: "plain", "plain"),
        (later, "later"),
        (functools.partial(later, "partial"), "partial"),
        (lambda: later("from a lambda"), "from a lambda"),
        (Callable1(), "object"),
    ],
)
async def test_every_kind_of_function(function: Callable[[], Any], expected: str) -> None:
    assert await called(function) == expected


def test_is_async_looks_through_partials_and_objects() -> None:
    assert is_async(later)
    assert is_async(functools.partial(functools.partial(later), "x"))
    assert is_async(Callable1())
    assert not is_async(lambda: later())
    assert not is_async(len)
    assert not is_async(ServerProxy("http://localhost:1").add), "an object with every attribute"


async def test_a_synchronous_function_runs_elsewhere() -> None:
    assert await called(threading.get_ident) != threading.get_ident()


@pytest.mark.parametrize(
    "error", [KeyError("k"), EnvError("e"), TimeoutError("t"), DeadlineError("d")]
)
@pytest.mark.parametrize("is_coroutine", [False, True])
async def test_errors_come_through_as_they_are(error: Exception, is_coroutine: bool) -> None:
    def fail() -> None:
        raise error

    async def fail_later() -> None:
        fail()

    with pytest.raises(type(error)) as caught:
        await called(fail_later if is_coroutine else fail, seconds=30)
    assert caught.value is error


async def test_the_deadline_says_the_limit() -> None:
    with pytest.raises(DeadlineError, match=r"^the function did not answer within 0\.05 s$"):
        await called(functools.partial(asyncio.sleep, 60), seconds=0.05)


async def test_waiting_for_a_thread_is_not_the_functions_own_time() -> None:
    pool = WorkerThreads(size=1)
    gate = threading.Event()
    ran: list[str] = []

    async def call(function: Callable[[], Any], deadline: float) -> Any:
        return await invoke(
            function, name="f", clock=CLOCK, deadline=deadline, seconds=0.2, threads=pool
        )

    async with asyncio.TaskGroup() as group:
        holder = group.create_task(pool.run(lambda: gate.wait(60), name="holder"))
        await asyncio.sleep(0.05)
        in_line = group.create_task(call(lambda: "served", math.inf))
        with pytest.raises(DeadlineError, match=r"f did not answer within 0\.05 s"):
            await call(lambda: ran.append("too late"), CLOCK.now() + 0.05)
        await asyncio.sleep(0.4)
        gate.set()
        assert await in_line == "served"
        await holder
    with pytest.raises(DeadlineError, match=r"f did not answer within 0\.2 s"):
        await call(lambda: time.sleep(0.5), math.inf)
    assert ran == []


async def test_a_hung_thread_is_left_behind() -> None:
    gate = threading.Event()
    try:
        with pytest.raises(DeadlineError):
            await called(lambda: gate.wait(60), seconds=0.05)
    finally:
        gate.set()


async def test_a_coroutine_is_cancelled_at_the_deadline_and_may_clean_up() -> None:
    events: list[str] = []

    async def work() -> None:
        try:
            await asyncio.sleep(60)
        finally:
            await asyncio.sleep(0.01)
            events.append("cleaned up")

    with pytest.raises(DeadlineError):
        await called(work, seconds=0.05)
    assert events == ["cleaned up"]


async def test_a_coroutine_that_swallows_its_cancellation_is_abandoned(
    caplog: pytest.LogCaptureFixture,
) -> None:
    released = asyncio.Event()
    ended = asyncio.Event()

    async def stubborn() -> None:
        while not released.is_set():
            try:
                await released.wait()
            except asyncio.CancelledError:
                continue
        ended.set()
        raise ValueError("nobody is there to hear it")

    started = time.monotonic()
    with pytest.raises(DeadlineError):
        await called(stubborn, seconds=0.05)
    assert time.monotonic() - started < PATIENCE
    assert "the function ignores its cancellation: abandoned" in caplog.text
    released.set()
    await ended.wait()
    await asyncio.sleep(0)
    with caplog.at_level(logging.ERROR, logger="asyncio"):
        gc.collect()
    assert "never retrieved" not in caplog.text


def test_a_program_ends_although_a_coroutine_never_does() -> None:
    async def immortal() -> None:
        while True:
            with contextlib.suppress(asyncio.CancelledError):
                await asyncio.Event().wait()

    async def main() -> str:
        with pytest.raises(DeadlineError):
            await called(immortal, seconds=0.05)
        return "ended"

    assert asyncio.run(main()) == "ended"


async def test_an_error_while_being_cancelled_is_not_complained_of(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def clumsy() -> None:
        try:
            await asyncio.sleep(60)
        finally:
            raise ValueError("while cleaning up")

    with pytest.raises(DeadlineError):
        await called(clumsy, seconds=0.05)
    gc.collect()
    assert "never retrieved" not in caplog.text


async def test_cancelling_the_caller_cancels_the_coroutine() -> None:
    ended = asyncio.Event()

    async def work() -> None:
        try:
            await asyncio.sleep(60)
        finally:
            ended.set()

    async with asyncio.TaskGroup() as group:
        calling = group.create_task(called(work))
        await asyncio.sleep(0.01)
        calling.cancel()
    assert calling.cancelled()
    assert ended.is_set()


async def test_a_coroutine_that_is_cancelled_before_its_first_step_is_not_left_unawaited() -> None:
    """As at the end of a program, when all tasks are cancelled at once."""
    this = asyncio.current_task()

    def cancel_all() -> None:
        for task in asyncio.all_tasks():
            if task is not this:
                task.cancel()

    async with asyncio.TaskGroup() as group:
        calling = group.create_task(called(later))
        asyncio.get_running_loop().call_soon(cancel_all)
    assert calling.cancelled()
    gc.collect()  # warnings are errors: an unawaited coroutine would fail the test


async def test_anything_that_can_be_awaited_can_be_supervised() -> None:
    future: asyncio.Future[str] = asyncio.get_running_loop().create_future()
    future.set_result("done")
    assert await supervised(future, "the future") == "done"


async def test_a_coroutine_that_cancels_itself_is_an_error_not_a_cancellation() -> None:
    async def give_up() -> None:
        raise asyncio.CancelledError

    with pytest.raises(RuntimeError, match="the function cancelled itself"):
        await called(give_up)


async def test_exit_in_a_coroutine_does_not_end_the_process() -> None:
    async def leave() -> None:
        raise SystemExit(3)

    with pytest.raises(RuntimeError, match="the function raised SystemExit: 3"):
        await called(leave)


async def test_the_clock_counts_and_waits() -> None:
    before = CLOCK.now()
    await CLOCK.sleep(0.01)
    assert CLOCK.now() - before >= 0.009
    async with CLOCK.timeout_at(math.inf):
        await asyncio.sleep(0)
    with pytest.raises(TimeoutError):
        async with CLOCK.timeout_at(CLOCK.now() + 0.01):
            await asyncio.sleep(60)
