import asyncio
import contextvars
import gc
import threading
import time
import weakref
from collections.abc import Iterator

import pytest
from tests.patience import PATIENCE, until

from agentfly.errors import EnvError
from agentfly.runtime import threads as threads_module
from agentfly.runtime.threads import WorkerThreads, shared_threads


@pytest.fixture
def gate() -> Iterator[threading.Event]:
    """A gate that hung calls wait at; opened at the end, whatever happens."""
    opened = threading.Event()
    yield opened
    opened.set()


async def abandon(pool: WorkerThreads, gate: threading.Event, name: str) -> None:
    """Start a call that hangs, and give it up once it runs."""
    running = threading.Event()

    def hang() -> None:
        running.set()
        gate.wait(60)

    async with asyncio.TaskGroup() as group:
        waiting = group.create_task(pool.run(hang, name=name))
        await until(running.is_set)
        waiting.cancel()


async def test_results_and_errors_come_back() -> None:
    pool = WorkerThreads()
    assert await pool.run(lambda: 1 + 1, name="add") == 2
    with pytest.raises(ZeroDivisionError):
        await pool.run(lambda: 1 // 0, name="divide")


@pytest.mark.parametrize(
    "kind", [StopIteration, SystemExit, KeyboardInterrupt, asyncio.CancelledError]
)
async def test_what_a_future_cannot_carry_comes_back_as_a_runtime_error(
    kind: type[BaseException],
) -> None:
    def leave() -> None:
        raise kind(7)

    with pytest.raises(RuntimeError, match=f"leave raised {kind.__name__}: 7"):
        await WorkerThreads().run(leave, name="leave")


async def test_a_call_sees_the_callers_context_variables() -> None:
    who: contextvars.ContextVar[str] = contextvars.ContextVar("who")
    who.set("the caller")
    assert await WorkerThreads().run(who.get, name="who") == "the caller"


async def test_calls_run_at_once_up_to_the_size() -> None:
    pool = WorkerThreads(size=3)
    running, most, lock = 0, 0, threading.Lock()
    together = threading.Barrier(3, timeout=PATIENCE)

    def work() -> None:
        nonlocal running, most
        with lock:
            running += 1
            most = max(most, running)
        together.wait()
        with lock:
            running -= 1

    async with asyncio.TaskGroup() as group:
        for _ in range(9):
            group.create_task(pool.run(work, name="work"))
    assert most == 3


async def test_a_thread_is_started_although_an_idle_one_is_about_to_take_another_call(
    gate: threading.Event,
) -> None:
    """Two calls submitted in one step need two threads, even if one is idle."""
    pool = WorkerThreads(size=8)
    await pool.run(lambda: None, name="warm up")
    async with asyncio.timeout(PATIENCE), asyncio.TaskGroup() as group:
        group.create_task(pool.run(lambda: gate.wait(60), name="first"))
        second = group.create_task(pool.run(lambda: "second", name="second"))
        assert await second == "second"
        gate.set()


async def test_abandoned_calls_are_counted_and_named_and_give_their_place_to_others(
    gate: threading.Event,
) -> None:
    pool = WorkerThreads(size=2, max_abandoned=10)
    for number in range(5):
        await abandon(pool, gate, f"hang {number}")
    assert sorted(pool.abandoned) == [f"hang {number}" for number in range(5)]
    named = {thread.name for thread in threading.enumerate()}
    assert {f"agentfly:hang {number}" for number in range(5)} <= named
    together = threading.Barrier(2, timeout=PATIENCE)
    async with asyncio.TaskGroup() as group:
        group.create_task(pool.run(together.wait, name="one"))
        group.create_task(pool.run(together.wait, name="two"))
    gate.set()
    await until(lambda: not pool.abandoned)


async def test_who_waits_in_line_gets_the_place_of_an_abandoned_call(gate: threading.Event) -> None:
    pool = WorkerThreads(size=1)
    running = threading.Event()

    def hang() -> None:
        running.set()
        gate.wait(60)

    async with asyncio.TaskGroup() as group:
        hung = group.create_task(pool.run(hang, name="hang"))
        await until(running.is_set)
        in_line = group.create_task(pool.run(lambda: "served", name="quick"))
        await asyncio.sleep(0.05)
        assert not in_line.done()
        hung.cancel()
        async with asyncio.timeout(PATIENCE):
            assert await in_line == "served"


async def test_a_call_that_is_given_up_in_line_never_runs(gate: threading.Event) -> None:
    pool = WorkerThreads(size=1)
    ran: list[str] = []
    async with asyncio.TaskGroup() as group:
        first = group.create_task(pool.run(lambda: gate.wait(60), name="first"))
        second = group.create_task(pool.run(lambda: ran.append("second"), name="second"))
        await asyncio.sleep(0.05)
        second.cancel()
        await asyncio.sleep(0)
        gate.set()
        await first
        await pool.run(lambda: ran.append("third"), name="third")
    assert ran == ["third"]
    assert pool.abandoned == ()


async def test_a_call_that_ends_just_as_it_is_given_up_is_not_counted(
    gate: threading.Event,
) -> None:
    pool = WorkerThreads()
    running = threading.Event()

    def work() -> None:
        running.set()
        gate.wait(60)

    async with asyncio.TaskGroup() as group:
        waiting = group.create_task(pool.run(work, name="work"))
        await until(running.is_set)
        gate.set()
        while pool.busy:
            time.sleep(0.001)  # noqa: ASYNC251 - the loop must not hear of the end before
        waiting.cancel()
    assert waiting.cancelled()
    assert pool.abandoned == ()


async def test_at_the_bound_of_abandoned_calls_the_message_names_them(
    gate: threading.Event,
) -> None:
    pool = WorkerThreads(size=1, max_abandoned=1)
    await abandon(pool, gate, "tool 'hang'")
    await abandon(pool, gate, "tool 'hang'")
    with pytest.raises(EnvError) as caught:
        await pool.run(lambda: None, name="tool 'quick'")
    assert str(caught.value) == (
        "no thread is left for tool 'quick': 2 calls ran past their deadline and still run "
        "(tool 'hang'). Make these functions end in time, or make them async"
    )
    gate.set()
    await until(lambda: not pool.abandoned)
    assert await pool.run(lambda: "again", name="quick") == "again"


async def test_threads_beyond_the_size_end_when_their_calls_do(gate: threading.Event) -> None:
    pool = WorkerThreads(size=1, max_abandoned=10)
    for number in range(3):
        await abandon(pool, gate, f"surplus {number}")
    await pool.run(lambda: None, name="quick")
    gate.set()
    await until(lambda: pool._threads == 1)


async def test_idle_threads_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(threads_module, "IDLE_SECONDS", 0.01)
    pool = WorkerThreads()
    await pool.run(lambda: None, name="quick")
    await until(lambda: pool._threads == 0)
    assert await pool.run(lambda: "again", name="quick") == "again"


async def test_busy_while_somebody_waits_and_not_for_what_was_abandoned(
    gate: threading.Event,
) -> None:
    pool = WorkerThreads()
    seen = [pool.busy]
    async with asyncio.TaskGroup() as group:
        waiting = group.create_task(pool.run(lambda: gate.wait(60), name="wait"))
        await asyncio.sleep(0)
        seen.append(pool.busy)
        waiting.cancel()
    assert seen == [False, True]
    await until(lambda: not pool.busy)


async def test_an_idle_thread_keeps_nothing_alive() -> None:
    class Large: ...

    pool = WorkerThreads()
    result = await pool.run(Large, name="make")
    ghost = weakref.ref(result)
    del result
    await asyncio.sleep(0.05)
    gc.collect()
    assert ghost() is None


async def test_a_system_without_threads_left_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(self: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    pool = WorkerThreads()
    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", refuse)
        with pytest.raises(EnvError, match="no thread is left for quick"):
            await pool.run(lambda: None, name="quick")
    assert await pool.run(lambda: "again", name="quick") == "again"


def test_a_loop_that_is_gone_does_not_hurt_the_thread(gate: threading.Event) -> None:
    pool = WorkerThreads(size=1)

    async def give_up() -> None:
        await abandon(pool, gate, "late")

    asyncio.run(give_up())
    gate.set()
    give_up_at = time.monotonic() + PATIENCE
    while pool.abandoned and time.monotonic() < give_up_at:
        time.sleep(0.005)
    assert pool.abandoned == ()
    assert asyncio.run(pool.run(lambda: "again", name="quick")) == "again"


def test_there_is_one_pool_for_all() -> None:
    assert shared_threads() is shared_threads()
