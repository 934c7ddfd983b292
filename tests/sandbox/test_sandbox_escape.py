"""Nothing gets out of a sandbox: neither run by root nor by an ordinary user."""

import fcntl
import json
import os
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from tests.sandbox.escape_attempts import ABSENCES, BOMBS, HARMFUL, HARMLESS, REFUSALS

HERE = Path(__file__).parent
SRC = HERE.parents[1] / "src"

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="needs Linux namespaces")


def as_root() -> list[str]:
    if os.getuid() != 0:
        pytest.skip("the tests are not run by root")
    return []


def as_ordinary_user() -> list[str]:
    if os.getuid() != 0:
        return []
    return [sys.executable, str(HERE / "ordinary_user.py")]


WAYS = {"root": as_root, "ordinary user": as_ordinary_user}


@cache
def outcomes(way: str, shared: Path) -> dict[str, Any]:
    """Run all attempts once for each kind of user, even if several workers share the tests."""
    stored = shared / f"escapes-{way}.json"
    with (shared / f"escapes-{way}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not stored.exists():
            stored.write_text(attempt_everything(way))
    found: dict[str, Any] = json.loads(stored.read_text())
    return found


def attempt_everything(way: str) -> str:
    done = subprocess.run(
        [*WAYS[way](), sys.executable, str(HERE / "escape_runner.py")],
        env={
            "PATH": os.environ["PATH"],
            "PYTHONPATH": f"{SRC}:{HERE.parents[1]}",
            "PLANTED_VARIABLE": "planted",
        },
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture(params=WAYS)
def found(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Any:
    own = tmp_path_factory.getbasetemp()
    is_worker = "PYTEST_XDIST_WORKER" in os.environ
    return outcomes(request.param, own.parent if is_worker else own)


def test_the_user_is_who_it_should_be(
    found: dict[str, Any], request: pytest.FixtureRequest
) -> None:
    is_root = request.node.callspec.params["found"] == "root"
    assert (found["uid"] == 0) is is_root


@pytest.mark.parametrize("attempt", HARMLESS)
def test_the_attempt_succeeds_without_a_sandbox(found: dict[str, Any], attempt: str) -> None:
    assert found["bare"][attempt] == "True"


@pytest.mark.parametrize("attempt", [*HARMLESS, *HARMFUL, "the neighbour is well"])
def test_the_attempt_fails_inside(found: dict[str, Any], attempt: str) -> None:
    outcome = found["sandboxed"][attempt]
    meant = (*REFUSALS, *ABSENCES) if attempt in HARMLESS else REFUSALS
    assert outcome == "False" or outcome.startswith(meant), outcome


@pytest.mark.parametrize("bomb", BOMBS)
def test_the_bomb_is_contained(found: dict[str, Any], bomb: str) -> None:
    assert found["bombs"][bomb] == BOMBS[bomb][1]
    assert found["bombs"][f"after {bomb}"] == "2", "the sandbox, or a fresh one, goes on"


def test_the_host_is_as_before(found: dict[str, Any]) -> None:
    assert set(found["host"]) == {"files", "mounts", "secret", "processes", "victim"}
    assert all(found["host"].values()), found["host"]


def test_there_are_enough_attempts() -> None:
    assert len({**HARMLESS, **HARMFUL, **BOMBS}) >= 40
