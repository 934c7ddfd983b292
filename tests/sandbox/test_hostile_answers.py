"""A sandbox may close its channel, forge its answers or send noise: that is an observation.

It is never an exception outside, never a conversation of megabytes, and never a held-up neighbor.
"""

import asyncio
import os
import select
import shutil
import signal
import socket
import sys
import threading
import time
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.patience import PATIENCE
from tests.sandbox import hostile_answers as hostile
from tests.sandbox.escape_runner import descendants

from agentfly.errors import EnvError, ToolError
from agentfly.sandbox import (
    CellResult,
    CellStatus,
    PythonSandbox,
    SandboxLimits,
    cell_result,
    framing,
)
from agentfly.sandbox.box import BoxFailedError, Ending, Isolation
from agentfly.sandbox.inside.fork_server import ForkServer
from agentfly.sandbox.interpreter import output
from agentfly.sandbox.interpreter.main import LARGEST_LIST
from agentfly.sandbox.levels import WarmServers, warm_settings
from agentfly.sandbox.process_box import ProcessLauncher

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="needs Linux namespaces")

SHOWN = 2000
LIMITS = SandboxLimits(seconds=60.0, output_chars=SHOWN)
LEVELS = ["warm", "unsafe", "bubblewrap"]
PROCESS_SEEDS = 4
"""Random programs at the levels that start a process for each."""


def made(level: str, limits: SandboxLimits = LIMITS) -> PythonSandbox:
    if level == "bubblewrap" and not shutil.which("bwrap"):
        pytest.skip("bubblewrap is not installed")
    return PythonSandbox(limits=limits, isolation=level, unsafe=level == "unsafe")


@pytest.fixture(params=LEVELS)
async def sandbox(request: pytest.FixtureRequest) -> AsyncIterator[PythonSandbox]:
    one = made(request.param)
    yield one
    await one.close()


async def run_hostile(sandbox: PythonSandbox, code: str, seed: int = 0) -> CellResult:
    """Run a hostile program as the second request to its interpreter."""
    assert (await sandbox.run("0")).value == "0"
    channel = 200 if sandbox._level.isolation is Isolation.WARM else 201
    return await sandbox.run(hostile.program(code, channel=channel, number=2, seed=seed))


async def outcome(use: Awaitable[object]) -> Any:
    """Return what it gives or raises."""
    try:
        return await use
    except Exception as error:  # noqa: BLE001 - which one it is, is what the tests ask
        return error


def assert_shown_within_limits(result: CellResult) -> None:
    assert len(result.observation) < 5 * SHOWN
    result.observation.encode()  # Whatever can't be written to a file would fail later.
    assert len(result.images) <= output.MAX_FIGURES


@pytest.mark.parametrize("code", hostile.ENDS.values(), ids=hostile.ENDS)
async def test_an_end_is_the_codes_own_doing(sandbox: PythonSandbox, code: str) -> None:
    result = await run_hostile(sandbox, code)
    assert result.status is CellStatus.KILLED
    assert "ended itself" in result.observation
    assert (await sandbox.run("1 + 1")).value == "2"


@pytest.mark.parametrize("code", hostile.CLOSED_SOCKETS.values(), ids=hostile.CLOSED_SOCKETS)
async def test_a_closed_channel_is_the_codes_own_doing(code: str) -> None:
    sandbox = made("warm")
    assert (await run_hostile(sandbox, code)).status is CellStatus.KILLED
    assert (await sandbox.run("1 + 1")).value == "2"
    await sandbox.close()


async def test_the_exit_code_comes_from_the_server(sandbox: PythonSandbox) -> None:
    result = await run_hostile(sandbox, "send(of_text(b'x')[:9])\nos._exit(3)")
    assert "exit code 3" in str(result.note) or "disturbed" in str(result.note)
    assert "exit code 3" in str((await sandbox.run("import os; os._exit(3)")).note)


async def test_nonsense_ends_the_sandbox() -> None:
    sandbox, taken = made("warm"), {}
    for name, code in hostile.NONSENSE.items():
        result = await run_hostile(sandbox, code)
        assert (await sandbox.run("1 + 1")).value == "2", name
        if result.status is not CellStatus.KILLED or "disturbed" not in result.observation:
            taken[name] = result
        await sandbox.reset()
    await sandbox.close()
    assert taken == {}


@pytest.mark.parametrize("name", ["a death of wrong types", "deep JSON", "the number after"])
async def test_nonsense_ends_the_sandbox_of_any_level(sandbox: PythonSandbox, name: str) -> None:
    result = await run_hostile(sandbox, hostile.NONSENSE[name])
    assert result.status is CellStatus.KILLED
    assert (await sandbox.run("1 + 1")).value == "2"


@pytest.mark.parametrize("code", hostile.LEGAL_LIES.values(), ids=hostile.LEGAL_LIES)
async def test_a_forged_result_is_shown_within_the_limits(code: str) -> None:
    sandbox = made("warm")
    result = await run_hostile(sandbox, f"{code}\nimport time\ntime.sleep(0.1)")
    assert result.status in (CellStatus.OK, CellStatus.INTERRUPTED)
    assert_shown_within_limits(result)
    behind = await sandbox.run("1 + 1")
    assert behind.status is CellStatus.KILLED, "its true answer came with a number of the past"
    assert (await sandbox.run("1 + 1")).value == "2"
    await sandbox.close()


async def test_random_answers_raise_nothing_outside(sandbox: PythonSandbox) -> None:
    seeds = 60 if sandbox._level.isolation is Isolation.WARM else PROCESS_SEEDS
    for seed in range(seeds):
        result = await run_hostile(sandbox, hostile.RANDOM, seed)
        assert_shown_within_limits(result)
        await sandbox.reset()


@pytest.mark.parametrize(
    "use",
    [
        lambda sandbox: sandbox.read_file("f"),
        lambda sandbox: sandbox.list_files(),
        lambda sandbox: sandbox.write_file("f", "x" * (1 << 22)),
    ],
)
@pytest.mark.parametrize(
    "code",
    [
        "send(answer(number=3))",
        "send(answer([('content', b'x'), ('names', b'x')], number=3))",
        "send(answer([('content', 3)], number=3, parts=[['content', 17 << 20]]))",
        "send(answer([('names', b'a\\0' * 2000)], number=3))",
        "send(answer([('names', b'a' * (1 << 19))], number=3))",
        "send(answer([('problem', b'x')], number=3, limit='what'))",
        "os._exit(0)",
        "socket.socket(fileno=200).shutdown(2)",
    ],
)
async def test_a_forged_answer_about_files_is_a_tool_error(
    use: Callable[[PythonSandbox], Any], code: str
) -> None:
    sandbox = made("warm")
    # The request for files has the number 3; its answer is there before it is sent.
    await run_hostile(sandbox, f"import socket, time\nsend(answer())\n{code}\ntime.sleep(60)")
    got = await outcome(use(sandbox))
    if isinstance(got, Exception):
        assert isinstance(got, ToolError)
        got = str(got)
    assert got is None or len(got) <= LARGEST_LIST
    await sandbox.reset()
    assert (await sandbox.run("1 + 1")).value == "2"
    await sandbox.close()


answer_bytes = st.binary(max_size=300)
heads = st.dictionaries(
    st.sampled_from(["number", "limit", "exit_code", "interrupted", "parts", "processes_ended"]),
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner),
        max_leaves=6,
    ),
)
names = st.sampled_from(["stdout", "stderr", "value", "error", "image", "content", "names", "x"])
packed = st.builds(
    lambda head, parts: framing.pack_answer(head, parts)[framing.HEADER.size :],
    heads,
    st.lists(st.tuples(names, st.binary(max_size=40)), max_size=4),
)


@given(answer_bytes | packed, st.integers(0, 400), st.binary(max_size=4))
def test_reading_raises_nothing_but_nonsense(body: bytes, place: int, change: bytes) -> None:
    body = body[:place] + change + body[place + len(change) :]
    for read in (
        cell_result.read_cell,
        cell_result.read_content,
        cell_result.read_names,
        cell_result.read_written,
    ):
        with suppress(framing.NonsenseError, ToolError):
            read(body, 1, LIMITS)


def test_an_honest_answer_is_never_too_long() -> None:
    mark = "\n[… 99999999999 characters left out …]\n"
    text = ("\U0001f600" * SHOWN + mark).encode()
    parts = [(name, text) for name in ("stdout", "stderr", "value", "error")]
    parts.append(("image", b"x" * output.MAX_IMAGE_BYTES))
    head = {"number": 1, "interrupted": False, "limit": "output", "exit_code": 1}
    body = framing.pack_answer(head, parts)[framing.HEADER.size :]
    assert len(body) <= cell_result.max_cell_bytes(LIMITS)


async def test_a_message_longer_than_the_limits_allow_is_not_read() -> None:
    sandbox = made("warm")
    room = cell_result.max_cell_bytes(LIMITS)
    result = await run_hostile(sandbox, f"send(bytes({room + 1}))")
    assert result.status is CellStatus.KILLED
    await sandbox.close()


async def test_a_long_answer_is_read_beside_the_event_loop(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    read, beats, enough = cell_result.read_cell, 0, threading.Event()

    async def heart() -> None:
        nonlocal beats
        while True:
            await asyncio.sleep(0)
            beats += 1
            if beats > 1000:
                enough.set()

    def slow(body: bytes, number: int, limits: SandboxLimits) -> CellResult:
        if len(body) > 1 << 20:
            nonlocal beats
            beats = 0
            enough.clear()
            assert enough.wait(60), "the event loop stands still while this is read"
        return read(body, number, limits)

    monkeypatch.setattr(cell_result, "read_cell", slow)
    sandbox = made("warm")
    async with asyncio.TaskGroup() as group:
        beating = group.create_task(heart())
        result = await run_hostile(sandbox, "send(answer([('image', png(9, 9, 3 << 20))]))")
        beating.cancel()
    assert [len(image.data) for image in result.images] == [3 << 20]
    await sandbox.close()


async def test_an_answer_that_waited_for_the_event_loop_is_not_late() -> None:
    sandbox = made("warm", SandboxLimits(seconds=1.0, grace_seconds=60.0))
    await sandbox.run("import time")
    box = sandbox._box
    assert box is not None
    channel = box.channel._writer.get_extra_info("socket")

    def hold_up() -> None:
        """Hold up this event loop until the cell has answered and its time is up."""
        began = time.monotonic()
        select.select([channel], [], [], 60)
        time.sleep(max(0.0, began + 1.5 - time.monotonic()))

    asyncio.get_running_loop().call_later(0.01, hold_up)
    result = await sandbox.run("time.sleep(0.2)\n'finished'")
    assert (result.status, result.value) == (CellStatus.OK, "'finished'")
    assert (await sandbox.run("1 + 1")).value == "2", "nor does the interrupt hit the next cell"
    await sandbox.close()


async def test_what_the_server_took_along_is_not_the_codes_doing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    own = WarmServers()
    monkeypatch.setattr("agentfly.sandbox.levels.warm_servers", lambda: own)
    sandboxes = [made("warm") for _ in range(3)]
    for one in sandboxes:
        await one.run("x = 1")
    server = await own.server(warm_settings((), ()))
    async with asyncio.TaskGroup() as group:
        cells = [outcome(one.run("import time; time.sleep(60)")) for one in sandboxes[:2]]
        busy = [group.create_task(cell) for cell in cells]
        await asyncio.sleep(0)
        os.kill(descendants(server._child.pid)[0], signal.SIGKILL)
    for task in busy:
        with pytest.raises(EnvError, match="has crashed"):
            raise task.result()
    with pytest.raises(EnvError, match="has crashed"):
        await sandboxes[2].run("x")
    assert (await sandboxes[0].run("1 + 1")).value == "2", "the next use starts another server"
    for one in sandboxes:
        await one.close()
    own.close()


async def test_a_sandbox_that_is_closed_under_a_cell_is_not_the_codes_doing(
    sandbox: PythonSandbox,
) -> None:
    await sandbox.run("import time")
    async with asyncio.TaskGroup() as group:
        running = group.create_task(outcome(sandbox.run("time.sleep(60)")))
        group.create_task(sandbox.close())
    with pytest.raises(EnvError, match="closed while it was in use"):
        raise running.result()


async def test_the_end_of_a_process_lifetime_is_not_the_codes_doing() -> None:
    box = await ProcessLauncher(Isolation.UNSAFE, ()).spawn(LIMITS, seed=0)
    box._end_of_life = 0.0
    with pytest.raises(BoxFailedError, match="its lifetime"):
        await box.end()


async def test_reports_are_kept_until_their_owner_reads_them() -> None:
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    server = ForkServer.__new__(ForkServer)
    server._control = theirs
    reports = [b"%d" % number for number in range(2000)]
    server._unsent = deque(reports)
    received = []
    with ours, theirs:
        server._send_reports()
        assert server._unsent, "the queue is full"
        while server._unsent:
            received += [ours.recv(99) for _ in range(100)]
            server._send_reports()
        ours.setblocking(False)
        while len(received) < len(reports):
            received.append(ours.recv(99))
    assert received == reports


async def test_no_ending_is_waited_for_in_vain() -> None:
    own = WarmServers()
    server = await own.server(warm_settings((), (), always=()))
    boxes = [await server.spawn(LIMITS, seed=0) for _ in range(3)]
    assert isinstance(await boxes[0].end(), Ending)
    await boxes[1].close()
    async with asyncio.timeout(PATIENCE):
        while len(server._endings) > 1:  # noqa: ASYNC110 - no event tells
            await asyncio.sleep(0.01)
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0):
            await boxes[2].end()
    await boxes[2].end()
    assert server._endings == {}
    own.close()
