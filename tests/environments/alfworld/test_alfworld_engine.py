"""The fast engine by hand: what is said, what is possible, what is won."""

from dataclasses import fields, replace

import pytest
from tests.environments.alfworld.alfworld_rooms import KITCHEN, kitchen, playing

from agentfly.environments.alfworld.engine.fast import FastEngine
from agentfly.environments.alfworld.engine.game import Game
from agentfly.environments.alfworld.engine.goal import TASK_TYPES, Goal
from agentfly.environments.alfworld.engine.goal_progress import progress
from agentfly.environments.alfworld.engine.problem import Problem
from agentfly.environments.alfworld.engine.solver import solve
from agentfly.errors import FormatError

TO_COUNTER = "go to countertop 1"
TAKE = "take apple 1 from countertop 1"


def test_the_introduction_lists_furniture_and_task() -> None:
    assert FastEngine(Game.of(kitchen())).start() == (
        "-= Welcome to TextWorld, ALFRED! =-\n\n"
        "You are in the middle of a room. Looking quickly around you, you see a countertop 1, a "
        "fridge 1, a microwave 1, and a sinkbasin 1.\n\n"
        "Your task is to: put a hot apple in fridge."
    )


def test_things_are_numbered_from_the_last_id_to_the_first() -> None:
    said = playing().step(TO_COUNTER)
    assert said == (
        "You arrive at countertop 1. "
        "On the countertop 1, you see a apple 1, a knife 1, and a mug 1."
    )
    assert playing("go to fridge 1").step("open fridge 1").endswith("you see a apple 2.")


def test_closed_furniture_hides_its_contents_and_can_be_opened_once() -> None:
    engine = playing()
    assert engine.step("go to fridge 1") == "You arrive at fridge 1. The fridge 1 is closed."
    assert "take apple 2 from fridge 1" not in engine.commands()
    assert engine.try_step("open fridge 1")
    assert not engine.try_step("open fridge 1")
    assert "take apple 2 from fridge 1" in engine.commands()
    assert engine.step("close fridge 1") == "You close the fridge 1."


def test_what_is_possible_is_listed_in_order() -> None:
    assert playing(TO_COUNTER, TAKE).commands() == [
        "clean apple 1 with sinkbasin 1",
        "examine apple 1",
        "examine countertop 1",
        "examine sinkbasin 1",
        "go to fridge 1",
        "go to microwave 1",
        "help",
        "inventory",
        "look",
        "move apple 1 to countertop 1",
        "move apple 1 to sinkbasin 1",
    ]


@pytest.mark.parametrize(
    "command",
    [
        "",
        "fly",
        "Look",
        "go to  fridge 1",
        "go to fridge",
        "go to sinkbasin 1",  # one stands before it already
        "take apple 2 from fridge 1",
        "take mug 1 from sinkbasin 1",
        "heat apple 1 with microwave 1",
        "examine mug 1",
        "move apple 1 to countertop 1",
    ],
)
def test_what_is_not_possible_changes_nothing(command: str) -> None:
    engine = playing(TO_COUNTER)
    before = engine.state.clone()
    assert engine.step(command) == "Nothing happens."
    assert engine.state == before


def test_blanks_around_a_command_are_ignored() -> None:
    assert playing().step("  inventory\n") == "You are not carrying anything."


def test_a_thing_moved_to_the_next_receptacle_is_seen_beside() -> None:
    engine = playing(TO_COUNTER)
    facing = "You are facing the countertop 1, and sinkbasin 1. Next to it, you see "
    assert engine.step("look") == facing + "nothing."
    assert engine.try_step(TAKE)
    assert engine.try_step("move apple 1 to sinkbasin 1")
    assert engine.step("look") == facing + "a apple 1."
    assert engine.try_step("take apple 1 from sinkbasin 1")
    assert engine.try_step("move apple 1 to countertop 1")
    # It was taken out of the sink, and lies here.
    assert engine.step("look") == facing + "a apple 1."


def test_in_the_middle_of_the_room_one_sees_nothing_again() -> None:
    said = playing().step("look")
    assert said == "You are in the middle of a room. Looking quickly around you, you see nothing."


@pytest.mark.parametrize(
    ("treatments", "said"),
    [
        ([], "There's nothing special about apple 1."),
        (["clean"], "This is a clean apple 1."),
        (["heat"], "This is a hot apple 1."),
        (["cool"], "This is a cold apple 1."),
        (["heat", "cool"], "This is a cold apple 1."),
        (["cool", "heat", "clean"], "This is a hot and clean apple 1."),
        (["slice"], "This is a sliced apple 1."),
        (["slice", "cool"], "This is a cool sliced apple 1."),
        (["slice", "heat", "clean"], "This is a hot and clean sliced apple 1."),
        (["slice", "clean"], "This is a clean sliced apple 1."),
    ],
)
def test_a_thing_looks_like_what_was_done_to_it(treatments: list[str], said: str) -> None:
    engine = playing(TO_COUNTER)
    if "slice" in treatments:
        for command in (
            "take knife 1 from countertop 1",
            "slice apple 1 with knife 1",
            "move knife 1 to countertop 1",
        ):
            assert engine.try_step(command)
    assert engine.try_step(TAKE)
    for treatment in treatments:
        appliance = {"clean": "sinkbasin", "heat": "microwave", "cool": "fridge"}.get(treatment)
        if appliance:
            engine.step(f"go to {appliance} 1")
            assert engine.try_step(f"{treatment} apple 1 with {appliance} 1")
    assert engine.step("examine apple 1") == said
    assert not engine.state.hot & engine.state.cool


def test_a_container_reports_what_lies_in_it() -> None:
    engine = playing(TO_COUNTER, "take mug 1 from countertop 1")
    assert engine.step("examine mug 1") == "This is a normal mug 1. In it, you see nothing."
    assert engine.step("inventory") == "You are carrying: a mug 1."


def test_a_lamp_can_be_used_where_it_stands() -> None:
    goal = Goal(task_type="look_at_obj_in_light", item="apple", lamp="mug")
    text = KITCHEN.replace("GOAL", goal.to_pddl()).replace(
        "(openable Fridge_bar_1)", "(openable Fridge_bar_1) (toggleable Mug_bar_1)"
    )
    script = kitchen(goal)
    lit = type(script)(problem=Problem.from_pddl(text), task=script.task)
    engine = FastEngine(Game.of(lit))
    won = []
    for command in (TO_COUNTER, TAKE, "use mug 1", "go to fridge 1"):
        said = engine.step(command)
        won.append(engine.won)
        assert command != "use mug 1" or said == "You turn on the mug 1."
    assert won == [False, False, True, False]


def test_a_game_is_won_when_the_treated_thing_is_in_place() -> None:
    engine = playing(TO_COUNTER, TAKE, "go to microwave 1", "heat apple 1 with microwave 1")
    won = [engine.won]
    for command in (
        "go to fridge 1",
        "open fridge 1",
        "move apple 1 to fridge 1",
        "take apple 1 from fridge 1",
    ):
        assert engine.try_step(command)
        won.append(engine.won)
    assert won == [False, False, False, True, False]


def test_progress_counts_every_step_once_and_what_is_undone_no_more() -> None:
    engine = playing(TO_COUNTER)
    seen = []
    for command in (
        TAKE,
        "go to microwave 1",
        "heat apple 1 with microwave 1",
        "go to fridge 1",
        "cool apple 1 with fridge 1",
        "go to microwave 1",
        "heat apple 1 with microwave 1",
        "go to fridge 1",
        "open fridge 1",
        "move apple 1 to fridge 1",
    ):
        assert engine.try_step(command)
        seen.append(round(3 * progress(engine.game.world, engine.state), 6))
    assert seen == [1, 1, 2, 2, 1, 1, 2, 2, 2, 3]


def test_progress_of_two_things() -> None:
    goal = Goal(task_type="pick_two_obj_and_place", item="apple", receptacle="countertop")
    engine = playing(goal=goal)
    seen = [progress(engine.game.world, engine.state)]
    for command in (
        "go to fridge 1",
        "open fridge 1",
        "take apple 2 from fridge 1",
        TO_COUNTER,
        "move apple 2 to countertop 1",
    ):
        assert engine.try_step(command)
        seen.append(progress(engine.game.world, engine.state))
    assert seen == [0.5, 0.5, 0.5, 0.75, 0.75, 1.0]


def test_a_copy_plays_on_by_itself() -> None:
    engine = playing(TO_COUNTER)
    copy = engine.clone()
    assert copy.state.key() == engine.state.key()
    for changing in fields(copy.state)[2:]:
        assert getattr(copy.state, changing.name) is not getattr(engine.state, changing.name)
    assert copy.try_step(TAKE)
    assert copy.try_step("clean apple 1 with sinkbasin 1")
    assert engine.step("examine countertop 1").startswith("On the countertop 1, you see a apple 1")
    assert engine.state.held is None
    assert copy.state.key() != engine.state.key()


def test_a_state_has_the_same_key_however_it_was_reached() -> None:
    one = playing("go to fridge 1", "open fridge 1", TO_COUNTER, TAKE)
    other = playing(TO_COUNTER, TAKE, "go to fridge 1", "open fridge 1", TO_COUNTER)
    assert one.state.key() == other.state.key()
    assert one.state.key() != playing(TO_COUNTER, TAKE).state.key()


def test_starting_again_forgets_everything() -> None:
    engine = playing(TO_COUNTER, TAKE)
    engine.start()
    assert engine.state == engine.game.first_state
    assert "go to countertop 1" in engine.commands()


def test_the_solution_is_a_shortest_one() -> None:
    assert solve(Game.of(kitchen())) == [
        TO_COUNTER,
        TAKE,
        "go to microwave 1",
        "heat apple 1 with microwave 1",
        "go to fridge 1",
        "open fridge 1",
        "move apple 1 to fridge 1",
    ]


def test_of_several_ways_the_shortest_is_taken() -> None:
    goal = Goal(task_type="pick_and_place_simple", item="apple", receptacle="sinkbasin")
    # The other apple is in the fridge, which is elsewhere and closed.
    assert solve(Game.of(kitchen(goal))) == [TO_COUNTER, TAKE, "move apple 1 to sinkbasin 1"]


def test_a_game_that_cannot_be_won_has_no_solution() -> None:
    goal = Goal(task_type="pick_and_place_simple", item="knife", receptacle="fridge")
    assert solve(Game.of(kitchen(goal))) is None


@pytest.mark.parametrize("task_type", TASK_TYPES)
def test_a_goal_is_read_as_it_was_written(task_type: str) -> None:
    light = task_type == "look_at_obj_in_light"
    goal = Goal(
        task_type=task_type,  # type: ignore[arg-type]
        item="apple",
        receptacle="" if light else "fridge",
        lamp="desklamp" if light else "",
    )
    assert Goal.from_pddl(goal.to_pddl()) == goal


def test_another_goal_is_refused() -> None:
    with pytest.raises(FormatError, match="none of the 6 kinds"):
        Goal.from_pddl("(and (exists (?o - object) (issliced ?o)))")


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("(:init", "(:start", "no PDDL problem"),
        ("(openable Fridge_bar_1)", "(flies Fridge_bar_1)", r"unknown fact `\(flies fridge_bar_1"),
        ("(atLocation agent1 loc_bar_0)", "", "says it 0 times"),
        (
            "(openable Fridge_bar_1)",
            "(receptacleAtLocation Fridge_bar_1 loc_bar_2)",
            "at two locations",
        ),
    ],
)
def test_a_broken_problem_says_what_is_wrong(old: str, new: str, message: str) -> None:
    goal = Goal(task_type="pick_and_place_simple", item="apple", receptacle="fridge")
    text = KITCHEN.replace("GOAL", goal.to_pddl()).replace(old, new)
    script = kitchen(goal)
    with pytest.raises(FormatError, match=message):
        Game.of(type(script)(problem=Problem.from_pddl(text), task=script.task))


def test_a_problem_is_read_as_it_was_written() -> None:
    problem = kitchen().problem
    again = Problem.from_pddl(problem.to_pddl())
    assert again == problem


@pytest.mark.parametrize(
    ("fact", "lost"),
    [
        ("(receptacleAtLocation Fridge_bar_1 loc_bar_1)", "fridge_bar_1"),
        ("(atLocation agent1 loc_bar_0)", "middle"),
    ],
)
def test_a_game_in_which_something_is_nowhere_names_it(fact: str, lost: str) -> None:
    text = kitchen().text
    assert text is not None
    broken = text.replace(fact, "(atLocation agent1 middle)" if lost == "middle" else "")
    script = replace(kitchen(), problem=Problem.from_pddl(broken))
    with pytest.raises(FormatError, match=f"put a hot apple in fridge.*nothing says where '{lost}"):
        Game.of(script)
