"""Where the kernel offers less, the level in force is named, or the true reason is given."""

import json
import os
import subprocess
import sys
from typing import Any

import pytest
from tests.patience import PATIENCE
from tests.sandbox.escape_attempts import ABSENCES, HARMLESS, REFUSALS
from tests.sandbox.test_sandbox_escape import HERE, SRC, WAYS, is_refused
from tests.some_now import some_now

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="needs Linux namespaces")

PROGRAM = """
import asyncio, json, logging, os, sys, tempfile
from agentfly.cli import doctor
from agentfly.errors import AgentFlyError
from agentfly.sandbox import PythonSandbox, probe

async def used(**options):
    sandbox = PythonSandbox(**options)
    try:
        return (await sandbox.run("1 + 1")).value
    except AgentFlyError as error:
        return f"{type(error).__name__}: {error}"
    finally:
        await sandbox.close()

async def main():
    found = await probe()
    return {
        "isolation": found.isolation,
        "layers": found.layers,
        "missing": found.missing,
        "default": [await used(), await used()],
        "insisting": await used(isolation="warm"),
        "accepting": await used(isolation="warm-without-landlock"),
    }

logging.basicConfig(level=logging.WARNING)
with tempfile.TemporaryDirectory() as folder:
    os.environ["AGENTFLY_PROCESSES"] = folder
    (finding,) = doctor._sandbox()
    examined = {"state": finding.state, "detail": finding.detail, "fix": finding.fix}
    print(json.dumps({**asyncio.run(main()), "doctor": examined}))
"""


def on_a_kernel_without(
    what: str, *command: str, way: str, path: str = "/nowhere"
) -> tuple[dict[str, Any], str]:
    """Run Python; return what it prints, and what it logs."""
    lesser = [sys.executable, str(HERE / "lesser_kernel.py"), what, sys.executable]
    done = subprocess.run(
        [*WAYS[way](), *lesser, *command],
        env={
            "PATH": path,
            "PYTHONPATH": f"{SRC}:{HERE.parents[1]}",
            "PLANTED_VARIABLE": "planted",
        },
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout), done.stderr


@pytest.mark.parametrize("way", some_now(WAYS, every=2))
def test_the_level_without_landlock_has_a_name_of_its_own(way: str) -> None:
    seen, logged = on_a_kernel_without("landlock", "-c", PROGRAM, way=way)
    assert seen["isolation"] == "warm-without-landlock"
    assert "no Landlock in this kernel" in seen["layers"]
    assert seen["missing"] == ["Landlock: this kernel has no Landlock"]
    assert seen["default"] == ["2", "2"]
    assert logged.count("sandboxes are of the level 'warm-without-landlock'") == 1
    assert seen["insisting"].startswith("EnvError: ")
    assert "this kernel has no Landlock" in seen["insisting"]
    assert "isolation='warm-without-landlock'" in seen["insisting"]
    assert seen["accepting"] == "2"
    assert seen["doctor"]["state"] == "missing"
    assert "warm-without-landlock" in seen["doctor"]["detail"]
    assert "lsm=" in seen["doctor"]["fix"]


@pytest.mark.parametrize("way", some_now(WAYS, every=2))
def test_nothing_gets_out_without_landlock_either(way: str) -> None:
    runner = str(HERE / "escape_runner.py")
    seen, _ = on_a_kernel_without("landlock", runner, "harmless", way=way, path=os.environ["PATH"])
    held = {name: seen["sandboxed"][name] for name in HARMLESS}
    assert [f"{n}: {o}" for n, o in held.items() if not is_refused(o, (*REFUSALS, *ABSENCES))] == []
    assert all(seen["host"].values()), seen["host"]


@pytest.mark.parametrize("way", some_now(reversed(WAYS), every=2))
def test_a_kernel_without_user_namespaces_is_refused_with_the_true_reason(way: str) -> None:
    seen, _ = on_a_kernel_without("user-namespaces", "-c", PROGRAM, way=way)
    reason = "making a user namespace: Operation not permitted"
    assert seen["isolation"] is None
    namespaces, bubblewrap = seen["missing"]
    assert namespaces.startswith("namespaces: ")
    assert reason in namespaces
    assert bubblewrap == "bubblewrap: not installed"
    for said in seen["default"]:
        assert said.startswith("ConfigError: this machine offers no isolation")
        assert reason in said
        assert "user.max_user_namespaces" in said
    for said in (seen["insisting"], seen["accepting"]):
        assert said.startswith("EnvError: ")
        assert reason in said
    assert reason in seen["doctor"]["detail"]
    assert "user.max_user_namespaces" in seen["doctor"]["fix"]
