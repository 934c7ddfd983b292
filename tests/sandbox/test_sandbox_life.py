"""The machinery around sandboxes: crashes, refusals, and nothing left behind."""

import asyncio
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from tests.sandbox.escape_runner import descendants

from agentfly import Agent, ScriptedEngine, tool
from agentfly.chat import CHATML_TOKENS, ByteTokenizer
from agentfly.errors import ConfigError, EnvError
from agentfly.runtime.registry import FOLDER_VARIABLE, Identity, records
from agentfly.sandbox import Isolation, PythonSandbox, SandboxLimits, levels, probe
from agentfly.sandbox.box import BoxFailedError
from agentfly.sandbox.keeper import Keeper, keeper
from agentfly.sandbox.levels import warm_settings
from agentfly.sandbox.process import bubblewrap, container

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="needs Linux namespaces")


@pytest.fixture
def own_keeper(monkeypatch: pytest.MonkeyPatch) -> Keeper:
    """Keep servers of this test apart from those of others."""
    made = Keeper()
    monkeypatch.setattr(levels, "keeper", lambda: made)
    return made


async def gone(processes: list[Identity]) -> None:
    async with asyncio.timeout(20):
        while any(process.alive for process in processes):  # noqa: ASYNC110 - no event tells
            await asyncio.sleep(0.05)


async def test_a_server_that_crashes_is_the_machinerys_fault(own_keeper: Keeper) -> None:
    sandbox = PythonSandbox()
    await sandbox.run("x = 1")
    server = await own_keeper.server(warm_settings((), ()))
    below = [one for pid in descendants(server._child.pid) if (one := Identity.of(pid))]
    os.kill(server._child.pid, signal.SIGKILL)
    await gone(below)
    with pytest.raises(EnvError, match="has crashed"):
        await sandbox.run("x")
    assert (await sandbox.run("1 + 1")).value == "2", "the next use starts another server"
    await sandbox.close()
    own_keeper.close()


async def test_closing_leaves_no_process_and_no_record(own_keeper: Keeper) -> None:
    before, on_record = set(descendants(os.getpid())), own_records()
    sandbox = PythonSandbox()
    await sandbox.run("import os, time\nif os.fork() == 0: time.sleep(99)")
    assert set(descendants(os.getpid())) - before
    await sandbox.close()
    own_keeper.close()
    assert set(descendants(os.getpid())) - before == set()
    assert own_records() == on_record


def own_records() -> set[str]:
    return {record.token for record in records() if record.owner.pid == os.getpid()}


OWNER = """
import asyncio
from agentfly.sandbox import PythonSandbox
from agentfly.sandbox.inside import birth
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


async def test_the_probe_tells_what_is_in_force() -> None:
    found = await probe()
    assert found.isolation is Isolation.WARM
    assert any(layer.startswith("seccomp") for layer in found.layers)


async def test_landlock_is_in_force_where_the_kernel_has_it() -> None:
    if any(layer.startswith("no Landlock") for layer in (await probe()).layers):
        pytest.skip("this kernel has no Landlock")
    sandbox = PythonSandbox()
    # Its mode and its mount would allow it.
    result = await sandbox.run("open('/dev/zero', 'wb')")
    assert "PermissionError: [Errno 13]" in str(result.error)
    await sandbox.close()


async def test_without_isolation_code_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    def no_namespaces(*_: object, **__: object) -> None:
        raise BoxFailedError("unshare: Operation not permitted")

    monkeypatch.setattr(levels, "warm_settings", no_namespaces)
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(ConfigError, match=r"no isolation .* unshare: Operation not permitted"):
        await PythonSandbox().run("1")
    permitted = PythonSandbox(unsafe=True)
    assert (await permitted.run("1 + 1")).value == "2"
    await permitted.close()
    with pytest.raises(EnvError, match="Operation not permitted"):
        await PythonSandbox(unsafe=True, isolation="warm").run("1")


async def test_unsafe_is_not_used_where_isolation_can_be_had() -> None:
    sandbox = PythonSandbox(unsafe=True)
    assert (await sandbox.run("import os; os.path.exists('/proc')")).value == "False"
    await sandbox.close()


def test_containers_get_no_network_rights_or_writable_image() -> None:
    command = " ".join(container("podman", SandboxLimits(), ("/data",)).command)
    for option in ("--network none", "--read-only", "--cap-drop ALL", "--volume /data:/data:ro"):
        assert option in command
    assert "no-new-privileges" in command


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


def test_the_keeper_is_one_for_the_process() -> None:
    assert keeper() is keeper()
