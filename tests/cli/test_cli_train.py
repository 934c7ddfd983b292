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
from agentfly.config import RolloutSettings, RunSettings, load_settings
from agentfly.tasks import task_loading
from agentfly.training import Checkpoints, RunFolder, StoppedBy, TrainResult, trainer
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
OWN_ALGORITHM = """
from agentfly.algorithms import advantage


@advantage
def scaled(rewards_G, scale: float = 2.0, shift: float = 0.0, weigh=object()):
    return (rewards_G - rewards_G.mean() - shift) * scale
"""

app = typer.Typer(pretty_exceptions_enable=False)
app.command()(train)


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(sys, "path", list(sys.path))
    for module in ("train_parts", "rehearsed", "dry_run_algorithm"):
        monkeypatch.delitem(sys.modules, module, raising=False)
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


def test_a_dry_run_prints_the_defaults_of_an_own_algorithm_too(file: Path) -> None:
    (file.parent / "dry_run_algorithm.py").write_text(OWN_ALGORITHM)
    chosen = ["algorithm.name=dry_run_algorithm:scaled", "algorithm.shift=0.5"]
    run = CliRunner().invoke(app, [str(file), *chosen, "--dry-run"])
    assert run.exit_code == 0, run.output
    options = load_settings(run.stdout).algorithm.options
    assert (options["scale"], options["shift"], options["clip"]["low"]) == (2.0, 0.5, 0.2)
    assert "weigh" not in options, "an object of the user's code is no value of a settings file"


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
        assert len(read_sources(parts.sources, parts.settings.eval).tasks) == 1
        calls.append((parts.settings, how))
        if not how["resume"]:
            RunFolder.create(Path("runs/sums"), config="").close()
        Path("runs/sums/metrics.jsonl").touch()
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
                "  source.0.tools.0: tool 'forgotten' has no description, and the model is",
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
    said = [line for line in run.stderr.splitlines() if line[:4] != "    "]
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
    wanted = (
        "Expected a file (a relative path starts at the settings' folder), `module:function` or "
        "`hub:dataset`"
    )
    assert [line for line in run.stderr.splitlines()[1:] if line[:4] != "    "] == [
        f"  source.0.tasks: there is no '{folder}/sms.jsonl'. Did you mean 'sums.jsonl'? {wanted}",
        f"  source.0.eval_tasks: there is no '{folder}/nowhere/held_out.jsonl'. {wanted}",
        "  source.0.reward: missing: nothing tells good chains from bad ones. Name a reward, a "
        "group_reward, or an environment that scores",
        "  model.name: unknown model 'tinny'. Did you mean 'tiny'? Known: smollm2-135m-instruct, "
        "tiny, tiny-15m, tiny-5m, tiny-random. A model is a local folder, one of these names, or "
        "a hub id such as 'organization/name'",
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


REHEARSED = '''
from agentfly import Step, group_reward, reward, tool

@tool
def fails(query: str) -> str:
    """Fail."""
    raise ValueError("out of order")

@reward
def by_unit(final_response: str, unit: str) -> bool:
    return unit in final_response

@reward
def words(final_response: str) -> float:
    return "good"

@group_reward
def longest(final_responses: list[str]) -> list[float]:
    return [float(len(text)) for text in final_responses]

def nothing(turns):
    return [False] * len(turns)

class Inventory:
    def __init__(self) -> None:
        self.items: list[str] = []

    def put(self, item: str) -> str:
        """Put an item in."""
        self.items.append(item)
        return "ok"

@reward
def stored(inventory: Inventory) -> bool:
    return len(inventory.items) == 1

class Silent:
    def step(self, action: str) -> Step:
        return Step(observation="ok")

class Strict:
    def step(self, action: str) -> Step:
        return Step(observation="ok", reward=0.0)
'''


def rehearse(file: Path, source: str, *overrides: str) -> tuple[int, list[str]]:
    """Return the exit code of a dry run and what it reports; its stdout is always TOML."""
    (file.parent / "rehearsed.py").write_text(REHEARSED)
    file.write_text(
        'name = "sums"\nmodel.name = "tiny"\n[[source]]\ntasks = "sums.jsonl"\n' + source
    )
    run = CliRunner().invoke(app, [str(file), *overrides, "--dry-run"])
    assert load_settings(run.stdout).name == "sums"
    blank, heading, *said = run.stderr.splitlines()
    assert (blank, heading) == ("", "dry run of sums:")
    return run.exit_code, said


@pytest.mark.parametrize(
    ("source", "played"),
    [
        ('tools = ["calculator"]\nreward = "numeric_match"', "calculator answered; reward 1; "),
        ('tools = ["calculator"]\nkind = "tags"\nreward = "numeric_match"', "reward 1; "),
        ('environment = "rehearsed:Inventory"\nreward = "rehearsed:stored"', "put answered; rewar"),
        ('group_reward = "rehearsed:longest"', ": no tools; reward 1; "),
        (
            'tools = ["rehearsed:fails"]\nreward = "numeric_match"',
            "fails gave error (tool 'fails' failed: ValueError: out of order), which its made-up "
            "arguments may explain; reward 1",
        ),
    ],
)
def test_a_dry_run_plays_a_chain_and_says_that_the_run_is_ready(
    file: Path, source: str, played: str
) -> None:
    code, said = rehearse(file, source)
    assert code == 0
    if "rehearsed:" not in source:
        assert said[-1] == "VERDICT: ready, nothing is in the way of this run"
    begin = "source 'default': 1 task, 0 held out; a scripted chain on its first task: "
    assert said[0].startswith(begin)
    assert played in said[0]
    assert " tokens trained" in said[0]


def test_a_dry_run_says_how_many_chains_an_evaluation_takes(file: Path) -> None:
    _, said = rehearse(file, 'reward = "numeric_match"\neval_tasks = "sums.jsonl"')
    expected = "1 held out (each evaluation takes 4 chains: 1 held-out task, eval.num_chains = 4)"
    assert expected in said[0]


NO_EFFECT = (
    "rollout.max_turns = 1 has no effect on source 'default': code's own limit is 4; set max_turns "
    "in the [[source]]"
)


def test_a_dry_run_warns_of_a_turn_limit_that_an_environment_overrides(file: Path) -> None:
    code, said = rehearse(file, 'environment = "code"\n', "rollout.max_turns=1")
    assert (code, said[0]) == (0, f"warning: {NO_EFFECT}")


@pytest.mark.parametrize(
    ("source", "limit"),
    [
        ('environment = "code"', RolloutSettings().max_turns),
        ('environment = "code"', 4),
        ('environment = "code"\nmax_turns = 2', 1),
        ('tools = ["calculator"]\nreward = "numeric_match"', 1),
    ],
)
def test_no_warning_of_a_turn_limit_that_is_meant_or_has_an_effect(
    file: Path, source: str, limit: int
) -> None:
    _, said = rehearse(file, f"{source}\n", f"rollout.max_turns={limit}")
    assert not [line for line in said if "max_turns" in line]


def test_a_run_begins_with_a_warning_of_a_turn_limit_without_effect(
    file: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    file.write_text(SETTINGS.partition("tasks")[0] + 'environment = "code"\n')
    settings = load_settings(file, ["rollout.max_turns=1"])

    async def stop(*_: object, **__: object) -> None:
        raise LookupError("the run would begin here")

    monkeypatch.setattr(trainer, "_run", stop)
    with pytest.raises(LookupError):
        trainer.train(settings, base=file.parent)
    assert NO_EFFECT in caplog.text


def test_a_dry_run_warns_of_tools_that_the_model_never_saw(file: Path) -> None:
    code, said = rehearse(
        file, 'environment = "rehearsed:Inventory"\nreward = "rehearsed:stored"\n'
    )
    assert code == 0
    assert said[-1].startswith("VERDICT: ready to start, but it may learn nothing")
    assert "warning: source 'default': The model 'tiny' never saw the tools put, and" in said[1]
    assert said[2].startswith("memory: the learner takes about ")


def test_a_dry_run_warns_of_a_chain_without_a_score(file: Path) -> None:
    code, said = rehearse(file, 'environment = "rehearsed:Silent"')
    assert (code, "; no reward; " in said[0]) == (0, True)
    assert said[1].startswith("warning: source 'default': its scripted chain ended without a score")
    assert "let every Step have a reward, such as reward=0.0" in said[1]
    assert said[-1].startswith("VERDICT: ready to start, but it may learn nothing")


def test_a_reward_of_zero_is_a_score(file: Path) -> None:
    code, said = rehearse(file, 'environment = "rehearsed:Strict"')
    assert (code, "; reward 0; " in said[0]) == (0, True)
    assert said[-1].startswith("VERDICT: ready, nothing")


def test_a_dry_run_knows_whether_its_folder_holds_a_run(file: Path) -> None:
    source, not_ready = 'reward = "numeric_match"', "VERDICT: not ready, see the 1 problem above"
    code, said = rehearse(file, source, "--resume")
    assert (code, said[-1]) == (2, not_ready)
    assert said[-2].startswith("problem: there is no run to resume in runs/sums")
    RunFolder.create(Path("runs/sums"), config="").close()
    assert rehearse(file, source, "--resume")[0] == 0
    code, said = rehearse(file, source)
    assert (code, said[-1]) == (2, not_ready)
    assert said[-2].startswith("problem: runs/sums holds a run already.")


@pytest.mark.parametrize("has_folder", [False, True])
def test_a_run_that_was_not_started_is_refused_before_its_files_are_searched(
    file: Path, has_folder: bool
) -> None:
    file.with_name("sums.jsonl").unlink()
    if has_folder:
        Path("runs/sums").mkdir(parents=True)
    run = CliRunner().invoke(app, [str(file), "--resume"])
    assert run.exit_code == 2
    no_run = "there is no run to resume in runs/sums: it has no run.json. "
    assert run.stderr.startswith(f"error: {no_run}")
    assert "sums.jsonl" not in run.stderr


@pytest.mark.parametrize(
    ("source", "why"),
    [
        (
            'reward = "rehearsed:by_unit"\neval_tasks = "sums.jsonl"',
            "reward 'by_unit' reads the field 'unit', which 1 of 1 tasks lack: row 1. The first of "
            "them has: question, answer. Add 'unit' to those rows",
        ),
        (
            'reward = "rehearsed:words"',
            "reward 'words' returned str: 'good'; expected",
        ),
        ('reward = "rehearsed:stored"', "reads the field 'inventory', which 1 of 1 tasks lack"),
    ],
)
def test_a_dry_run_says_why_a_run_is_not_ready(file: Path, source: str, why: str) -> None:
    code, said = rehearse(file, source)
    assert code == 2
    verdict = [line for line in said if line.startswith("problem: source 'default': ")]
    assert why in verdict[0]
    assert said[-1].startswith(f"VERDICT: not ready, see the {len(verdict)} problem")
    if "eval_tasks" in source:
        assert "which 1 of 1 held-out tasks lack" in verdict[1]


def test_a_dry_run_knows_that_a_mask_leaves_nothing(file: Path) -> None:
    code, said = rehearse(file, 'reward = "numeric_match"', "rollout.mask=rehearsed:nothing")
    assert code == 2
    assert "the mask 'rehearsed:nothing' leaves no token of the scripted chain to train" in said[-2]


def test_a_dry_run_knows_a_question_that_fills_the_context(file: Path) -> None:
    file.with_name("sums.jsonl").write_text(f'{{"question": "{"long " * 5000}", "answer": "4"}}\n')
    code, said = rehearse(file, 'reward = "numeric_match"')
    assert code == 2
    assert "the prompt of its first task fills the context: shorten the question" in said[-2]


def test_a_dry_run_fetches_nothing(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fetch(*_: object, **__: object) -> None:
        raise AssertionError("a dry run must not fetch a model")

    monkeypatch.setattr("agentfly.models.model_hub.download", fetch)
    monkeypatch.setattr("agentfly.models.zoo.fetch", fetch)
    for name in ("smollm2-135m-instruct", "organization/name"):
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
