"""Evaluation with a real model: killed and resumed, of checkpoints by name, replayed, exported."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.patience import PATIENCE, wait_until
from typer.testing import CliRunner, Result

from agentfly.cli.main import app
from agentfly.observe.recorded_run import find_run

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1800)]

COMMAND = (
    *("eval", "tiny", "sums.jsonl", "--tools", "calculator", "--reward", "numeric_match"),
    *("-n", "2", "--max-tokens", "48", "--concurrent", "4", "--deterministic"),
)
RUN = """\
name = "sums"
deterministic = true
model.name = "tiny"
rollout = { tasks_per_step = 4, num_chains = 4, max_tokens = 48, max_turns = 2 }
train = { steps = 2, lr = 1e-3, minibatches = 2 }
eval = { num_chains = 1, every = 1 }
checkpoint = { every = 1, keep = 2 }
[[source]]
tasks = "sums.jsonl"
eval_tasks = "held_out.jsonl"
tools = ["calculator"]
reward = "numeric_match"
"""


def rows(start: int, count: int) -> str:
    numbers = [(a, 3 * a + 7) for a in range(start, start + count)]
    found = [{"question": f"What is {a}*{b}?", "answer": str(a * b)} for a, b in numbers]
    return "".join(json.dumps(row) + "\n" for row in found)


@pytest.fixture(scope="module", autouse=True)
def folder(tmp_path_factory: pytest.TempPathFactory) -> Any:
    home = tmp_path_factory.mktemp("real")
    # The run's files lie beside its settings, which is not the working directory.
    (home / "project").mkdir()
    for file in (home / "sums.jsonl", home / "project" / "sums.jsonl"):
        file.write_text(rows(12, 12))
    (home / "project" / "held_out.jsonl").write_text(rows(40, 4))
    (home / "project" / "run.toml").write_text(RUN)
    before = Path.cwd()
    os.chdir(home)
    yield home
    os.chdir(before)


def agentfly(*arguments: str) -> Result:
    done = CliRunner().invoke(app, [*arguments])
    assert done.exit_code == 0, done.output
    return done


def numbers(name: str) -> list[dict[str, Any]]:
    checkpoints = json.loads(Path("runs", name, "evaluation.json").read_text())["checkpoints"]
    return [{**row, "seconds": None} for one in checkpoints for row in one["rows"]]


def test_killed_and_resumed_it_gives_the_numbers_of_an_undisturbed_one() -> None:
    agentfly(*COMMAND, "--name", "whole")
    command = [sys.executable, "-m", "agentfly.cli", *COMMAND, "--name", "killed"]
    file = Path("runs/killed/trajectories/eval_0.jsonl")
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as child:
        wait_until(lambda: child.poll() is not None or (file.exists() and file.stat().st_size))
        child.send_signal(signal.SIGKILL)
        assert child.wait(PATIENCE) == -signal.SIGKILL, "it was killed in the middle"
    assert not Path("runs/killed/evaluation.json").exists()
    resumed = agentfly(*COMMAND, "--name", "killed", "--resume")
    assert "tasks are there already" in resumed.output
    assert numbers("killed") == numbers("whole")
    assert numbers("whole")[0]["chains"] == 24
    texts = [
        [chain.conversation for chain in find_run(name).evaluation(0)]
        for name in ("killed", "whole")
    ]
    assert sorted(map(str, texts[0])) == sorted(map(str, texts[1]))


@pytest.fixture(scope="module")
def trained(folder: Path) -> Path:
    agentfly("train", "project/run.toml")
    return folder / "runs" / "sums"


def test_checkpoints_by_name_are_those_of_the_run(trained: Path) -> None:
    done = agentfly("eval", "runs/sums@all", "--deterministic", "--name", "curve")
    (logged, curve) = (find_run(name).records for name in ("sums", "curve"))
    expected = {r.step: r.metrics["eval/reward"] for r in logged if "eval/reward" in r.metrics}
    assert {r.step: r.metrics["eval/reward"] for r in curve} == expected
    assert sorted(expected) == [0, 1, 2]
    assert "step 2" in done.output
    assert "training tasks" not in done.output
    warned = CliRunner().invoke(app, ["eval", "sums@2", "--training-tasks", "--count", "1"])
    assert "tasks are training tasks of" in warned.output
    compared = agentfly("eval", "--compare", "sums@0", "curve@0")
    assert "can't be distinguished" in " ".join(compared.output.split())


def test_adapters_are_evaluated_by_name(folder: Path) -> None:
    agentfly("train", "project/run.toml", "name=lora", "model.lora={rank=4}", "train.steps=1")
    assert list(Path("runs/lora/checkpoints/step_1").glob("adapter_model.*"))
    agentfly("eval", "lora@1", "--deterministic", "--name", "of-lora")
    (logged,) = [r for r in find_run("lora").records if r.step == 1 and "eval/reward" in r.metrics]
    (found,) = find_run("of-lora").records
    assert found.metrics["eval/reward"] == logged.metrics["eval/reward"]


def test_a_replay_gives_the_metrics_of_the_run(trained: Path) -> None:
    before = {path: path.stat().st_mtime_ns for path in trained.rglob("*") if path.is_file()}
    done = agentfly("train", "--replay", "sums")
    assert "The learner's metrics are the same as those that the run recorded." in done.output
    assert done.output.count("  learner ") == 2
    assert before == {path: path.stat().st_mtime_ns for path in before}
    other = agentfly("train", "--replay", "sums", "algorithm.name=rloo", "train.steps=1")
    assert other.output.count("  learner ") == 1


def test_the_model_is_exported_with_a_card_and_loads(trained: Path) -> None:
    agentfly("export", "sums@2", "--format", "hub", "--out", "hub")
    card = Path("hub/README.md").read_text()
    assert "after step 2 (these weights)" in card
    assert 'tools = ["calculator"]' in card
    assert "\nfolder = " not in card + Path("hub/agentfly.toml").read_text(), "no path of ours"
    assert Path("hub/reward.png").stat().st_size > 1000
    assert not list(Path("hub").glob("*.pt")), "no state of the learner"
    from transformers import AutoModelForCausalLM, AutoTokenizer

    model = AutoModelForCausalLM.from_pretrained("hub")
    assert model.num_parameters() == 1_082_496
    assert AutoTokenizer.from_pretrained("hub")("What is 2*3?")["input_ids"]
