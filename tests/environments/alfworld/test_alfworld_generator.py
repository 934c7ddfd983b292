"""Generated games: always the same, always winnable, and never in two splits."""

from collections import Counter
from collections.abc import Sequence
from random import Random

import pytest

from agentfly.environments.alfworld import household
from agentfly.environments.alfworld.engine.game import Game
from agentfly.environments.alfworld.engine.goal import TASK_TYPES, TaskType
from agentfly.environments.alfworld.engine.problem import Problem
from agentfly.environments.alfworld.engine.solver import solve
from agentfly.environments.alfworld.engine.textworld import is_installed
from agentfly.environments.alfworld.game_generator import (
    ROOM_SIZES,
    Recipe,
    RoomSize,
    Size,
    Split,
    generate,
)
from agentfly.environments.alfworld.household import FURNITURE, RECEPTACLES_FOR, THINGS
from agentfly.environments.alfworld.tasks import generated_rows, load_script
from agentfly.errors import ConfigError

SIZES: tuple[Size, ...] = ("small", "medium", "large")


def contents(problem: Problem) -> tuple[object, ...]:
    """Return the contents of a room, independent of ids."""
    kinds = dict(problem.pairs("receptacletype"))
    where = [
        (dict(problem.pairs("objecttype"))[thing], kinds[receptacle])
        for thing, receptacle in problem.pairs("inreceptacle")
    ]
    return problem.goal, tuple(sorted(kinds.values())), tuple(sorted(where))


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("task_type", TASK_TYPES)
def test_every_game_can_be_won_and_is_not_won_yet(size: Size, task_type: TaskType) -> None:
    for seed in range(12):
        game = Game.of(generate(Recipe(seed=seed, task_type=task_type, size=size)))
        assert game.world.goal.task_type == task_type
        assert solve(game)
        assert not game.world.at_place[game.world.start]
        least, most = ROOM_SIZES[size].receptacles
        assert least <= len(game.world.receptacles) <= most


def test_the_same_recipe_gives_the_same_game() -> None:
    recipe = Recipe(seed=11, task_type="pick_two_obj_and_place")
    assert generate(recipe) == generate(recipe)
    assert generate(recipe) != generate(Recipe(seed=12, task_type="pick_two_obj_and_place"))


def test_no_room_is_in_both_splits(monkeypatch: pytest.MonkeyPatch) -> None:
    # Rooms so bare that the same ones are drawn again and again.
    bare = RoomSize(receptacles=(2, 2), things=(0, 0), shared_places=0.0)
    monkeypatch.setitem(ROOM_SIZES, "small", bare)
    drawn: dict[Split, list[object]] = {"train": [], "eval": []}
    for split, rooms in drawn.items():
        for seed in range(1500):
            recipe = Recipe(seed=seed, task_type=TASK_TYPES[1], size="small", split=split)
            rooms.append(contents(generate(recipe).problem))
    assert all(len(set(rooms)) < 1200 for rooms in drawn.values())
    assert not set(drawn["train"]) & set(drawn["eval"])


def test_rows_take_the_kinds_of_task_in_turn_and_hold_what_makes_the_game() -> None:
    rows = list(generated_rows(12, split="train", task_types=TASK_TYPES, size="small", rooms="own"))
    assert Counter(row["task_type"] for row in rows) == dict.fromkeys(TASK_TYPES, 2)
    assert len({row["id"] for row in rows}) == 12
    for row in rows:
        script = load_script(row)
        assert script.task == row["goal"]
        assert script.problem.goal.item == row["item"]


def test_a_row_of_something_else_says_what_is_missing() -> None:
    with pytest.raises(ConfigError, match=r"needs `recipe`.*this one has: question"):
        load_script({"question": "2+2?"})


def test_every_thing_of_a_room_has_a_home_there() -> None:
    for room, things in THINGS.items():
        for thing in things:
            assert set(RECEPTACLES_FOR[thing]) & set(FURNITURE[room]), (room, thing)


@pytest.mark.skipif(not is_installed(), reason="needs the package alfworld")
def test_floor_plans_are_furnished_as_the_benchmark_has_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    drawn: dict[Split, set[int]] = {"train": set(), "eval": set()}
    read = household._read_plan
    for split, numbers in drawn.items():

        def noted(number: int, numbers: set[int] = numbers) -> Sequence[tuple[str, int]]:
            numbers.add(number)
            return read(number)

        monkeypatch.setattr(household, "_read_plan", noted)
        for seed in range(10):
            for task_type in TASK_TYPES:
                generate(Recipe(seed=seed, task_type=task_type, split=split, rooms="floor_plans"))
    assert len(drawn["train"]) > 20
    assert 6 < len(drawn["eval"]) <= 12
    assert not drawn["train"] & drawn["eval"]
    game = Game.of(generate(Recipe(seed=1, task_type=TASK_TYPES[3], rooms="floor_plans")))
    assert solve(game)


def test_held_out_floor_plans_are_never_drawn_for_training(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(household, "_read_plan", lambda number: number)
    numbers = {
        held_out: {
            household.floor_plan(Random(seed), room, held_out=held_out)
            for seed in range(500)
            for room in FURNITURE
        }
        for held_out in (False, True)
    }
    assert (len(numbers[False]), len(numbers[True])) == (108, 12)
    assert not numbers[False] & numbers[True]


def test_without_the_package_floor_plans_name_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(household, "find_spec", lambda name: None)
    household._read_plan.cache_clear()
    with pytest.raises(ConfigError, match=r"agentfly\[alfworld\]"):
        generate(Recipe(seed=1, task_type=TASK_TYPES[0], rooms="floor_plans"))
