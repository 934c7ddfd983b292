"""`agentfly doctor` names what is wrong, each with its fix."""

import os
import subprocess
import sys
from pathlib import Path


def doctor(**environment: str) -> subprocess.CompletedProcess[str]:
    kept = {k: v for k, v in os.environ.items() if not k.startswith("OMP_")}
    return subprocess.run(
        [sys.executable, "-m", "agentfly.cli", "doctor"],
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
        env={**kept, **environment},
    )


def test_a_sound_machine_passes() -> None:
    run = doctor(OMP_WAIT_POLICY="passive")
    assert run.returncode == 0, run.stdout + run.stderr
    for what in (
        "threads",
        "wait policy",
        "torch",
        "bf16",
        "extra local",
        "sandbox",
        "disk",
        "java",
    ):
        assert f" {what}" in run.stdout


def test_the_wrong_wait_policy_is_named_with_its_fix() -> None:
    run = doctor(OMP_WAIT_POLICY="active")
    assert run.returncode == 1
    assert "✗ wait policy" in run.stdout
    assert "export OMP_WAIT_POLICY=passive" in run.stdout


def test_more_threads_than_cores_are_named_with_their_fix() -> None:
    run = doctor(OMP_WAIT_POLICY="passive", OMP_NUM_THREADS="4096")
    assert run.returncode == 1
    assert "✗ threads" in run.stdout
    assert "export OMP_NUM_THREADS=" in run.stdout


def test_a_missing_runtime_is_named_with_its_fix(tmp_path: Path) -> None:
    run = doctor(OMP_WAIT_POLICY="passive", PATH=str(tmp_path))
    assert "– java" in run.stdout
    assert "default-jre-headless" in run.stdout
