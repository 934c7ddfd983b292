"""`agentfly sft`, up to the call that trains."""

import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest
import typer
from typer.testing import CliRunner

import agentfly.training.supervised.sft
from agentfly.cli.sft import sft
from agentfly.config.sft_settings import SftSettings, load_sft_settings
from agentfly.training import RunFolder

SETTINGS = """\
name = "warm"
model.name = "tiny"
[data]
files = ["chats.jsonl"]
"""
CHAT = (
    '{"messages": [{"role": "user", "content": "%s"}, {"role": "assistant", "content": "Hello"}]}\n'
)

app = typer.Typer(pretty_exceptions_enable=False)
app.command()(sft)


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "chats.jsonl").write_text("".join(CHAT % word for word in ("Hi", "Hey", "Ho")))
    path = tmp_path / "warm.toml"
    path.write_text(SETTINGS)
    return path


def test_a_dry_run_prints_what_gives_the_same_run_again(file: Path) -> None:
    run = CliRunner().invoke(app, [str(file), "train.lr=3e-5", "data.keep_best=2", "--dry-run"])
    assert run.exit_code == 0, run.output
    again = file.with_name("again.toml")
    again.write_text(run.stdout)
    settings = load_sft_settings(again)
    assert (settings.train.lr, settings.data.keep_best) == (3e-5, 2)
    assert CliRunner().invoke(app, [str(again), "--dry-run"]).stdout == run.stdout


READY = "VERDICT: ready, nothing is in the way of this run"
NOT_READY = "VERDICT: not ready, see the problem above"


def rehearse(file: Path, *arguments: str) -> tuple[int, list[str]]:
    """Return the exit code of a dry run and what it reports; its stdout is always TOML."""
    run = CliRunner().invoke(app, [str(file), *arguments, "--dry-run"])
    assert tomllib.loads(run.stdout)["name"] == "warm"
    blank, heading, *said = run.stderr.splitlines()
    assert (blank, heading) == ("", "dry run of warm:")
    return run.exit_code, said


def test_a_dry_run_counts_the_conversations(file: Path) -> None:
    expected = ["conversations: 2 to learn from, 1 held out", READY]
    assert rehearse(file) == (0, expected)


def test_a_run_that_does_not_exist_is_not_ready_to_be_resumed(file: Path) -> None:
    code, (problem, verdict) = rehearse(file, "--resume")
    assert (code, verdict) == (2, NOT_READY)
    assert problem.startswith("problem: there is no run to resume in runs/warm")


@pytest.mark.parametrize(
    ("override", "why"),
    [
        ("train.tokens_per_microbatch=1", "there is nothing to learn from; conversations: 0 to"),
        ("train.warmup_steps=1000", "train.warmup_steps is 1000, but 2 conversations give only"),
    ],
)
def test_a_dry_run_says_that_a_run_could_not_begin(file: Path, override: str, why: str) -> None:
    code, (problem, verdict) = rehearse(file, override)
    assert (code, verdict) == (2, NOT_READY)
    assert problem.startswith(f"problem: {why}")


def test_a_folder_that_holds_a_run_is_refused_before_anything_is_read(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    RunFolder.create(Path("runs/warm"), config="").close()
    code, (problem, verdict) = rehearse(file)
    assert (code, verdict) == (2, NOT_READY)
    assert problem.startswith("problem: runs/warm holds a run already.")
    assert rehearse(file, "--resume")[0] == 0
    Path("runs/warm/model").mkdir()
    code, (problem, verdict) = rehearse(file, "--resume")
    assert (code, verdict) == (2, NOT_READY)
    assert problem.startswith("problem: the run 'warm' is done")

    calls: list[SftSettings] = []
    monkeypatch.setattr(
        agentfly.training.supervised.sft, "sft", lambda settings, **_: calls.append(settings)
    )
    run = CliRunner().invoke(app, [str(file)])
    assert (run.exit_code, calls) == (2, [])
    assert "runs/warm holds a run already" in run.stderr


def test_a_dry_run_fetches_nothing(file: Path) -> None:
    for override, why in (
        ("model.name=nobody/nothing", "the tokenizer of nobody/nothing is not here"),
        ("data.files=['hub:nobody/chats']", "those of a hub are not fetched"),
    ):
        assert rehearse(file, override) == (0, [f"conversations: not read, {why}", READY])


def test_training_is_one_call_with_the_settings(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[tuple[SftSettings, dict[str, Any]]] = []
    monkeypatch.setattr(
        agentfly.training.supervised.sft, "sft", lambda s, **how: calls.append((s, how))
    )
    assert CliRunner().invoke(app, [str(file)]).exit_code == 0
    RunFolder.create(Path("runs/warm"), config="").close()
    assert CliRunner().invoke(app, [str(file), "--resume", "train.epochs=7"]).exit_code == 0
    (first, how), (second, how_then) = calls
    assert (first.name, how) == ("warm", {"resume": False, "base": file.parent})
    assert (second.train.epochs, how_then) == (7, {"resume": True, "base": file.parent})


def test_all_problems_are_reported_at_once(file: Path) -> None:
    wrong = ["train.epoch=3", "train.lr=fast", "name=a/b", "data.held_out_share=2", "steps"]
    run = CliRunner().invoke(app, [str(file), *wrong])
    assert run.exit_code == 2
    for expected in (
        f"invalid settings in {file}",
        "train.epoch: unknown key. Did you mean 'epochs'?",
        "train.lr: must be a number, got 'fast'",
        "name: must be the name of a folder",
        "data.held_out_share: must be less than 1, got 2",
        "steps: an override is written key=value",
    ):
        assert expected in run.stderr


def test_a_dry_run_reports_all_that_is_missing(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "wandb", None)
    absent = ["data.files=['chats.jsonl', 'chat.jsonl']", "data.held_out=['runs/teacher']"]
    absent += ["data.mask=last_turn", "data.kind=tols", "model.name=runs/lost/model"]
    run = CliRunner().invoke(app, [str(file), *absent, "track.trackers=['wandb']", "--dry-run"])
    assert run.exit_code == 2
    for expected in (
        f"data.files.1: there is no '{file.parent}/chat.jsonl'. Did you mean 'chats.jsonl'?",
        f"data.held_out.0: there is no '{file.parent}/runs/teacher'.",
        "data.mask: unknown mask policy 'last_turn'. Did you mean 'last_turn_only'?",
        "data.kind: unknown kind of agent 'tols'. Did you mean 'tools'?",
        "model.name: there is no folder 'runs/lost/model'. ",
        "track.trackers.0: 'wandb' is not installed: pip install 'agentfly[wandb]'",
    ):
        assert expected in run.stderr


def test_a_missing_file_says_what_makes_one(file: Path) -> None:
    absent = ["data.files=expert.jsonl", "data.held_out=runs/teacher"]
    run = CliRunner().invoke(app, [str(file), *absent])
    assert run.exit_code == 2
    (line,) = [line for line in run.stderr.splitlines() if "envs demonstrate" in line]
    assert line.startswith(f"  data.files.0: there is no '{file.parent}/expert.jsonl'. ")
    assert line.endswith("is made by `agentfly envs demonstrate NAME … --out FILE`")
    assert "data.held_out.0: there is no" in run.stderr, "a run's folder is no such file"


@pytest.mark.parametrize("has_folder", [False, True])
def test_a_run_that_was_not_started_is_refused_before_its_files_are_searched(
    file: Path, has_folder: bool
) -> None:
    file.with_name("chats.jsonl").unlink()
    if has_folder:
        Path("runs/warm").mkdir(parents=True)
    run = CliRunner().invoke(app, [str(file), "--resume"])
    assert run.exit_code == 2
    no_run = "there is no run to resume in runs/warm: it has no run.json. "
    assert run.stderr.startswith(f"error: {no_run}")
    assert "chats.jsonl" not in run.stderr


def test_a_file_without_data_says_what_to_add(file: Path) -> None:
    file.write_text('name = "warm"\nmodel.name = "tiny"\n')
    run = CliRunner().invoke(app, [str(file)])
    assert run.exit_code == 2
    assert "data: missing. Add the table [data]" in run.stderr


@pytest.mark.parametrize("begun", [True, False])
def test_after_ctrl_c_the_way_to_go_on_is_reported(
    file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, begun: bool
) -> None:
    def interrupted(settings: SftSettings, **how: Any) -> None:
        if begun:
            RunFolder.create(settings.folder / settings.name, config="").close()
        raise KeyboardInterrupt

    monkeypatch.setattr(agentfly.training.supervised.sft, "sft", interrupted)
    run = CliRunner().invoke(app, [str(file), f"folder={tmp_path}"])
    assert run.exit_code == 130
    reported = f"agentfly sft {file} folder={tmp_path}"
    assert (f"go on with: {reported} --resume\n" in run.stderr) == begun
    assert (f"nothing to resume; start again with: {reported}\n" in run.stderr) == (not begun)
