"""The machinery around sandboxes: crashes, refusals, and nothing left behind."""

import asyncio
import errno
import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from types import ModuleType

import pytest
from tests.patience import PATIENCE
from tests.sandbox.escape_runner import descendants

from agentfly import Agent, ScriptedEngine, tool
from agentfly.chat import CHATML_TOKENS, ByteTokenizer
from agentfly.errors import ConfigError, EnvError
from agentfly.runtime import process
from agentfly.runtime.process_registry import FOLDER_VARIABLE, Identity, records
from agentfly.sandbox import Isolation, PythonSandbox, SandboxLimits, levels, probe, warm
from agentfly.sandbox.box import BoxFailedError, UnsupportedError
from agentfly.sandbox.levels import WarmServers, warm_servers, warm_settings
from agentfly.sandbox.process_box import bubblewrap, container

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="needs Linux namespaces")


@pytest.fixture
def own_servers(monkeypatch: pytest.MonkeyPatch) -> WarmServers:
    """Keep servers of this test apart from those of others."""
    made = WarmServers()
    monkeypatch.setattr(levels, "warm_servers", lambda: made)
    return made


async def gone(processes: list[Identity]) -> None:
    async with asyncio.timeout(PATIENCE):
        while any(process.alive for process in processes):  # noqa: ASYNC110 - no event tells
            await asyncio.sleep(0.05)


async def test_a_server_that_crashes_is_the_machinerys_fault(own_servers: WarmServers) -> None:
    sandbox = PythonSandbox()
    await sandbox.run("x = 1")
    server = await own_servers.server(warm_settings((), ()))
    below = [one for pid in descendants(server._child.pid) if (one := Identity.of(pid))]
    os.kill(server._child.pid, signal.SIGKILL)
    await gone(below)
    with pytest.raises(EnvError, match="has crashed"):
        await sandbox.run("x")
    assert (await sandbox.run("1 + 1")).value == "2", "the next use starts another server"
    await sandbox.close()
    own_servers.close()


async def test_a_close_that_is_cancelled_before_a_full_queue_still_kills(
    own_servers: WarmServers,
) -> None:
    server = await own_servers.server(warm_settings((), (), always=()))
    box = await server.spawn(SandboxLimits(), seed=0)
    box.channel.send({"op": "run", "code": "while True: pass"})
    forks = descendants(server._child.pid)[0]
    await there_are(3, forks)
    os.kill(forks, signal.SIGSTOP)
    with suppress(BlockingIOError):
        while True:
            server._control.send(b'{"op": "interrupt", "id": -1}', socket.MSG_DONTWAIT)
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.05):
            await box.close()
    os.kill(forks, signal.SIGCONT)
    await there_are(2, forks)
    own_servers.close()


async def there_are(number: int, parent: int) -> None:
    """Wait until a process has so many below it: a server its sandboxes, two of them spare."""
    async with asyncio.timeout(PATIENCE):
        while len(descendants(parent)) != number:  # noqa: ASYNC110 - no event tells
            await asyncio.sleep(0.05)


async def test_closing_leaves_no_process_and_no_record(own_servers: WarmServers) -> None:
    before, on_record = set(descendants(os.getpid())), own_records()
    sandbox = PythonSandbox()
    await sandbox.run("import os, time\nif os.fork() == 0: time.sleep(99)")
    assert set(descendants(os.getpid())) - before
    await sandbox.close()
    own_servers.close()
    assert set(descendants(os.getpid())) - before == set()
    assert own_records() == on_record


def own_records() -> set[str]:
    return {record.token for record in records() if record.owner.pid == os.getpid()}


OWNER = """
import asyncio
from agentfly.sandbox import PythonSandbox
from agentfly.sandbox.inside import confine
async def main():
    sandbox = PythonSandbox()
    await sandbox.run('''
import ctypes, os, sys, time
ctypes.CDLL(None).prctl(1, 0, 0, 0, 0)
sys.modules["agentfly.sandbox.interpreter.main"]._end_other_processes = lambda: 0
if os.fork() == 0:
    os.setsid()
    time.sleep(300)
''')
    print("ready", flush=True)
    await asyncio.sleep(300)
asyncio.run(main())
"""


def test_nothing_outlives_an_owner_that_is_killed(tmp_path: Path) -> None:
    environment = {**os.environ, FOLDER_VARIABLE: str(tmp_path)}
    command = [sys.executable, "-c", OWNER]
    with subprocess.Popen(command, stdout=subprocess.PIPE, env=environment) as owner:
        assert owner.stdout is not None
        assert owner.stdout.readline() == b"ready\n"
        below = [identity for pid in descendants(owner.pid) if (identity := Identity.of(pid))]
        assert len(below) >= 4, "two of the server, the sandbox, its daemon"
        owner.kill()
    asyncio.run(gone(below))


def test_variables_do_not_leak_into_the_next_chain() -> None:
    @tool(env=PythonSandbox)
    async def interpret(code: str, env: PythonSandbox) -> str:
        """Run Python.

        Args:
            code: What to run.
        """
        return (await env.run(code)).observation

    def call(code: str) -> str:
        return (
            f'<tool_call>\n{{"name": "interpret", "arguments": {{"code": "{code}"}}}}\n</tool_call>'
        )

    script = [call("'seen' in globals()"), call("seen = 1"), call("seen + 1"), "done"]
    engine = ScriptedEngine(script, tokenizer=ByteTokenizer(CHATML_TOKENS))
    agent = Agent(engine, tools=[interpret], max_turns=4)
    result = agent.run_sync([{"question": "?"}, {"question": "!"}], num_chains=2)
    said = [[r.observation for turn in t.turns for r in turn.results] for t in result.trajectories]
    assert said == [["False", "(no output)", "2"]] * 4


@pytest.fixture
def a_bubblewrap_that_works(monkeypatch: pytest.MonkeyPatch) -> None:
    async def made() -> None:
        return None

    monkeypatch.setattr(levels, "_try_bubblewrap", made)


async def test_the_probe_reports_what_is_in_force() -> None:
    found = await probe()
    assert found.isolation is Isolation.WARM
    assert any(layer.startswith("seccomp") for layer in found.layers)


@pytest.mark.usefixtures("a_bubblewrap_that_works")
async def test_the_probe_names_no_lesser_level_for_a_late_server(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(warm, "START_SECONDS", 0.0)
    found = await probe()
    assert found.isolation is None
    (said,) = found.missing
    assert said.startswith("namespaces: not refused, but they failed twice (")
    assert "was not ready within 0 s" in said


@pytest.mark.usefixtures("a_bubblewrap_that_works")
async def test_the_probe_names_a_lesser_level_for_a_refusal(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def refuse(settings: object) -> None:
        raise UnsupportedError("unshare: Operation not permitted")

    monkeypatch.setattr(warm.WarmServer, "start", refuse)
    found = await probe()
    assert found.isolation is Isolation.BUBBLEWRAP
    assert found.missing == ("namespaces: unshare: Operation not permitted",)


async def test_the_probe_tries_a_late_server_again(monkeypatch: pytest.MonkeyPatch) -> None:
    start = warm.WarmServer.start
    tried: list[object] = []

    async def late_at_first(settings: warm.WarmSettings) -> warm.WarmServer:
        tried.append(settings)
        if len(tried) == 1:
            raise BoxFailedError("the fork server was not ready")
        return await start(settings)

    monkeypatch.setattr(warm.WarmServer, "start", late_at_first)
    assert (await probe()).isolation is Isolation.WARM
    assert len(tried) == 2


async def test_landlock_is_in_force_where_the_kernel_has_it() -> None:
    if any(layer.startswith("no Landlock") for layer in (await probe()).layers):
        pytest.skip("this kernel has no Landlock")
    sandbox = PythonSandbox()
    # Its mode and its mount would allow it.
    result = await sandbox.run("open('/dev/zero', 'wb')")
    assert "PermissionError: [Errno 13]" in str(result.error)
    await sandbox.close()


@pytest.fixture
def refusals(own_servers: WarmServers, monkeypatch: pytest.MonkeyPatch) -> Iterator[list[object]]:
    """Let the kernel refuse every fork server, and count them; nor is there bubblewrap."""
    asked: list[object] = []

    def refuse(report: object, settings: object) -> None:
        asked.append(settings)
        raise UnsupportedError("unshare: Operation not permitted")

    monkeypatch.setattr(warm, "_layers", refuse)
    monkeypatch.setenv("PATH", "/nowhere")
    levels._warn_once.cache_clear()
    yield asked
    own_servers.close()


@pytest.mark.usefixtures("refusals")
async def test_without_isolation_code_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"no isolation .* unshare: Operation not permitted"):
        await PythonSandbox().run("1")
    permitted = PythonSandbox(unsafe=True)
    assert (await permitted.run("1 + 1")).value == "2"
    await permitted.close()
    with pytest.raises(EnvError, match="Operation not permitted"):
        await PythonSandbox(unsafe=True, isolation="warm").run("1")


async def test_what_the_kernel_refuses_is_tried_and_reported_once(
    refusals: list[object], caplog: pytest.LogCaptureFixture
) -> None:
    for _ in range(3):
        sandbox = PythonSandbox(unsafe=True)
        assert (await sandbox.run("1 + 1")).value == "2"
        await sandbox.close()
    assert len(refusals) == 1
    assert caplog.text.count("level 'unsafe'") == 1
    assert "unshare: Operation not permitted" in caplog.text


@pytest.mark.parametrize(
    ("stage", "said"),
    [(warm, "was not ready within 0 s"), (process, "did not start within 0 s")],
)
async def test_a_server_that_is_late_is_no_reason_for_less_isolation(
    own_servers: WarmServers, monkeypatch: pytest.MonkeyPatch, stage: ModuleType, said: str
) -> None:
    sandbox = PythonSandbox(unsafe=True)
    with monkeypatch.context() as patch:
        patch.setattr(stage, "START_SECONDS", 0.0)
        with pytest.raises(EnvError, match=said):
            await sandbox.run("1")
    assert (await sandbox.run("import os; os.path.exists('/proc')")).value == "False"
    await sandbox.close()
    own_servers.close()


REFUSING = """
import json, sys
from agentfly.sandbox.inside import boot, kernel
def refuse(flags):
    raise OSError({errno}, "unshare")
kernel.unshare = refuse
boot.main({{"preload": [], "readable": []}})
"""


@pytest.mark.parametrize(("number", "refused"), [(errno.ENOSPC, True), (errno.EAGAIN, False)])
def test_a_server_distinguishes_a_refusal_from_a_crowded_machine(
    number: int, refused: bool
) -> None:
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with ours, theirs:
        program = REFUSING.format(errno=number)
        subprocess.run([sys.executable, "-c", program], stdin=theirs.fileno(), check=True)
        assert json.loads(ours.recv(1 << 16))["refused"] is refused


LEFT_BEHIND = """
import asyncio, os
from agentfly.runtime.process import PIPE, start
async def main():
    daemon = ["sh", "-c", "setsid sleep 300 & echo $!; wait"]
    child = await start(daemon, name="left behind", lifetime=999.0, stdout=PIPE)
    print((await child.stdout.readline()).decode(), end="", flush=True)
    os.kill(os.getpid(), 9)
asyncio.run(main())
"""


async def use_a_sandbox() -> None:
    sandbox = PythonSandbox()
    await sandbox.reset()
    await sandbox.close()


def test_the_first_server_ends_what_a_killed_run_left_behind(
    own_servers: WarmServers, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(FOLDER_VARIABLE, str(tmp_path))
    with subprocess.Popen([sys.executable, "-c", LEFT_BEHIND], stdout=subprocess.PIPE) as owner:
        assert owner.stdout is not None
        daemon = Identity.of(int(owner.stdout.readline()))
    assert daemon is not None
    assert Identity.of(daemon.pid) == daemon, "it outlives its owner"
    assert [record.name for record in records()] == ["left behind"]
    asyncio.run(use_a_sandbox())
    assert not daemon.alive
    assert [record.name for record in records()] == ["python sandboxes"]
    own_servers.close()


async def test_unsafe_is_not_used_where_isolation_can_be_had() -> None:
    sandbox = PythonSandbox(unsafe=True)
    assert (await sandbox.run("import os; os.path.exists('/proc')")).value == "False"
    await sandbox.close()


@pytest.fixture
def programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Put stand-ins on the PATH for programs that not every machine has; they are not started."""
    for name in ("bwrap", "podman"):
        (tmp_path / name).touch(mode=0o755)
    monkeypatch.setenv("PATH", str(tmp_path))


@pytest.mark.usefixtures("programs")
def test_containers_get_no_network_rights_or_writable_image() -> None:
    command = " ".join(container("podman", SandboxLimits(), ("/data",)).command)
    for option in ("--network none", "--read-only", "--cap-drop ALL", "--volume /data:/data:ro"):
        assert option in command
    assert "no-new-privileges" in command


@pytest.mark.usefixtures("programs")
def test_bubblewrap_shares_nothing_and_inherits_nothing() -> None:
    command = bubblewrap(SandboxLimits(disk_mb=1), ("/data",)).command
    assert {"--unshare-all", "--clearenv", "--die-with-parent", "--new-session"} <= set(command)
    assert "--size 1048576 --tmpfs /box" in " ".join(command)
    assert "--bind" not in command, "nothing of the host can be written"


async def test_a_level_whose_program_is_missing_is_an_error(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(EnvError, match="bwrap"):
        await PythonSandbox(isolation="bubblewrap").run("1")


def test_the_servers_are_one_set_for_the_process() -> None:
    assert warm_servers() is warm_servers()
