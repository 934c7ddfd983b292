"""`agentfly doctor` names what is wrong, each with its fix."""

import asyncio
import math
import os
import subprocess
import sys
from collections.abc import Iterator
from importlib import reload
from pathlib import Path

import pytest
import typer
from tests.patience import PATIENCE
from typer.testing import CliRunner

from agentfly.cli import doctor as examination
from agentfly.cli import openmp
from agentfly.cli.main import app
from agentfly.resources import EnvironmentManager, reporting
from agentfly.runtime import cores
from agentfly.sandbox import Probe
from agentfly.types import EnvSpec


def doctor(**environment: str) -> subprocess.CompletedProcess[str]:
    kept = {k: v for k, v in os.environ.items() if not k.startswith("OMP_")}
    return subprocess.run(
        [sys.executable, "-m", "agentfly.cli", "doctor"],
        capture_output=True,
        text=True,
        timeout=PATIENCE,
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
        "extra openai",
        "extra parquet",
        "extra vllm",
        "extra webshop",
        "sandbox",
        "disk",
        "java",
        "chromium",
    ):
        assert f" {what}" in run.stdout
    assert "extra dev" not in run.stdout


def test_each_problem_is_named_with_its_fix(tmp_path: Path) -> None:
    run = doctor(OMP_WAIT_POLICY="active", OMP_NUM_THREADS="4096", PATH=str(tmp_path))
    assert run.returncode == 1
    assert "✗ wait policy" in run.stdout
    assert "export OMP_WAIT_POLICY=passive" in run.stdout
    assert "✗ threads" in run.stdout
    assert "export OMP_NUM_THREADS=" in run.stdout
    assert "– java" in run.stdout
    assert "default-jre-headless" in run.stdout


def a_program(path: Path, script: str) -> None:
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)


def test_programs_that_hang_or_say_nothing_are_not_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(examination, "PROBE_SECONDS", 0.2)
    monkeypatch.setenv("PATH", str(tmp_path))
    for script in ("exec /bin/sleep 60", "exit 0", "exit 1"):
        a_program(tmp_path / "java", script)
        (java,) = examination._java()
        assert java.state == "missing"
        assert "-version" in java.fix
    a_program(tmp_path / "java", "echo 'openjdk 17' >&2")
    (java,) = examination._java()
    assert (java.state, java.detail) == ("ok", "openjdk 17")


def test_chromium_is_named_with_its_path_or_the_way_to_get_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = tmp_path / "chromium"
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("PLAYWRIGHT_BROWSERS_PATH", str(tmp_path))
    monkeypatch.delenv("AGENTFLY_CHROMIUM", raising=False)
    (absent,) = examination._chromium()
    assert (absent.state, absent.detail) == ("missing", "needed by the browser only")
    assert absent.fix.startswith("sudo apt-get install chromium")
    monkeypatch.setenv("AGENTFLY_CHROMIUM", "/nowhere/chromium")
    (wrong,) = examination._chromium()
    assert (wrong.state, wrong.fix) == (
        "missing",
        "name one that can be run, or unset AGENTFLY_CHROMIUM",
    )
    assert "AGENTFLY_CHROMIUM names '/nowhere/chromium'" in wrong.detail
    a_program(own, "exit 0")
    monkeypatch.setenv("AGENTFLY_CHROMIUM", str(own))
    (found,) = examination._chromium()
    assert (found.state, found.detail) == ("ok", str(own))


def test_the_sandbox_in_force_is_named_with_its_layers(monkeypatch: pytest.MonkeyPatch) -> None:
    (real,) = examination._sandbox()
    assert real.state == "missing" or "seccomp" in real.detail or "bubblewrap" in real.detail

    async def nothing() -> Probe:
        return Probe(isolation=None, missing=("namespaces: not permitted",), engines=("docker",))

    monkeypatch.setattr(examination, "probe", nothing)
    (refused,) = examination._sandbox()
    assert refused.state == "missing"
    assert "not permitted" in refused.detail
    assert "by choice docker" in refused.detail
    assert "bubblewrap" in refused.fix


@pytest.mark.parametrize("name", ["none", "file"])
def test_live_says_that_a_folder_does_not_exist(name: str, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    run = CliRunner().invoke(app, ["doctor", "--live", str(tmp_path / name)])
    assert run.exit_code == 2, run.output
    assert f"there is no folder '{tmp_path / name}'" in run.output


def test_live_shows_who_holds_what_in_a_run(tmp_path: Path) -> None:
    run = CliRunner().invoke(app, ["doctor", "--live", str(tmp_path)])
    assert run.exit_code == 2
    assert "is it the folder of a run" in run.output

    class Room:
        def reset(self, task: object, seed: object) -> str:
            return ""

        def close(self) -> None:
            pass

    async def hold() -> str:
        async with EnvironmentManager() as pool:
            lease = pool.lease([EnvSpec(Room)], owner="sum/0/3", deadline=math.inf)
            with reporting(pool.snapshot, tmp_path):
                async with lease:
                    return CliRunner().invoke(app, ["doctor", "--live", str(tmp_path)]).output

    assert "sum/0/3" in asyncio.run(hold())


def test_every_package_of_an_extra_is_looked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(examination, "_is_installed", lambda name: name != "gguf")
    findings = {finding.what: finding for finding in examination._extras()}
    assert findings["extra local"].detail == "without gguf"
    assert "safetensors" in examination._packages_of_extras()["local"]
    assert findings["extra vllm"].state == "ok"


@pytest.mark.parametrize("pays", [True, False])
def test_bf16_is_judged_as_the_engine_judges_it(
    monkeypatch: pytest.MonkeyPatch, pays: bool
) -> None:
    pytest.importorskip("torch")
    monkeypatch.setattr("agentfly.modeling.shared_view.bfloat16_pays", lambda device: pays)
    assert examination._bf16().state == ("ok" if pays else "missing")


def test_a_quota_below_the_cores_limits_the_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("OMP_NUM_THREADS", "OMP_WAIT_POLICY"):
        monkeypatch.setenv(name, "")  # so that what the module sets is undone
        monkeypatch.delenv(name)
    monkeypatch.setattr(cores, "affine_cores", lambda: 8)
    monkeypatch.setattr(cores, "cpu_quota", lambda: 2.5)
    try:
        reload(openmp)
        assert os.environ["OMP_NUM_THREADS"] == "2"
        monkeypatch.setattr(examination, "usable_cores", cores.usable_cores)
        monkeypatch.setattr(examination, "affine_cores", cores.affine_cores)
        monkeypatch.setattr(examination, "given_by_user", openmp.given_by_user)
        (found,) = examination._threads()
        assert (found.state, found.fix) == ("missing", "export OMP_NUM_THREADS=2")
        assert "2 cores (of 8, by this container's quota)" in found.detail
        monkeypatch.setenv("OMP_NUM_THREADS", "4")
        reload(openmp)
        assert os.environ["OMP_NUM_THREADS"] == "4"
    finally:
        monkeypatch.undo()
        reload(openmp)


def test_each_check_is_printed_before_the_next_begins(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    shown = []

    def first() -> Iterator[examination.Finding]:
        yield examination.Finding("first", "ok", "sound")

    def second() -> Iterator[examination.Finding]:
        shown.append(capsys.readouterr().out)
        yield examination.Finding("second", "wrong", "broken")

    monkeypatch.setattr(examination, "_CHECKS", (first, second))
    with pytest.raises(typer.Exit) as exit:
        examination.doctor()
    assert exit.value.exit_code == 1
    assert "first" in shown[0]
