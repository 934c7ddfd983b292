"""Running out of file descriptors refuses the next sandbox, and harms none that is alive."""

import json
import os
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.patience import PATIENCE

from agentfly.runtime.process_registry import FOLDER_VARIABLE

if sys.platform != "linux":
    pytest.skip("needs Linux namespaces", allow_module_level=True)

from agentfly.sandbox.inside import fork_server, rootfs

OWNER = """
import asyncio, json, os, resource, shutil
from pathlib import Path
from agentfly.runtime.process_registry import records
from agentfly.sandbox import Isolation, SandboxLimits, cell_result
from agentfly.sandbox.box import BoxFailedError
from agentfly.sandbox.levels import warm_servers
from agentfly.sandbox.levels import warm_settings
from agentfly.sandbox.process_box import ProcessLauncher
from agentfly.sandbox.warm import WarmServer

SOFT, HARD = {soft}, {hard}
resource.setrlimit(resource.RLIMIT_NOFILE, (SOFT, HARD))

def soft_limit(pid):
    lines = Path(f"/proc/{{pid}}/limits").read_text().splitlines()
    return next(int(line.split()[3]) for line in lines if line.startswith("Max open files"))

async def start():
    return await warm_servers().server(warm_settings((), (), always=()))

async def answer(box):
    box.channel.send({{"op": "run", "code": "1 + 1"}})
    body = await box.channel.receive(1 << 16)
    return cell_result.read_cell(body, box.channel.number, SandboxLimits()).value

async def another():
    await (await WarmServer.start(warm_settings((), (), always=()))).close()

def exhaust():
    held = []
    try:
        while True:
            held.append(os.open("/dev/null", os.O_RDONLY))
    except OSError:
        return held

async def refusal(action):
    try:
        await action
    except BoxFailedError as error:
        return str(error)

async def main():
{body}

asyncio.run(main())
warm_servers().close()
"""


def owner(body: str, *, soft: int, hard: int, folder: Path | None = None) -> dict[str, Any]:
    """Run a program that uses sandboxes under a limit of its own; return what it prints."""
    indented = "".join(f"    {line}\n" for line in body.strip().splitlines())
    program = OWNER.format(body=indented, soft=soft, hard=hard)
    done = subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, **({FOLDER_VARIABLE: str(folder)} if folder else {})},
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    printed: dict[str, Any] = json.loads(done.stdout)
    return printed


def test_the_next_sandbox_is_refused_and_the_others_live_on() -> None:
    seen = owner(
        """
server, boxes, refused = await start(), [], None
while refused is None and len(boxes) < 256:
    try:
        boxes.append(await server.spawn(SandboxLimits(), seed=0))
    except BoxFailedError as error:
        refused = str(error)
again = await refusal(server.spawn(SandboxLimits(), seed=0))
answers = [await answer(box) for box in boxes]
await boxes.pop().close()
async with asyncio.timeout(300):
    while await refusal(server.spawn(SandboxLimits(), seed=0)):
        await asyncio.sleep(0.05)
print(json.dumps({"alive": len(boxes), "refused": refused, "again": again, "answers": answers}))
""",
        soft=256,
        hard=256,
    )
    assert seen["alive"] > 60
    assert set(seen["answers"]) == {"2"}
    for said in (seen["refused"], seen["again"]):
        assert "limit of 256 open files" in said
        assert "ulimit -n" in said


def test_the_soft_limit_is_raised_on_both_sides() -> None:
    seen = owner(
        """
server = await start()
limits = {"server": soft_limit(server._child.pid), "owner": soft_limit(os.getpid())}
print(json.dumps(limits))
""",
        soft=256,
        hard=700,
    )
    assert seen == {"server": 700, "owner": 700}


def test_an_owner_without_descriptors_gets_a_clear_error(tmp_path: Path) -> None:
    seen = owner(
        """
server, held = await start(), exhaust()
said = [await refusal(server.spawn(SandboxLimits(), seed=0))]
if shutil.which("bwrap"):
    bubblewrap = ProcessLauncher(Isolation.BUBBLEWRAP, ())
    said.append(await refusal(bubblewrap.spawn(SandboxLimits(), seed=0)))
while (reason := await refusal(another())) and len(said) < 32:
    said.append(reason)
    os.close(held.pop())
for descriptor in held:
    os.close(descriptor)
box = await server.spawn(SandboxLimits(), seed=0)
on_record = [record.name for record in records()]
print(json.dumps({"said": said, "on_record": on_record, "answer": await answer(box)}))
""",
        soft=256,
        hard=256,
        folder=tmp_path,
    )
    assert len(seen["said"]) > 4, "a server is started in several steps, and each may fail"
    for said in seen["said"]:
        assert "limit of 256 open files" in said
        assert "ulimit -n" in said
    assert seen["on_record"] == ["python sandboxes"]
    assert seen["answer"] == "2"


def test_a_limit_too_low_for_any_sandbox_is_named() -> None:
    seen = owner(
        """
print(json.dumps({"said": await refusal(start())}))
""",
        soft=128,
        hard=128,
    )
    assert "limit of 128 open files" in seen["said"]
    assert "at least" in seen["said"]


KEEPING = """
import os, socket, stat, sys
from agentfly.sandbox.inside import confine
ours, theirs = socket.socketpair()
proc, number = os.open("/proc", os.O_RDONLY), int(sys.argv[1])
os.dup2(theirs.fileno(), number)
if os.fork() == 0:
    confine.keep_only(number, proc)
    os.write(confine.CHANNEL, repr(os.listdir(proc)[:0]).encode())
    os._exit(0)
os.close(number)
theirs.close()
print(ours.recv(16).decode())
"""


@pytest.mark.parametrize("number", [199, 200, 201])
def test_a_channel_is_kept_whichever_descriptor_it_was(number: int) -> None:
    command = [sys.executable, "-c", KEEPING, str(number)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE, check=False)
    assert done.stdout == "[]\n", done.stderr


def test_a_server_without_uids_for_more_refuses_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fork_server, "_UIDS_PER_SERVER", 10)
    ours, theirs = socket.socketpair()
    proc = os.open("/proc", os.O_RDONLY)
    with ours, theirs:
        made = fork_server.ForkServer(
            theirs, rootfs.Proc(proc, own=True), outer_pid=1, own_uids=True, groups=None
        )
        most, said = made._capacity()
        made._selector.close()
        os.close(made._namespace)
    os.close(proc)
    assert most == 6, "two spares, and two that are dying, need a uid as well"
    assert said == "6 sandboxes are alive, the most that a fork server has uids for"
