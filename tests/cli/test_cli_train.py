"""`agentfly train`, up to the call that trains."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import typer
from tests.patience import PATIENCE
from typer.testing import CliRunner

import agentfly.training
from agentfly.agents import RunParts
from agentfly.cli.train import train
from agentfly.config import RunSettings, load_settings
from agentfly.tasks import task_loading
from agentfly.training import Checkpoints, StoppedBy, TrainResult
from agentfly.training.task_mix import read_sources

SETTINGS = """\
name = "sums"
model.name = "tiny"
[[source]]
tasks = "sums.jsonl"
tools = ["calculator", "train_parts:search"]
reward = "numeric_match"
"""
PARTS = '''
from agentfly import tool

@tool
def search(query: str) -> str:
    """Search."""
    return query

def forgotten() -> None: ...
'''

app = typer.Typer(pretty_exceptions_enable=False)
app.command()(train)


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.delitem(sys.modules, "train_parts", raising=False)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "train_parts.py").write_text(PARTS)
    (tmp_path / "sums.jsonl").write_text('{"question": "What is 2+2?", "answer": "4"}\n')
    path = tmp_path / "sums.toml"
    path.write_text(SETTINGS)
    return path


def test_a_dry_run_prints_what_gives_the_same_run_again(file: Path) -> None:
    run = CliRunner().invoke(app, [str(file), "train.lr=3e-5", "--dry-run", "name=other"])
    assert run.exit_code == 0, run.output
    settings = load_settings(run.stdout)
    assert (settings.name, settings.train.lr) == ("other", 3e-5)
    assert settings.source == load_settings(file).source
    assert settings.algorithm.options, "the algorithm's own defaults are printed too"
    again = file.with_name("again.toml")
    again.write_text(run.stdout)
    assert CliRunner().invoke(app, [str(again), "--dry-run"]).stdout == run.stdout


def count_reads(monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    reads: list[Path] = []
    read = task_loading._READERS[".jsonl"]

    def counting(path: Path) -> Any:
        reads.append(path)
        return read(path)

    monkeypatch.setitem(task_loading._READERS, ".jsonl", counting)
    return reads


def test_training_is_one_call_with_the_settings(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[tuple[RunSettings, dict[str, Any]]] = []
    reads = count_reads(monkeypatch)

    def train(parts: RunParts, **how: Any) -> TrainResult:
        assert len(read_sources(parts.sources).tasks) == 1
        calls.append((parts.settings, how))
        return TrainResult(folder=Path("runs/sums"), steps=7, stopped_by=StoppedBy.STEPS)

    monkeypatch.setattr(agentfly.training, "train", train)
    reported = CliRunner().invoke(app, [str(file)])
    assert (reported.exit_code, "runs/sums/checkpoints/step_7" in reported.output) == (0, True)
    assert CliRunner().invoke(app, [str(file), "--resume", "train.steps=7"]).exit_code == 0
    (first, how), (second, how_then) = calls
    assert (first.name, how) == ("sums", {"resume": False})
    assert (second.train.steps, how_then) == (7, {"resume": True})
    assert reads == [file.with_name("sums.jsonl")] * 2, "each run reads its tasks once"


def test_the_best_checkpoint_is_reported_where_it_is_not_the_last(
    file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    result = TrainResult(folder=tmp_path / "sums", steps=3, stopped_by=StoppedBy.STEPS)
    monkeypatch.setattr(agentfly.training, "train", lambda _, **how: result)
    checkpoints = Checkpoints(result.checkpoint.parent)
    for step, score, reported in [(2, 0.5, True), (3, 0.4, True), (3, 0.6, False)]:
        checkpoints.save(step, lambda folder: None, score=score)
        said = CliRunner().invoke(app, [str(file)]).output
        assert ("checkpoints/step_2" in said) == reported


@pytest.mark.parametrize(
    ("overrides", "lines"),
    [
        (["train.stesp=3"], ["  train.stesp: unknown key. Did you mean 'steps'? "]),
        (
            ["algorithm.name=grppo"],
            ["  algorithm.name: unknown algorithm 'grppo'. Did you mean 'grpo'"],
        ),
        (["algorithm.clp=1"], ["  algorithm.clp: unknown key. Did you mean 'clip'"]),
        (
            ["rollout.num_chains=1"],
            ["  rollout.num_chains: grpo compares the chains of a task: it "],
        ),
        (["algorithm.name=nowhere:mine"], ["  algorithm.name: there is no module 'nowhere' in "]),
        (
            ["source.0.tools=['train_parts:forgotten']", "source.0.reward=corect"],
            [
                "  source.0.tools.0: train_parts:forgotten is no tool, but of type function: deco",
                "  source.0.reward: unknown reward 'corect'. ",
            ],
        ),
    ],
)
def test_problems_are_reported_without_a_traceback(
    file: Path, overrides: list[str], lines: list[str]
) -> None:
    run = CliRunner().invoke(app, [str(file), *overrides])
    assert run.exit_code == 2
    said = run.stderr.splitlines()
    assert said[0] == f"error: invalid settings in {file}"
    assert [line[: len(start)] for line, start in zip(said[1:], lines, strict=True)] == lines


def test_a_dry_run_reports_all_that_is_missing(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "wandb", None)
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    file.write_text(SETTINGS.replace('reward = "numeric_match"', ""))
    absent = ["model.name=tinny", "model.device=cuda", "track.trackers=['wandb']"]
    absent += ["source.0.tasks=sms.jsonl", "source.0.eval_tasks=nowhere/held_out.jsonl"]
    run = CliRunner().invoke(app, [str(file), *absent, "--dry-run"])
    assert run.exit_code == 2
    folder = file.parent
    assert run.stderr.splitlines()[1:] == [
        f"  source.0.tasks: there is no '{folder}/sms.jsonl'. Did you mean 'sums.jsonl'?",
        f"  source.0.eval_tasks: there is no '{folder}/nowhere/held_out.jsonl'.",
        "  source.0.reward: missing: nothing tells good chains from bad ones. Name a reward, a "
        "group_reward, or an environment that scores",
        "  model.name: unknown model 'tinny'. Did you mean 'tiny'? Known: smollm2-135m-instruct, "
        "tiny, tiny-15m, tiny-5m, tiny-random. A model is a local folder, one of these names, or "
        "a hub id such as 'organisation/name'",
        "  model.device: torch finds no GPU here: choose 'cpu' or 'auto'",
        "  track.trackers.0: 'wandb' is not installed: pip install 'agentfly[wandb]', or take it "
        "out",
    ]


@pytest.mark.parametrize(
    ("rows", "said"),
    [
        ("", "sums.jsonl' holds no tasks"),
        ('{"question": 7}\n', "1 bad rows:"),
        ("{", "sums.jsonl:1 is not JSON"),
    ],
)
def test_a_dry_run_reads_files_of_tasks(file: Path, rows: str, said: str) -> None:
    file.with_name("sums.jsonl").write_text(rows)
    run = CliRunner().invoke(app, [str(file), "--dry-run"])
    assert run.exit_code == 2
    assert "  source.0.tasks: " in run.stderr
    assert said in run.stderr


def test_a_dry_run_fetches_nothing(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fetch(*_: object, **__: object) -> None:
        raise AssertionError("a dry run must not fetch a model")

    monkeypatch.setattr("agentfly.models.model_hub.download", fetch)
    monkeypatch.setattr("agentfly.models.zoo.fetch", fetch)
    for name in ("smollm2-135m-instruct", "organisation/name"):
        run = CliRunner().invoke(app, [str(file), f"model.name={name}", "--dry-run"])
        assert run.exit_code == 0, run.output


def test_ppo_is_content_with_one_chain(file: Path) -> None:
    overrides = ["algorithm.name=ppo", "rollout.num_chains=1"]
    assert CliRunner().invoke(app, [str(file), *overrides, "--dry-run"]).exit_code == 0


def test_the_help_shows_an_example_with_its_brackets() -> None:
    shown = CliRunner().invoke(app, ["--help"], env={"COLUMNS": "120"}).stdout
    assert "[[source]]" in shown
    assert 'reward = "numeric_match"' in shown
    assert "agentfly train sums.toml --dry-run" in shown


def test_without_torch_the_way_out_is_reported(file: Path) -> None:
    code = (
        "import sys; sys.modules['torch'] = None\n"
        "import typer; from agentfly.cli.train import train; typer.run(train)"
    )
    run = subprocess.run(
        [sys.executable, "-c", code, str(file), "--dry-run"],
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        env={**os.environ, "NO_COLOR": "1"},
        check=False,
    )
    assert run.returncode == 2
    assert run.stderr.startswith("error: training needs the extra `train` (torch is missing): pip")
    assert len(run.stderr.splitlines()) == 1
