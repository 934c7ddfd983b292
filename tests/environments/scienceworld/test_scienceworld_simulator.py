"""The environment on the real simulator: what it shows, scores and lists."""

import json
import re
from collections.abc import Generator
from importlib.metadata import version
from pathlib import Path

import pytest
from tests.environments.kit_play import play
from tests.environments.scienceworld.scienceworld_play import (
    acting,
    gold_score,
    kit,
    needs_simulator,
    task,
)

from agentfly.environments import Say, Scene, call
from agentfly.environments.scienceworld import SCIENCEWORLD, ScienceWorld, players
from agentfly.environments.scienceworld.players import expert_path, gold_path
from agentfly.environments.scienceworld.simulator.java import package_folder
from agentfly.environments.scienceworld.simulator.world import World
from agentfly.environments.scienceworld.tasks import SIMPLIFICATIONS, VARIATIONS, Split, variations
from agentfly.errors import EnvError
from agentfly.testing import check_environment
from agentfly.types import EnvSpec, Seed, Step, StopReason, ToolStatus

pytestmark = needs_simulator

SPLITS: tuple[Split, ...] = ("train", "dev", "test")
THING = {"tasks": ["find-non-living-thing"], "simplifications": ["easy"], "variations": 2}
"""The easiest task: teleport to the kitchen, focus on anything, move it to a box."""


def test_all_is_there() -> None:
    assert SCIENCEWORLD.requires() is None


def test_the_table_of_tasks_is_the_simulators_own() -> None:
    published = json.loads((package_folder() / "tasks.json").read_text())
    assert {one["task_name"] for one in published} == set(VARIATIONS)
    world = World()
    world.load("find-plant", 0, "")
    for split in SPLITS:
        listed = world._connection.call(world._me, f"getVariations{split.title()}", seconds=60)
        told = world._connection.call(str(listed), "toString", seconds=60)
        assert told == str(list(variations("find-plant", split)))
    counts = {
        name: world._connection.call(world._me, "getTaskMaxVariations", name, seconds=60)
        for name in VARIATIONS
    }
    known = world._connection.call(world._me, "getPossibleSimplifications", seconds=60)
    world.close()
    assert counts == dict(VARIATIONS)
    assert {"easy", *str(known).split(", ")} == set(SIMPLIFICATIONS)


async def test_it_keeps_the_contract_of_environments() -> None:
    actions = ["look around", "fly", "teleport to kitchen", "focus on painting", "open fridge"]
    spec = EnvSpec(ScienceWorld, (("show", ("look", "inventory", "task")),))
    await check_environment(spec, task("find-non-living-thing", 0, "easy"), actions)


def test_a_step_reports_points_and_states() -> None:
    env = ScienceWorld()
    first = env.reset(task("find-non-living-thing", 0, "easy"), Seed(0)).observation
    assert first.startswith("Your task is to find a(n) non-living thing.")
    assert "\nThis room is called the hallway." in first
    start = env.score
    away = env.step("teleport to kitchen")
    env.step("teleport to hallway")
    again = env.step("teleport to kitchen")
    assert again.state_key == away.state_key != env.step("pick up lighter").state_key
    assert again.reward == 0.0
    rewards = [away.reward, *(env.step(a).reward for a in ("focus on lighter",))]
    last = env.step("move lighter to red box")
    assert last.done
    assert last.info == {"score": 100, "moves": 6, "wrong_focus": False}
    total = sum(reward or 0.0 for reward in (*rewards, last.reward))
    assert total == pytest.approx((100 - start) / 100)
    assert env.step("look around").observation == "The task is over."
    env.close()


@pytest.mark.parametrize(("penalty", "left"), [(False, 0), (True, -100)])
def test_a_wrong_focus_ends_the_task(penalty: bool, left: int) -> None:
    env = ScienceWorld(penalty=penalty)
    env.reset(task("find-plant", 0, "easy"), Seed(0))
    env.step("teleport to kitchen")
    before = env.score
    assert before > 0
    step = env.step("focus on fridge")
    assert step.done
    assert step.info["wrong_focus"]
    assert env.score == left
    assert step.reward == pytest.approx((left - before) / 100)
    env.close()


def test_moves_are_limited() -> None:
    env = ScienceWorld(max_moves=2)
    env.reset(task("find-plant", 0, "easy"), Seed(0))
    actions = ("look around", "teleport to kitchen", "inventory", "teleport to hallway")
    assert [env.step(action).done for action in actions] == [False, False, False, True]
    env.close()


def test_what_is_not_understood_is_answered_with_a_suggestion() -> None:
    env = ScienceWorld(show=("inventory",))
    env.reset(task("find-plant", 0, "easy"), Seed(0))
    said = env.step("telport to kitchn").observation
    assert said.startswith("No known action matches that input. Did you mean: teleport ")
    assert "In your inventory, you see:" in said
    assert "Did you mean" not in env.step("xyzzy").observation
    assert "teleport OBJ" in env.things()
    assert "door to kitchen" in env.things()
    assert "teleport kitchen" in env.valid_actions() or "teleport to kitchen" in env.valid_actions()
    env.close()
    with pytest.raises(EnvError, match="call reset"):
        env.step("look around")


def test_no_number_after_an_ambiguous_action_is_an_invalid_one() -> None:
    env = ScienceWorld()
    env.reset(task("find-plant", 0), Seed(0))

    def answers(action: str) -> Step:
        asked = env.step("open door")
        assert asked.observation.startswith("Ambiguous request")
        assert not asked.invalid
        return env.step(action)

    wrong = answers("fly to the moon")
    assert wrong.observation.startswith("Unknown action.")
    assert "Did you mean" not in wrong.observation
    meant = answers("opn door to kitchen")
    assert "Did you mean: open door to kitchen" in meant.observation
    assert [wrong.invalid, meant.invalid, answers("99").invalid] == [True] * 3
    # An empty answer cancels, as the question says.
    assert [answers("").invalid, env.step("").invalid, answers("0").invalid] == [False, True, False]
    env.close()


def test_a_room_can_be_shown_when_it_is_entered() -> None:
    env = ScienceWorld(show=("room",))
    first = env.reset(task("find-non-living-thing", 0, "easy"), Seed(0)).observation
    assert first.count("This room is called the hallway.") == 1
    kitchen = "You teleport to the kitchen.\nThis room is called the kitchen. In it, you see:"
    assert env.step("teleport to kitchen").observation.startswith(kitchen)
    assert env.step("pick up lighter").observation == "You move the lighter to the inventory."
    assert "This room is called the hallway." in env.step("teleport to hallway").observation
    env.reset(task("find-non-living-thing", 0, "easy"), Seed(0))
    assert env.step("inventory").observation.startswith("In your inventory, you see:")
    env.close()


def test_valid_actions_can_be_shown() -> None:
    env = ScienceWorld(show=("actions",))
    said = env.reset(task("find-plant", 0, "easy"), Seed(0)).observation
    assert "You can: " in said
    assert "focus on picture" in said
    env.close()


async def test_players_play_through_the_agent() -> None:
    made = kit(**THING)
    row = next(iter(made.tasks()))
    golden = await play(made, row, made.gold)
    expert = await play(made, row, made.expert)
    for trajectory in (golden, expert):
        assert trajectory.error is None
        assert trajectory.stop is StopReason.TOOL_ENDED
        assert trajectory.score is not None
        assert trajectory.score.value == 1.0
        assert trajectory.score.parts["score"] == 100
        assert trajectory.score.parts["won"] == 1.0
    assert len(expert.turns) == 3 < len(golden.turns)


async def test_the_players_say_actions_in_text() -> None:
    made = kit(**THING, actions="text")
    trajectory = await play(made, next(iter(made.tasks())), made.expert)
    assert trajectory.stop is StopReason.ENV_ENDED
    assert trajectory.reward == 1.0
    said = [turn.message.content for turn in trajectory.turns]
    assert said[0] == "teleport to kitchen"
    assert said[1].startswith("focus on ")
    assert not any(turn.invalid or turn.message.tool_calls for turn in trajectory.turns)


async def test_actions_in_text_that_are_not_understood_are_invalid() -> None:
    def player(scene: Scene) -> Generator[Say, str, None]:
        yield Say("flap your wings")
        while True:
            yield Say("look around")

    made = kit(**THING, actions="text", max_turns=3)
    trajectory = await play(made, next(iter(made.tasks())), player)
    assert trajectory.stop is StopReason.TURN_LIMIT
    assert [turn.invalid for turn in trajectory.turns] == [True, False, False]
    assert trajectory.turns[0].replies[0].content.startswith("No known action matches that input.")
    assert trajectory.turns[0].reward == 0.0


async def test_actions_that_are_not_understood_do_not_end_a_chain() -> None:
    made = kit(**THING)
    row = next(iter(made.tasks()))
    path = expert_path(str(row["task"]), int(str(row["variation"])), "easy")
    trajectory = await play(made, row, acting(*["flap your wings"] * 6, *path))
    assert trajectory.stop is StopReason.TOOL_ENDED
    assert trajectory.reward == 1.0
    statuses = [result.status for turn in trajectory.turns for result in turn.results]
    assert statuses == [ToolStatus.REFUSED] * 6 + [ToolStatus.OK] * len(path)


async def test_the_expert_names_things_as_observations_do() -> None:
    made = kit(tasks=["find-animal"], simplifications=["easy"], variations=1, show=["room"])
    row = next(iter(made.tasks()))
    trajectory = await play(made, row, made.expert)
    seen = trajectory.messages[-1].content
    for turn in trajectory.turns:
        action = json.loads(turn.message.tool_calls[0].arguments)["action"]
        if not action.startswith("teleport"):
            for name in re.split(r"^(?:focus on|pick up|move) | to ", action):
                assert name in seen, action
        seen += turn.replies[0].content
    assert trajectory.reward == 1.0


def test_the_expert_picks_up_a_flower_pot_before_it_focuses_on_the_plant() -> None:
    _, pick_up, focus, *_ = expert_path("find-plant", 0, "easy")
    assert pick_up.startswith("pick up flower pot ")
    assert focus.startswith("focus on ")


def test_a_path_that_fails_by_names_as_shown_stays_as_it_is(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(players, "as_shown", lambda action, observation: "focus on air")
    path = expert_path("find-non-living-thing", 5, "easy")
    assert path == list(players.shorten_path(gold_path("find-non-living-thing", 5, "easy")))


async def test_a_random_player_does_valid_things() -> None:
    made = kit(**THING, max_turns=4)
    trajectory = await play(made, next(iter(made.tasks())), made.random)
    assert trajectory.error is None
    said = [turn.results[0].observation for turn in trajectory.turns]
    assert said
    assert not any("No known action" in one for one in said)


async def test_helpers_list_and_a_wrong_focus_is_worth_nothing() -> None:
    made = kit(tasks=["find-plant"], simplifications=["easy"], variations=1)

    def player(scene: Scene) -> Generator[Say, str, None]:
        things = yield call("things")
        assert "Things (OBJ): agent" in things
        listed = yield call("valid", about="picture")
        assert "focus on picture" in listed
        assert "focus on agent" not in listed
        none = yield call("valid", about="elephant")
        assert none == "No valid action contains 'elephant'."
        yield call("act", action="focus on hallway")
        yield Say("Over.")

    trajectory = await play(made, next(iter(made.tasks())), player)
    assert trajectory.error is None
    assert trajectory.stop is StopReason.TOOL_ENDED
    assert trajectory.reward == 0.0


async def test_a_chain_that_stops_early_keeps_its_points() -> None:
    made = kit(**THING)
    row = next(iter(made.tasks()))
    trajectory = await play(made, row, acting("teleport to kitchen", "focus on painting"))
    assert trajectory.score is not None
    assert 0.0 < trajectory.score.value < 1.0
    assert trajectory.score.per_turn is not None
    assert trajectory.score.per_turn[1] > 0.0


def test_paths_are_kept_on_disk(own_cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = gold_path("find-non-living-thing", 3, "easy")
    shown = expert_path("find-non-living-thing", 3, "easy")
    folder = own_cache / "scienceworld" / version("scienceworld")
    file = folder / "find-non-living-thing" / "3-easy.json"
    assert json.loads(file.read_text()) == path
    monkeypatch.setattr(players, "World", None)  # no simulator is asked again
    assert gold_path("find-non-living-thing", 3, "easy") == path
    assert expert_path("find-non-living-thing", 3, "easy") == shown
    monkeypatch.undo()
    for unreadable in ("[1", "[]"):
        file.write_text(unreadable)
        assert gold_path("find-non-living-thing", 3, "easy")
        assert isinstance(json.loads(file.read_text()), list)


@pytest.mark.parametrize(
    ("task", "simplifications"),
    [
        ("find-plant", ""),
        pytest.param("lifespan-longest-lived", "openDoors", marks=pytest.mark.slow),
    ],
)
def test_gold_paths_score_full_marks(task: str, simplifications: str) -> None:
    assert gold_score(task, 1, simplifications) == 100


@pytest.mark.parametrize("penalty", [False, True])
async def test_without_partial_credit_only_a_solved_task_is_rewarded(penalty: bool) -> None:
    chosen = {"tasks": ["find-plant"], "simplifications": ["easy"], "variations": 1}
    made = kit(**chosen, partial_credit=False, penalty=penalty)
    row = next(iter(made.tasks()))
    early = await play(made, row, acting("teleport to greenhouse"))
    wrong = await play(made, row, acting("focus on hallway"))
    solved = await play(made, row, made.expert)
    assert [early.reward, wrong.reward, solved.reward] == [0.0, -1.0 if penalty else 0.0, 1.0]
    assert early.score is not None
    assert early.score.parts["score"] > 0
