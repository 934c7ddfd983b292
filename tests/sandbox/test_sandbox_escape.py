"""Nothing gets out of a sandbox: neither run by root nor by an ordinary user.

Harmless attempts are first shown to succeed without a sandbox. Harmful ones run in a sandbox in
throw-away namespaces, where some are shown to succeed once the sandbox holds nothing back.
"""

import fcntl
import json
import os
import subprocess
import sys
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from tests.patience import PATIENCE
from tests.sandbox import throwaway
from tests.sandbox.escape_attempts import (
    ABSENCES,
    BOMBS,
    GO_OFF_WEAKENED,
    HARMFUL,
    HARMLESS,
    REFUSALS,
    SUCCEED_WEAKENED,
)
from tests.sandbox.escape_planting import plant, unchanged

HERE = Path(__file__).parent
SRC = HERE.parents[1] / "src"
SIGKILLED = 128 + 9

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
GUARD = [sys.executable, str(HERE / "throwaway.py")]
RUNS = {"harmless": ([], 0), "harmful": (GUARD, 0), "weakened": (GUARD, SIGKILLED)}
"""What each is run in, and how it ends."""


@cache
def outcomes(run: str, way: str, shared: Path) -> dict[str, Any]:
    """Run all attempts once for each kind of user, even if several workers share the tests."""
    stored = shared / f"{run}-{way}.json"
    with (shared / f"{run}-{way}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not stored.exists():
            stored.write_text(json.dumps(watched_or_broken(run, WAYS[way]())))
    found: dict[str, Any] = json.loads(stored.read_text())
    if "broken" in found:
        pytest.fail(found["broken"])
    return found


def watched_or_broken(run: str, as_user: list[str]) -> dict[str, Any]:
    """Run all attempts, or tell why that went wrong, so that no other test tries it again."""
    try:
        return watched_from_outside(run, as_user)
    except (AssertionError, subprocess.TimeoutExpired) as error:
        return {"broken": str(error)}


def watched_from_outside(run: str, as_user: list[str]) -> dict[str, Any]:
    outside: dict[str, bool] = {}
    with TemporaryDirectory() as folder, subprocess.Popen(["sleep", "infinity"]) as victim:
        with unchanged(plant(Path(folder), victim.pid), outside):
            found = attempt_everything(run, as_user)
        outside["victim"] = victim.poll() is None
        victim.kill()
    return {**json.loads(found), "outside": outside}


def attempt_everything(run: str, as_user: list[str]) -> str:
    guard, ending = RUNS[run]
    done = subprocess.run(
        [*as_user, *guard, sys.executable, str(HERE / "escape_runner.py"), run],
        env={
            "PATH": os.environ["PATH"],
            "PYTHONPATH": f"{SRC}:{HERE.parents[1]}",
            "PLANTED_VARIABLE": "planted",
        },
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    if guard and done.returncode == throwaway.REFUSED:
        pytest.skip(done.stderr.strip())
    assert done.returncode == ending, done.stderr
    return done.stdout


OWN_WAY = "root" if os.getuid() == 0 else "ordinary user"


@pytest.fixture(
    params=[pytest.param(way, marks=() if way == OWN_WAY else pytest.mark.slow) for way in WAYS]
)
def way(request: pytest.FixtureRequest) -> str:
    chosen: str = request.param
    return chosen


@pytest.fixture(scope="session")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    own = tmp_path_factory.getbasetemp()
    return own.parent if "PYTEST_XDIST_WORKER" in os.environ else own


@pytest.fixture
def harmless(way: str, shared: Path) -> dict[str, Any]:
    return outcomes("harmless", way, shared)


@pytest.fixture
def harmful(way: str, shared: Path) -> dict[str, Any]:
    return outcomes("harmful", way, shared)


@pytest.fixture
def weakened(way: str, shared: Path) -> dict[str, Any]:
    return outcomes("weakened", way, shared)


def is_refused(outcome: str, meant: tuple[str, ...]) -> bool:
    return outcome == "False" or outcome.startswith(meant)


@pytest.mark.parametrize("run", RUNS)
def test_the_user_is_who_it_should_be(run: str, way: str, shared: Path) -> None:
    assert (outcomes(run, way, shared)["uid"] == 0) is (way == "root")


@pytest.mark.parametrize("attempt", HARMLESS)
def test_the_harmless_attempt_succeeds_without_a_sandbox(
    harmless: dict[str, Any], attempt: str
) -> None:
    assert harmless["bare"][attempt] == "True"


@pytest.mark.parametrize("attempt", [*HARMLESS, "disturb the neighbor"])
def test_the_harmless_attempt_fails_inside(harmless: dict[str, Any], attempt: str) -> None:
    outcome = harmless["sandboxed"][attempt]
    assert is_refused(outcome, (*REFUSALS, *ABSENCES)), outcome


@pytest.mark.parametrize("attempt", [*HARMFUL, "disturb the neighbor"])
def test_the_harmful_attempt_fails_inside(harmful: dict[str, Any], attempt: str) -> None:
    outcome = harmful["sandboxed"][attempt]
    assert is_refused(outcome, REFUSALS), outcome


@pytest.mark.parametrize("bomb", BOMBS)
def test_the_bomb_is_contained(harmful: dict[str, Any], bomb: str) -> None:
    assert harmful["bombs"][bomb] == BOMBS[bomb][1]
    assert harmful["bombs"][f"after {bomb}"] == "2", "the sandbox, or a fresh one, goes on"


@pytest.mark.parametrize("run", ["harmless", "harmful"])
def test_what_is_around_the_sandbox_is_as_before(run: str, way: str, shared: Path) -> None:
    host = outcomes(run, way, shared)["host"]
    assert set(host) == {"files", "mounts", "secret", "name", "processes", "victim"}
    assert all(host.values()), host


@pytest.mark.parametrize("attempt", SUCCEED_WEAKENED)
def test_without_isolation_the_harmful_attempt_is_seen_to_succeed(
    weakened: dict[str, Any], attempt: str
) -> None:
    assert weakened["sandboxed"][attempt] == "True"
    assert weakened["host"]["victim"] is False


@pytest.mark.parametrize("bomb", GO_OFF_WEAKENED)
def test_without_isolation_the_bomb_is_seen_to_go_off(weakened: dict[str, Any], bomb: str) -> None:
    assert weakened["bombs"][bomb] == "ok None" != BOMBS[bomb][1]


@pytest.mark.parametrize("run", RUNS)
def test_the_host_is_as_before(run: str, way: str, shared: Path) -> None:
    outside = outcomes(run, way, shared)["outside"]
    assert set(outside) == {"files", "mounts", "secret", "name", "victim"}
    assert all(outside.values()), outside


def test_all_attempts_were_made_by_either_user(
    harmless: dict[str, Any], harmful: dict[str, Any]
) -> None:
    bombs = {name for name in harmful["bombs"] if not name.startswith("after ")}
    made = {*harmless["sandboxed"], *harmful["sandboxed"], *bombs}
    assert made == {*HARMLESS, *HARMFUL, *BOMBS, "disturb the neighbor"}
    assert len(made) >= 189
