"""`agentfly report`, and the report at the end of `agentfly train`."""

from pathlib import Path
from typing import Any

import pytest
from tests.observe.finished_groups import scored
from tests.observe.recorded_runs import record_run
from typer.testing import CliRunner

import agentfly.training
from agentfly.agents import RunParts
from agentfly.cli.main import app
from agentfly.cli.report import reported
from agentfly.errors import RunError
from agentfly.training import StoppedBy, TrainResult

SETTINGS = """\
name = "sums"
model.name = "tiny"
[[source]]
tasks = "sums.jsonl"
reward = "numeric_match"
"""


def recorded(folder: Path) -> Path:
    groups = [scored("a", 1.0), scored("b", 0.0)]
    # Without rewards there is no curve to draw, which takes a second.
    return record_run(folder, rewards=(), evaluations={0: groups}, steps={1: groups})


def test_the_page_is_made_again_from_the_folder_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    run = recorded(tmp_path / "runs" / "demo")
    done = CliRunner().invoke(app, ["report", "demo"])
    assert done.exit_code == 0, done.output
    assert "Look at runs/demo/report.html" in done.output
    assert "There is one evaluation, after step 0" in done.output
    assert "<h1>Run demo</h1>" in (run / "report.html").read_text()


def test_what_is_no_run_is_refused() -> None:
    done = CliRunner().invoke(app, ["report", "nowhere"])
    assert done.exit_code == 2
    assert "there is no run 'nowhere'" in done.output


@pytest.mark.parametrize("end", [None, KeyboardInterrupt(), RunError("too many chains failed")])
def test_training_ends_with_a_report_also_when_it_is_stopped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, end: BaseException | None
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "sums.jsonl").write_text('{"question": "What is 2+2?", "answer": "4"}\n')
    (tmp_path / "sums.toml").write_text(SETTINGS)

    def train(parts: RunParts, **_: Any) -> TrainResult:
        folder = recorded(parts.settings.folder / "sums")
        if end is not None:
            raise end
        return TrainResult(folder=folder, steps=1, stopped_by=StoppedBy.STEPS)

    monkeypatch.setattr(agentfly.training, "train", train)
    done = CliRunner().invoke(app, ["train", "sums.toml", "train.steps=1"])
    assert "The report: runs/sums/report.html" in done.output
    page = (tmp_path / "runs/sums/report.html").read_text()
    assert "agentfly train sums.toml train.steps=1" in page


def test_a_run_that_did_nothing_new_writes_no_report(tmp_path: Path) -> None:
    run = recorded(tmp_path / "demo")
    with pytest.raises(RunError), reported(run):
        raise RunError("there is a run already")
    assert not (run / "report.html").exists()


def test_a_report_that_fails_does_not_hide_how_the_run_ended(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = tmp_path / "demo"
    with reported(run):
        recorded(run)
        (run / "run.json").unlink()
    assert "could not be written: there is no run" in capsys.readouterr().err
