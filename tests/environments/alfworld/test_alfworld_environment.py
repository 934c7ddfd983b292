"""The environment behind its tools and rewards."""

import asyncio
import json
from collections.abc import Generator
from pathlib import Path

import pytest
from tests.environments.alfworld.alfworld_play import commanding, kit, play
from tests.environments.alfworld.alfworld_rooms import kitchen

from agentfly.environments import Say, Scene, call
from agentfly.environments.alfworld import Alfworld, AlfworldTextWorld
from agentfly.environments.alfworld.engine import textworld
from agentfly.environments.alfworld.engine.game import Game
from agentfly.environments.alfworld.engine.goal import TASK_TYPES, Goal
from agentfly.environments.alfworld.engine.solver import solve
from agentfly.environments.alfworld.environment import OVER
from agentfly.environments.alfworld.tasks import Row, load_script
from agentfly.errors import ConfigError, EnvError
from agentfly.resources import EnvironmentManager
from agentfly.testing import check_environment
from agentfly.types import EnvSpec, Seed, StopReason, Task, ToolStatus

SMALL = {"size": "small", "games": 12, "eval_games": 6}


def solution(row: Row) -> list[str]:
    found = solve(Game.of(load_script(row)))
    assert found
    return found


@pytest.mark.parametrize("number", range(6))
async def test_it_keeps_the_contract_of_environments(number: int) -> None:
    row = list(kit(**SMALL).tasks())[number]
    actions = ["look", "fly", *solution(row)]
    for options in ((), (("show_commands", True), ("subgoals", True))):
        await check_environment(EnvSpec(Alfworld, options), Task.from_row(row), actions)


async def test_a_solution_wins_and_ends_the_chain() -> None:
    made = kit(**SMALL)
    for row in made.tasks():
        trajectory = await play(made, row, made.gold)
        assert trajectory.stop is StopReason.TOOL_ENDED
        assert trajectory.score is not None
        assert trajectory.score.value == 1.0
        assert trajectory.score.parts["won"] == 1.0
        assert len(trajectory.turns) == len(solution(row))
        assert [turn.reward for turn in trajectory.turns[:-1]] == [0.0] * (
            len(trajectory.turns) - 1
        )


async def test_a_game_that_is_not_won_is_worth_nothing() -> None:
    made = kit(**SMALL)
    row = next(iter(made.tasks()))
    for commands in (solution(row)[:-1], []):
        trajectory = await play(made, row, commanding(*commands))
        assert trajectory.stop is StopReason.ANSWERED
        assert trajectory.reward == 0.0


async def test_subgoals_are_rewarded_turn_by_turn() -> None:
    made = kit(**SMALL, subgoals=True)
    for row in made.tasks():
        won = await play(made, row, made.gold)
        assert won.score is not None
        assert won.score.value == pytest.approx(1.0)
        assert won.score.per_turn is not None
        assert sum(value > 0 for value in won.score.per_turn) >= 2
        taken = next(n for n, c in enumerate(solution(row)) if c.startswith("take"))
        some = await play(made, row, commanding(*solution(row)[: taken + 1]))
        assert some.reward is not None
        assert 0 < some.reward < 1
        nothing = await play(made, row, commanding())
        assert nothing.reward == 0.0


async def test_impossible_commands_cost_their_turn_and_not_the_game() -> None:
    made = kit(**SMALL, subgoals=True, penalty=0.1)
    row = next(iter(made.tasks()))
    trajectory = await play(made, row, commanding("fly", *solution(row), "unused"))
    assert trajectory.score is not None
    assert trajectory.score.per_turn is not None
    first, *others = trajectory.score.per_turn
    assert first == -0.1
    assert sum(others) == pytest.approx(1.0)
    assert min(others) >= 0.0
    assert trajectory.reward == 1.0
    with pytest.raises(ValueError, match="penalty has no effect here: it is for rewards of turns"):
        kit(**SMALL, penalty=0.1)


async def test_impossible_commands_in_a_row_do_not_end_the_game() -> None:
    made = kit(**SMALL)
    row = next(iter(made.tasks()))
    trajectory = await play(made, row, commanding(*["fly"] * 8, *solution(row)))
    assert trajectory.stop is StopReason.TOOL_ENDED
    assert trajectory.reward == 1.0
    statuses = [result.status for turn in trajectory.turns for result in turn.results]
    assert statuses[:8] == [ToolStatus.REFUSED] * 8
    assert set(statuses[8:]) == {ToolStatus.OK}


async def test_what_is_undone_is_taken_back() -> None:
    made = kit(**SMALL, subgoals=True, task_types=["pick_and_place_simple"])
    row = next(iter(made.tasks()))
    take = next(c for c in solution(row) if c.startswith("take"))
    before = solution(row)[: solution(row).index(take) + 1]
    _, item, number, _, receptacle = take.split(maxsplit=4)
    back = f"move {item} {number} to {receptacle}"
    trajectory = await play(made, row, commanding(*before, back, take, back))
    assert [turn.reward for turn in trajectory.turns[-5:-1]] == [0.5, -0.5, 0.5, -0.5]
    assert trajectory.reward == 0.0


def test_rewards_add_up_to_one_even_if_half_of_it_was_done_before(tmp_path: Path) -> None:
    goal = Goal(task_type="pick_two_obj_and_place", item="apple", receptacle="countertop")
    script = kitchen(goal)
    game = {"split": "train", "task_dir": "two", "trial": "1", "desc": script.task}
    line = json.dumps({**game, "solvable": True, "pddl_problem": script.text})
    (tmp_path / "train.jsonl").write_text(line)
    (row,) = kit(data=str(tmp_path)).tasks()
    env = Alfworld(subgoals=True, data=str(tmp_path))
    env.reset(Task.from_row(row), Seed(0))
    rewards = [env.step(command).reward for command in solution(row)]
    assert rewards == [0.0, 0.0, 0.5, 0.0, 0.5]


def test_the_first_observation_is_compact() -> None:
    row = next(iter(kit(**SMALL).tasks()))
    said = Alfworld().reset(Task.from_row(row), Seed(0)).observation
    assert said.startswith("You are in the middle of a room.")
    assert said.endswith(f"Your task is to: {row['goal']}")


def test_commands_are_shown_on_request_or_always() -> None:
    row = next(iter(kit(**SMALL).tasks()))
    env = Alfworld(show_commands=True)
    said = env.reset(Task.from_row(row), Seed(0)).observation
    assert said.endswith("\nYou can: " + ", ".join(env.commands()))
    assert env.step("look").observation.endswith(", ".join(env.commands()))
    assert [tool.spec.name for tool in kit(show_commands=True).tools] == ["act"]
    assert [tool.spec.name for tool in kit().tools] == ["act", "commands"]


async def test_the_helper_lists_what_is_possible() -> None:
    made = kit(**SMALL)
    row = next(iter(made.tasks()))
    heard = []

    def asking(scene: Scene) -> Generator[Say, str, None]:
        heard.append((yield call("commands")))
        yield Say("Thanks.")

    await play(made, row, asking)
    env = Alfworld()
    env.reset(Task.from_row(row), Seed(0))
    assert heard == [", ".join(env.commands())]


def test_equal_states_have_equal_keys_and_nothing_that_happens_keeps_it() -> None:
    row = next(iter(kit(**SMALL).tasks()))
    env = Alfworld()
    env.reset(Task.from_row(row), Seed(0))
    one = env.step("fly").state_key
    assert env.step("look").state_key == one
    assert env.step(env.commands()[0]).state_key != one


def test_after_the_end_nothing_happens_and_nothing_is_rewarded_again() -> None:
    row = next(iter(kit(**SMALL).tasks()))
    env = Alfworld()
    env.reset(Task.from_row(row), Seed(0))
    steps = [env.step(command) for command in solution(row)]
    assert (steps[-1].done, steps[-1].reward, env.won) == (True, 1.0, True)
    again = env.step("look")
    assert (again.observation, again.reward, again.done) == (OVER, 0.0, True)
    env.reset(Task.from_row(row), Seed(0))
    assert not env.won


def test_without_a_game_it_says_so() -> None:
    with pytest.raises(EnvError, match="call reset"):
        Alfworld().step("look")


async def test_many_chains_play_at_once_without_meeting() -> None:
    made = kit(size="medium", games=60)
    async with EnvironmentManager() as pool, asyncio.TaskGroup() as group:
        played = [group.create_task(play(made, row, made.gold, pool)) for row in made.tasks()]
    assert [task.result().reward for task in played] == [1.0] * 60


def test_training_and_evaluation_share_no_game() -> None:
    made = kit(size="small", games=60, eval_games=60)
    tasks, held_out = list(made.tasks()), list(made.eval_tasks())
    assert len(tasks) == len(held_out) == 60
    assert not {row["id"] for row in tasks} & {row["id"] for row in held_out}
    assert {row["task_type"] for row in tasks} == set(TASK_TYPES)


def test_without_the_package_the_reference_names_the_extra(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(textworld, "find_spec", lambda name: None)
    row = next(iter(kit(**SMALL).tasks()))
    with pytest.raises(ConfigError, match=r"agentfly\[alfworld\]"):
        AlfworldTextWorld().reset(Task.from_row(row), Seed(0))
    with pytest.raises(ConfigError, match=r"agentfly\[alfworld\]"):
        kit(engine="textworld")


@pytest.mark.skipif(not textworld.is_installed(), reason="needs the package alfworld")
@pytest.mark.timeout(400)
async def test_textworld_plays_the_same_in_a_process_of_its_own() -> None:
    options = {**SMALL, "show_commands": True, "subgoals": True}
    through, fast = kit(**options, engine="textworld"), kit(**options)
    row = list(fast.tasks())[2]
    async with EnvironmentManager() as pool:
        expected, found = [await play(made, row, made.gold, pool) for made in (fast, through)]
        assert "AlfworldTextWorld" in pool.snapshot().text
    assert found.reward == expected.reward == pytest.approx(1.0)
    for one, other in zip(expected.turns, found.turns, strict=True):
        assert one.results == other.results
