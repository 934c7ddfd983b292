"""`agentfly show`: tables, one chain, tokens; of whole runs, killed ones, without a model."""

import shutil
from pathlib import Path

import pytest
from tests.observe.finished_groups import chain, group, scored, turn
from tests.observe.recorded_runs import CONFIG, record_run, write_chains
from typer.testing import CliRunner, Result

from agentfly import RunResult
from agentfly.cli.main import app
from agentfly.models import resolve_model
from agentfly.types import StopReason, ToolStatus

GROUPS = [
    group("6*7", [chain(1.0, turn(ToolStatus.OK)), chain(0.0, turn(text="no idea"))]),
    scored("8*9", 0.5, None),
]


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return record_run(
        tmp_path / "runs" / "demo",
        steps={3: [scored("old", 0.25)], 4: GROUPS},
        evaluations={4: [scored("held", 1.0)]},
    )


def show(*arguments: str) -> Result:
    return CliRunner().invoke(app, ["show", *arguments])


def test_the_table_is_of_the_last_step_or_of_the_one_asked_for(run: Path) -> None:
    last = show("demo").output
    assert [name in last for name in ("6*7/0/0", "8*9/0/1", "old", "held")] == [1, 1, 0, 0]
    assert "env_crashed" in last
    assert "old/0/0" in show("demo", "--step", "3").output
    assert "held/0/0" in show("demo", "--held-out").output


def test_a_step_without_a_finished_chain_yet_is_not_the_last(run: Path) -> None:
    before = show(str(run)).output
    (run / "trajectories" / "step_99.jsonl").write_text("")
    assert show(str(run)).output == before


def test_filters_and_limit(run: Path) -> None:
    assert "6*7/0/1" in show("demo", "--max-reward", "0").output
    assert "6*7/0/0" not in show("demo", "--max-reward", "0").output
    assert "matches" in show("demo", "--tool", "search").output
    assert "There are more" in show("demo", "--limit", "1").output
    wrong = show("demo", "--stop", "crash")
    assert (wrong.exit_code, "unknown stop reason" in wrong.output) == (2, True)


def test_one_table_of_several_steps(run: Path) -> None:
    both = show("demo", "--from-step", "3", "--sort", "reward").output
    rows = [line.split()[:3] for line in both.splitlines() if "/0/" in line]
    assert rows == [
        ["4", "6*7/0/1", "0.00"],
        ["3", "old/0/0", "0.25"],
        ["4", "8*9/0/0", "0.50"],
        ["4", "6*7/0/0", "1.00"],
        ["4", "8*9/0/1", "-"],
    ]
    assert "6*7" not in show("demo", "--to-step", "3").output
    none = show("demo", "--from-step", "5")
    assert (none.exit_code, "Steps that have some: 3, 4" in none.output) == (2, True)
    wrong = show("demo", "1", "--from-step", "3")
    assert (wrong.exit_code, "leave out the chain" in " ".join(wrong.output.split())) == (2, True)


def test_chains_of_one_version_of_the_weights(run: Path) -> None:
    assert "6*7/0/0" in show("demo", "--weights-version", "0").output
    assert "matches" in show("demo", "--weights-version", "1").output


def test_a_chain_by_number_and_by_id_wherever_it_is(run: Path) -> None:
    assert "<Trajectory 6*7/0/1: reward 0.00" in show("demo", "2").output
    assert "<Trajectory old/0/0: reward 0.25" in show("demo", "old/0/0").output
    assert "<Trajectory held/0/0: reward 1.00" in show("demo", "held/0/0").output
    for unknown in (["0"], ["5"], ["²"], ["nothing"], ["old/0/0", "--step", "4"]):
        missing = show("demo", *unknown)
        assert (missing.exit_code, "there is no chain" in missing.output) == (2, True)
    none = show("demo", "--step", "9")
    assert (none.exit_code, "Steps that have some: 3, 4" in none.output) == (2, True)


def test_tokens_are_those_of_the_runs_own_tokenizer(run: Path) -> None:
    saved = run / "checkpoints" / "step_4"
    saved.mkdir(parents=True)
    for name in ("tokenizer.json", "tokenizer_config.json"):
        shutil.copy(resolve_model("tiny") / name, saved)
    (run / "config.toml").write_text('rollout.mask = "valid_calls_only"\n')
    assert show("demo", "1").exit_code == 0
    shown = show("demo", "1", "--tokens").output
    assert "turn 0: 3 tokens of context, 4 sampled at temperature 1" in shown
    assert shown.count("  +   -1.000  v0") == 4


def test_masks_by_code_are_not_run(run: Path) -> None:
    (run / "config.toml").write_text(CONFIG + 'rollout.mask = "os:system"\n')
    shown = show("demo", "1", "--tokens")
    assert shown.exit_code == 0
    assert "? sampled; the policy os:system decides, and is not run here (--trust" in shown.stdout
    assert [shown.stdout.count(f"  {mark}   -1.000  v0") for mark in "?+-"] == [4, 0, 0]


def test_a_mask_by_code_is_run_on_demand(run: Path, tmp_path: Path) -> None:
    (run / "config.toml").write_text(CONFIG + 'rollout.mask = "shown_mask:odd"\n')
    (tmp_path / "shown_mask.py").write_text(
        "def odd(turns):\n"
        "    return [[i % 2 == 1 for i in range(len(t.completion.token_ids))] for t in turns]\n"
    )
    shown = show("demo", "1", "--tokens", "--trust")
    assert shown.exit_code == 0, shown.output
    assert [shown.stdout.count(f"  {mark}   -1.000  v0") for mark in "?+-"] == [0, 2, 2]


def test_without_a_tokenizer_messages_are_shown_with_a_note(run: Path) -> None:
    (run / "config.toml").write_text("")
    shown = show("demo", "2")
    assert shown.exit_code == 0
    assert "tokenizer of the run can't be read" in shown.stderr
    assert "no idea" in shown.stdout


def test_the_unfinished_step_of_a_killed_run_is_shown(run: Path) -> None:
    file = run / "trajectories" / "step_5.jsonl"
    killed = group("3*3", [chain(0.0, turn(), stop=StopReason.TURN_LIMIT)])
    write_chains(file, [killed], packed=False)
    with file.open("ab") as torn:
        torn.write(b'{"v":1,"kind":"traj')
    assert "turn_limit" in show("demo").output


def test_a_file_of_saved_chains_is_shown_like_a_run(tmp_path: Path) -> None:
    file = tmp_path / "chains.jsonl"
    RunResult(groups=tuple(GROUPS)).save(file)
    assert "8*9/0/1" in show(str(file)).output
    assert "6*7/0/1" in show(str(file), "--max-reward", "0").output
    assert "<Trajectory 6*7/0/1: reward 0.00" in show(str(file), "2").output
    assert "no idea" in show(str(file), "6*7/0/1").stdout
    assert "turn 0: 3 tokens of context" in show(str(file), "1", "--tokens").output
    steps = show(str(file), "--step", "3")
    assert (steps.exit_code, "without steps" in steps.output) == (2, True)
