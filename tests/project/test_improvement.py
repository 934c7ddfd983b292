"""The benchmark that measures what reinforcement learning adds to imitation."""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest
from benchmarks import improvement
from benchmarks.improvement import Example, Level, problems, table
from tests.observe.finished_groups import scored, turn
from tests.patience import PATIENCE

from agentfly.observe import read_metrics, read_trajectories
from agentfly.types import Message, TokenStream

ROOT = Path(__file__).parents[2]
EXPERT = Level(
    who="expert",
    reward=1.0,
    low=0.98,
    high=1.0,
    solved=1.0,
    solved_low=0.98,
    solved_high=1.0,
    invalid=0.0,
    unknown=0.0,
)


def level(who: str, solved: float, spread: float = 0.05) -> Level:
    return replace(
        EXPERT, who=who, solved=solved, solved_low=solved - spread, solved_high=solved + spread
    )


@pytest.mark.parametrize(
    ("warm", "after", "spread", "found"),
    [
        (0.30, 0.56, 0.05, 0),
        (0.30, 0.50, 0.05, 1),  # +0.20, with the intervals apart
        (0.80, 0.91, 0.05, 0),  # half the gap to the expert
        (0.30, 0.56, 0.14, 1),  # the intervals overlap
        (0.30, 0.35, 0.05, 2),
    ],
)
def test_a_clear_gain_is_large_and_has_intervals_apart(
    warm: float, after: float, spread: float, found: int
) -> None:
    levels = [level("warm start", warm, spread), level("after RL", after, spread), EXPERT]
    assert len(problems(levels)) == found


def report(seed: int, *levels: Level) -> dict[str, Any]:
    return {
        "command": "python -m benchmarks.improvement search",
        "seed": seed,
        "seconds": 600.0,
        "evaluation_seconds": 120.0,
        "warm_seconds": 300.0,
        "levels": [asdict(one) for one in levels],
    }


def test_further_seeds_are_rows_of_the_same_table() -> None:
    warm = replace(level("warm start", 0.3), greedy=0.28)
    first = report(0, warm, level("after RL", 0.6), EXPERT)
    wrong = replace(level("warm start", 0.35), invalid=0.125, unknown=None)
    second = report(1, wrong, level("after RL", 0.65), EXPERT)
    assert table([first, second]).splitlines() == [
        "`python -m benchmarks.improvement search`; warm start 5.0 minutes, training 10.0 minutes, "
        "evaluations before its end 2.0 minutes",
        "",
        "| who | held-out reward (95% interval) | solved (95% interval) | solved greedily "
        "| invalid calls | unknown tools |",
        "|---|---|---|---|---|---|",
        "| warm start | 1.00 (0.98 to 1.00) | 30% (25% to 35%) | 28% | 0.0% | 0.0% |",
        "| after RL | 1.00 (0.98 to 1.00) | 60% (55% to 65%) | – | 0.0% | 0.0% |",
        "| expert | 1.00 (0.98 to 1.00) | 100% (98% to 100%) | – | 0.0% | 0.0% |",
        "| warm start, seed 1 | 1.00 (0.98 to 1.00) | 35% (30% to 40%) | – | 12.5% | – |",
        "| after RL, seed 1 | 1.00 (0.98 to 1.00) | 65% (60% to 70%) | – | 0.0% | 0.0% |",
    ]


def test_columns_that_nobody_has_are_left_out() -> None:
    levels = [replace(level(who, 0.3), unknown=None) for who in ("warm start", "after RL")]
    head, rule, *rows = table([report(0, *levels)]).splitlines()[2:]
    assert head.endswith("| solved (95% interval) | invalid calls |")
    assert rule == "|---|---|---|---|"
    assert rows[0] == "| warm start | 1.00 (0.98 to 1.00) | 30% (25% to 35%) | 0.0% |"


def test_the_time_of_a_run_has_no_pauses(tmp_path: Path) -> None:
    metrics = tmp_path / "metrics.jsonl"
    parts: list[dict[str, float]] = [
        {"eval/reward": 0.5},
        {"time/evaluating": 3.0, "time/step": 10.0, "time/sampling": 7.0},
        {"time/step": 20.0, "time/saving": 1.0, "time/publishing": 0.5},
    ]
    lines = [
        {"v": 1, "kind": "metrics", "step": step, "time": 5000.0 * step, "metrics": part}
        for step, part in enumerate(parts)
    ]
    metrics.write_text("".join(json.dumps(line) + "\n" for line in lines))
    assert improvement._seconds(metrics, improvement.TRAINING) == 31.5
    assert improvement._seconds(metrics, improvement.EVALUATION) == 3.0
    assert improvement._seconds(metrics, improvement.IMITATION) == 30.0


def test_parts_of_the_reward_and_kinds_of_tasks_have_a_table_of_their_own() -> None:
    warm = replace(level("warm start", 0.3), parts={"em": 0.3}, solved_by={"1": 0.4, "2": 0.2})
    expert = replace(EXPERT, parts={"em": 1.0, "hit": 0.5})
    assert table([report(0, warm, expert)]).split("\n\n")[2].splitlines() == [
        "| mean | warm start | expert |",
        "|---|---|---|",
        "| em | 0.30 | 1.00 |",
        "| hit | – | 0.50 |",
        "| solved: 1 | 0.40 | – |",
        "| solved: 2 | 0.20 | – |",
    ]


def test_a_run_that_was_interrupted_is_continued(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    commands: list[tuple[str, ...]] = []
    monkeypatch.setattr(improvement, "agentfly", lambda *words: commands.append(words))
    example = Example(name="search", folder=tmp_path, seed=2)
    improvement.run("sft", example, example.warm, {"data.files": ["a.jsonl"]})
    example.warm.mkdir()  # What a run leaves that is killed before it has begun.
    (example.warm / "config.toml").touch()
    improvement.run("sft", example, example.warm, {"data.files": ["a.jsonl"]})
    (example.warm / "run.json").touch()
    improvement.run("sft", example, example.warm, {"data.files": ["a.jsonl"]})
    begun = (
        "sft",
        "examples/search_warm.toml",
        f'folder="{tmp_path}"',
        'name="warm_seed2"',
        "seed=2",
        'data.files=["a.jsonl"]',
    )
    assert commands == [begun, begun, (*begun, "--resume")]


@pytest.mark.parametrize("name", ["nope", "code_interpreter_warm", "../examples/webshop", ""])
def test_only_examples_with_a_warm_start_are_taken(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "runs"
    monkeypatch.setattr("sys.argv", ["improvement", name, "--folder", str(folder)])
    with pytest.raises(SystemExit) as ended:
        improvement.main()
    assert ended.value.code == 2
    said = capsys.readouterr().err
    assert repr(name) in said
    assert "browser" in said
    assert "webshop" in said
    assert "_warm'" not in said.replace(repr(name), "")
    assert not folder.exists()


def test_the_command_of_a_result_names_seed_and_greedy_sampling(tmp_path: Path) -> None:
    first, second = (Example(name="search", folder=tmp_path, seed=seed) for seed in (0, 1))
    assert improvement._command(first, greedy=False) == "make improvement ENV=search"
    assert (
        improvement._command(second, greedy=True) == "make improvement ENV=search SEED=1 GREEDY=1"
    )


@pytest.mark.parametrize("name", improvement.example_names())
def test_an_example_s_commands_demonstrate_as_much_as_the_benchmark(
    name: str, tmp_path: Path
) -> None:
    text = (improvement.EXAMPLES / f"{name}.toml").read_text()
    counts = re.findall(r"envs demonstrate .* --count (\d+) ", text)
    assert [int(count) for count in counts] == [
        *Example(name=name, folder=tmp_path).demonstrations.values()
    ]


def test_players_are_compared_on_the_tasks_that_the_model_was_evaluated_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    groups = [scored(name, reward) for name, reward in (("a", 1.0), ("b", 0.0), ("c", 0.0))]
    played = [member for group in groups for member in group.members]
    evaluated = played[:2]
    monkeypatch.setattr(Example, "demonstrate", lambda *_: tmp_path / "expert.jsonl")
    monkeypatch.setattr(improvement, "read_trajectories", lambda _: played)
    monkeypatch.setattr(improvement, "_held_out_chains", lambda _: [evaluated])
    example = Example(name="code_interpreter", folder=tmp_path)
    assert improvement._played(example, "expert").solved == 0.5
    played.pop(0)
    with pytest.raises(SystemExit, match="it lacks a"):
        improvement._played(example, "expert")


def test_demonstrations_that_were_interrupted_are_begun_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Example, "environment", ["alfworld", "games=3"])
    example = Example(name="search", folder=tmp_path)
    (tmp_path / "half_expert.jsonl").write_text('{"v": 1, "kind": "chain", "run": "killed"}\n')
    chains = list(read_trajectories(example.demonstrate("expert", 2)))
    assert len(chains) == 2
    assert [file.name for file in tmp_path.iterdir()] == ["expert.jsonl"]


def test_seeds_that_run_at_once_share_one_file_of_demonstrations(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun: list[str] = []
    both = threading.Barrier(2)

    def demonstrate(*words: str) -> None:
        begun.append(words[0])
        time.sleep(0.2)
        Path(words[words.index("--out") + 1]).write_text("all of it")

    def of_seed(seed: int) -> str:
        both.wait()
        return (
            Example(name="alfworld", folder=tmp_path, seed=seed)
            .demonstrate("expert", 2)
            .read_text()
        )

    monkeypatch.setattr(improvement, "agentfly", demonstrate)
    with ThreadPoolExecutor() as threads:
        assert [*threads.map(of_seed, (1, 2))] == ["all of it"] * 2
    assert len(begun) == 1


LETTERS = """
from agentfly import reward
from agentfly.config import Settings
from agentfly.environments import EnvironmentDefinition, Kit, Say


@reward(range=(0, 1))
def letters(final_response: str) -> float:
    return final_response.count("e") / max(1, len(final_response))


def rows(count):
    return [{"question": f"Write the letter e. {number}"} for number in range(count)]


def play(scene):
    yield Say("eee")


def make(options):
    return Kit(
        tasks=lambda: rows(400), eval_tasks=lambda: rows(2), tools=(), reward=letters, expert=play
    )


GAME = EnvironmentDefinition(name="letters", summary="Write a letter.", options=Settings, make=make)
"""
LETTERS_WARM_TOML = """
name = "warm"
model.name = "tiny"
data = { files = ["../runs/letters_expert.jsonl"], retokenize = true }
"""
LETTERS_TOML = """
name = "letters"
model.name = "runs/letters_warm/model"
rollout = { tasks_per_step = 2, num_chains = 4, max_tokens = 8 }
train = { steps = 3, lr = 1e-4 }
eval = { every = 0, num_chains = 1 }

[[source]]
environment = "letters_game:GAME"
"""
IMPROVE = [sys.executable, "-m", "benchmarks.improvement", "letters"]


@pytest.mark.slow
def test_a_killed_benchmark_continues_where_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.copytree(ROOT / "benchmarks", tmp_path / "benchmarks")
    (tmp_path / "examples").mkdir()
    (tmp_path / "examples" / "letters.toml").write_text(LETTERS_TOML)
    (tmp_path / "examples" / "letters_warm.toml").write_text(LETTERS_WARM_TOML)
    (tmp_path / "letters_game.py").write_text(LETTERS)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    runs = tmp_path / "runs" / "letters_example"
    for stage in ("warm", "trained"):
        begun = subprocess.Popen(IMPROVE, cwd=tmp_path, start_new_session=True)
        until_written(runs / stage / "metrics.jsonl", '"step":1,')
        os.killpg(begun.pid, signal.SIGKILL)
        begun.wait()
    demonstrated = (runs / "expert.jsonl").stat().st_mtime_ns
    ended = subprocess.run([*IMPROVE, "--greedy"], cwd=tmp_path, capture_output=True, text=True)
    assert ended.returncode == 1, f"three steps are no clear gain: {ended.stderr}"
    assert "expected at least" in ended.stderr
    assert (runs / "expert.jsonl").stat().st_mtime_ns == demonstrated
    steps = [one.step for one in read_metrics(runs / "trained" / "metrics.jsonl")]
    assert steps == [0, 1, 2, 3, 3], "each step once, and the evaluations before and after"
    table = (tmp_path / "docs" / "results" / "letters" / "table.md").read_text()
    assert "solved greedily" in table
    assert "| after RL |" in table


def until_written(file: Path, text: str) -> None:
    deadline = time.monotonic() + PATIENCE
    while not (file.exists() and text in file.read_text()):
        assert time.monotonic() < deadline, f"{file} never had {text}"
        time.sleep(0.05)


def test_calls_actions_in_text_and_kinds_of_tasks_are_counted_apart(tmp_path: Path) -> None:
    example = Example(name="search", folder=tmp_path)
    texts = Example(name="webshop", folder=tmp_path)
    calls = [scored("a", 1.0).members[0], scored("b", 0.0).members[0]]
    solved = improvement._level(example, "after RL", calls)
    assert solved.solved_by == {"-": 0.5}
    assert solved.invalid_actions is None
    done = replace(turn(), replies=(Message(role="user", content="Done."),))
    turns = (replace(done, invalid=True), replace(done, index=1))
    acting = replace(calls[0], streams=(TokenStream(turns=turns),))
    counted = improvement._level(texts, "after RL", [acting])
    assert counted.invalid_actions == 0.5
    assert counted.invalid is None, "it has no calls"
    assert counted.solved_by == {}


def test_failed_demonstrations_end_the_benchmark_and_are_not_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "lost_game.py").write_text(LOST)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path), prepend=os.pathsep)
    monkeypatch.setattr(Example, "environment", ["lost_game:LOST"])
    example = Example(name="search", folder=tmp_path / "runs")
    example.folder.mkdir()
    with pytest.raises(SystemExit) as ended:
        example.demonstrate("expert", 2)
    assert ended.value.code == 1
    assert not list(example.folder.iterdir())


LOST = """
from agentfly import reward
from agentfly.config import Settings
from agentfly.environments import EnvironmentDefinition, Kit
from agentfly.errors import EngineError


def make(options):
    @reward
    def none(final_response: str) -> float:
        return 0.0

    def rows():
        return [{"question": "Where?"}]

    def play(scene):
        raise EngineError("there is no way")
        yield

    return Kit(tasks=rows, eval_tasks=rows, tools=(), reward=none, expert=play)


LOST = EnvironmentDefinition(name="lost", summary="Fails.", options=Settings, make=make)
"""


def test_a_command_that_the_system_killed_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    killed = tmp_path / "python"
    killed.write_text("#!/bin/sh\nkill -9 $$\n")
    killed.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(killed))
    with pytest.raises(
        SystemExit, match=r"agentfly train was ended by SIGKILL.*memory.* Repeat the call"
    ):
        improvement.agentfly("train", "examples/sums.toml")
