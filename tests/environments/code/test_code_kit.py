"""The kit as a run uses it: players play real tasks, expert and gold to full marks."""

import json
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.environments.code.code_play import kit, observations, play, saying
from tests.environments.code.test_code_tasks import APPS, GSM8K, HUMANEVAL, MBPP, write

from agentfly.environments import Say, call, find_definition
from agentfly.environments.code import CODE
from agentfly.types import StopReason

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="needs Linux namespaces")

NEARLY = "def f(n):\n    return n if n < 2 else 0"
ROW: dict[str, Any] = {
    "id": "t",
    "question": "Write f.",
    "tests": [{"call": f"f({n})", "expected": n} for n in range(4)],
    "solution": "def f(n):\n    return n",
}


def test_it_is_in_the_catalog() -> None:
    assert find_definition("code") is CODE
    assert CODE.requires() is None


@pytest.mark.parametrize("kind", ["tools", "code"])
@pytest.mark.parametrize("tool", ["code_interpreter", "python"])
@pytest.mark.parametrize("tasks", ["math", "programs"])
async def test_the_expert_has_full_marks(tasks: str, tool: str, kind: str) -> None:
    made = kit(tasks=tasks, tool=tool, levels=(1, 2, 3), count=5, eval_count=4)
    for row in [*made.tasks(), *made.eval_tasks()]:
        trajectory = await play(made, row, kind=kind)
        assert trajectory.stop is StopReason.ANSWERED, trajectory.error
        assert trajectory.reward == 1.0, (row["question"], observations(trajectory))
        assert len(trajectory.turns) >= 2, "it used the tool"


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize(("tasks", "player"), [("math", "expert"), ("programs", "gold")])
async def test_nobody_who_knows_the_answer_misses_a_task(tasks: str, player: str) -> None:
    made = kit(tasks=tasks, levels=(1, 2, 3), count=400)
    for row in [*made.tasks(), *made.eval_tasks()]:
        assert (await play(made, row, getattr(made, player))).reward == 1.0, row["id"]


async def test_easy_sums_take_one_short_call() -> None:
    made = kit(count=1)
    (row,) = made.tasks()
    trajectory = await play(made, row)
    (turn, answer) = trajectory.turns
    assert json.loads(turn.message.tool_calls[0].arguments) == {"code": row["cells"][0]}
    assert observations(trajectory) == [row["answer"]]
    assert answer.message.content == row["answer"]


async def test_the_second_level_keeps_variables_over_two_calls() -> None:
    made = kit(levels=(2,), count=1)
    (row,) = made.tasks()
    trajectory = await play(made, row)
    assert observations(trajectory) == ["(no output)", row["answer"]]
    assert trajectory.reward == 1.0


@pytest.mark.parametrize("kind", ["tools", "code"])
async def test_a_random_player_answers_what_it_computed_and_is_seldom_right(kind: str) -> None:
    made = kit(levels=(2,), count=8)
    rewards = []
    for row in made.tasks():
        trajectory = await play(made, row, made.random, kind=kind)
        assert trajectory.stop is StopReason.ANSWERED, trajectory.error
        assert [trajectory.turns[-1].message.content] == observations(trajectory)
        rewards.append(trajectory.reward)
    assert sum(reward or 0.0 for reward in rewards) <= 2
    assert kit(tasks="programs").random is None


@pytest.mark.parametrize("kind", ["tools", "code"])
@pytest.mark.parametrize(
    ("tasks", "record"), [("humaneval", HUMANEVAL), ("mbpp", MBPP), ("apps", APPS)]
)
async def test_files_play_too(
    tasks: str, record: dict[str, Any], kind: str, tmp_path: Path
) -> None:
    file = write(tmp_path / "rows.jsonl", record)
    made = kit(tasks=tasks, file=file, eval_file=file)
    (row,) = made.tasks()
    for player in (made.expert, made.gold):
        trajectory = await play(made, row, player, kind=kind)
        assert trajectory.reward == 1.0, (trajectory.error, trajectory.metadata)


@pytest.mark.skipif(not GSM8K.exists(), reason="the data is not here")
async def test_gsm8k_plays_too() -> None:
    made = kit(tasks="gsm8k", file=GSM8K, count=10, eval_count=1)
    for row in made.tasks():
        assert (await play(made, row, made.gold)).reward == 1.0
    scores = [(await play(made, row)).reward for row in made.tasks()]
    assert sum(score or 0 for score in scores) >= 8, "a solution's last step is mostly the answer"


async def test_partial_marks_or_all_or_nothing() -> None:
    answer = saying(Say(f"```python\n{NEARLY}\n```"))
    trajectory = await play(kit(tasks="programs"), ROW, answer)
    assert trajectory.reward == 0.5
    assert trajectory.metadata["first_failed_test"] == "f(2) gave 0"
    trajectory = await play(kit(tasks="programs", partial=False), ROW, answer)
    assert trajectory.reward == 0.0
    assert trajectory.score is not None
    assert trajectory.score.parts == {"passed": 0.5}
    asserted = {**ROW, "tests": ["assert f(2) == 4, 'four'"]}
    trajectory = await play(kit(tasks="programs"), asserted, answer)
    said = "AssertionError: four, in: assert f(2) == 4, 'four'"
    assert trajectory.metadata["first_failed_test"] == said


async def test_no_code_is_zero_and_a_broken_task_is_no_score() -> None:
    made, silent = kit(tasks="programs"), saying(Say("I can't."))
    assert (await play(made, ROW, silent)).reward == 0.0
    broken = await play(made, {**ROW, "tests": []}, silent)
    assert broken.stop is StopReason.REWARD_FAILED
    assert broken.reward is None


async def test_what_the_chain_did_in_its_sandbox_does_not_reach_the_judge() -> None:
    trap = "import builtins, json\nbuiltins.len = lambda x: 0\nopen('solution.py', 'w').write('f')"
    player = saying(call("code_interpreter", code=trap), Say(f"```python\n{NEARLY}\n```"))
    assert (await play(kit(tasks="programs"), ROW, player)).reward == 0.5
