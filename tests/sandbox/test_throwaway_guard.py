"""The guard around harmful attempts holds by itself, whatever runs in it."""

import json
import os
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from tests.patience import PATIENCE
from tests.sandbox import throwaway
from tests.sandbox.test_sandbox_escape import GUARD, HERE, SRC, WAYS

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="needs Linux namespaces")

ATTEMPTS = """
import json, os, socket, sys, time
victim, folder = int(sys.argv[1]), sys.argv[2]

def failure(attempt):
    try:
        attempt()
    except (OSError, MemoryError) as error:
        return type(error).__name__
    return None

def fill():
    for number in range(16):
        with open(f"/dev/shm/{number}", "wb") as file:
            file.write(bytes(32 << 20))

def fork_on():
    for _ in range(1000):
        if os.fork() == 0:
            time.sleep(99)
            os._exit(0)

failures = {
    "write outside": failure(lambda: open(f"{folder}/evil", "w")),
    "kill": failure(lambda: os.kill(victim, 9)),
    "connect": failure(lambda: socket.create_connection(("127.0.0.1", 9))),
    "memory": failure(lambda: bytearray(4 << 30)),
    "disk": failure(fill),
    "processes": failure(fork_on),
}
print(json.dumps(failures), flush=True)
"""


def guarded(
    as_user: list[str], *command: str, seconds: int = 60
) -> subprocess.CompletedProcess[str]:
    done = subprocess.run(
        [*as_user, *GUARD, *command],
        env={
            **os.environ,
            "PYTHONPATH": f"{SRC}:{HERE.parents[1]}",
            "THROWAWAY_SECONDS": str(seconds),
        },
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    if done.returncode == throwaway.REFUSED:
        pytest.skip(done.stderr.strip())
    return done


@pytest.mark.parametrize("way", WAYS)
def test_nothing_outside_is_reached_and_every_limit_holds(way: str) -> None:
    with TemporaryDirectory() as folder, subprocess.Popen(["sleep", "infinity"]) as victim:
        Path(folder).chmod(0o777)
        arguments = ("-c", ATTEMPTS, str(victim.pid), folder)
        done = guarded(WAYS[way](), sys.executable, *arguments)
        assert victim.poll() is None
        victim.kill()
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == {
        "write outside": "OSError",
        "kill": "ProcessLookupError",
        "connect": "OSError",
        "memory": "MemoryError",
        "disk": "OSError",
        "processes": "BlockingIOError",
    }


@pytest.mark.parametrize("way", WAYS)
def test_the_time_limit_ends_everything(way: str) -> None:
    stubborn = "trap '' TERM INT; setsid sleep 300 & sleep 300"
    done = guarded(WAYS[way](), "/bin/sh", "-c", stubborn, seconds=1)
    assert done.returncode == throwaway.TIMED_OUT, "and all have closed their stdout by now"


def test_harmful_attempts_refuse_to_run_bare() -> None:
    with pytest.raises(RuntimeError, match=r"run by throwaway\.py, and never bare"):
        throwaway.insist()
