"""The fast engine and TextWorld answer the same, byte for byte."""

import multiprocessing
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
from tests.environments.alfworld.alfworld_comparison import (
    Comparison,
    compare,
    compare_with,
    planned,
)

from agentfly.environments.alfworld.engine.game import Game, Index, Script
from agentfly.environments.alfworld.engine.goal import TASK_TYPES
from agentfly.environments.alfworld.engine.solver import solve
from agentfly.environments.alfworld.engine.textworld import TextWorldEngine, is_installed
from agentfly.environments.alfworld.game_generator import Size
from agentfly.environments.alfworld.official_games import Split
from agentfly.environments.alfworld.tasks import (
    Row,
    generated_rows,
    load_script,
    official_rows,
)

SHARED = Path(__file__).parents[3].parent / "shared" / "data" / "alfworld"

pytestmark = pytest.mark.skipif(not is_installed(), reason="needs the package alfworld")
needs_games = pytest.mark.skipif(not SHARED.exists(), reason="needs the benchmark's games")


def official(split: Split, count: int) -> tuple[list[Row], int]:
    """Take so many games of each kind of task, evenly over the split; say how many there are."""
    rows = list(
        official_rows(str(SHARED), split=split, task_types=TASK_TYPES, goal_text="template")
    )
    chosen = []
    for kind in TASK_TYPES:
        alike = [row for row in rows if row["task_type"] == kind]
        chosen += [alike[len(alike) * n // count] for n in range(min(count, len(alike)))]
    return chosen, len(rows)


def generated(count: int, size: Size) -> list[Row]:
    return list(generated_rows(count, split="eval", task_types=TASK_TYPES, size=size, rooms="own"))


def worker(count: int = 1) -> ProcessPoolExecutor:
    """Start processes of their own, for TextWorld's planner has one state for a whole process."""
    return ProcessPoolExecutor(count, mp_context=multiprocessing.get_context("spawn"))


def compared(rows: Sequence[Row], moves: int, workers: int = 1) -> list[Comparison]:
    with worker(workers) as processes:
        return list(processes.map(partial(compare, moves=moves), rows))


def require_equal(found: Sequence[Comparison]) -> None:
    assert {each.id: each.differences[:3] for each in found if each.differences} == {}
    assert all(each.won for each in found)
    assert {each.task_type for each in found} == set(TASK_TYPES)
    assert any(each.impossible for each in found)


def report(what: str, found: Sequence[Comparison], of: int | None) -> None:
    kinds = Counter(each.task_type for each in found)
    share = f"{len(found)} of {of} games ({len(found) / of:.0%})" if of else f"{len(found)} games"
    moves = sum(each.moves for each in found)
    print(f"\n{what}: {share}, {moves} moves, {sum(e.impossible for e in found)} of them ", end="")
    print(f"impossible; {sum(bool(e.differences) for e in found)} differ. {dict(kinds)}")


@pytest.mark.timeout(400)
def test_games_are_played_the_same() -> None:
    rows = generated(6, "small")
    if SHARED.exists():
        seen, number = official("valid_seen", 1)
        rows += sorted(seen, key=lambda row: len(load_script(row).text or ""))[:1]
        print(f"1 of {number} official games, ", end="")
    found = compared(rows, moves=20)
    report("together", found, None)
    require_equal(found)


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_the_planner_finds_no_shorter_way() -> None:
    rows = generated(18, "small")
    with worker() as process:
        lengths = list(process.map(planned, rows))
    assert lengths == [len(solve(Game.of(load_script(row))) or ()) for row in rows]


@needs_games
@pytest.mark.slow
@pytest.mark.timeout(7000)
def test_a_hundred_official_games_are_played_the_same() -> None:
    seen, number_seen = official("valid_seen", 10)
    train, number = official("train", 8)
    found = compared([*seen, *train], moves=50, workers=2)
    report("valid_seen and train", found, number_seen + number)
    assert len(found) >= 100
    require_equal(found)


@pytest.mark.slow
@pytest.mark.timeout(7000)
def test_a_hundred_generated_games_are_played_the_same() -> None:
    rows = [*generated(36, "small"), *generated(48, "medium"), *generated(18, "large")]
    plans = generated_rows(
        12, split="train", task_types=TASK_TYPES, size="small", rooms="floor_plans"
    )
    found = compared([*rows, *plans], moves=50, workers=2)
    report("generated", found, None)
    assert len(found) >= 100
    require_equal(found)


@needs_games
@pytest.mark.slow
@pytest.mark.timeout(600)
def test_what_the_reference_engine_is_spared_changes_nothing() -> None:
    chosen, _ = official("valid_seen", 1)
    with worker() as process:
        found = list(process.map(_compare_with_plain_textworld, chosen))
    require_equal(found)


class PlainTextWorld(TextWorldEngine):
    """TextWorld as it comes, with the task put into its grammar."""

    def __init__(self, script: Script) -> None:
        textworld = import_module("textworld")
        wrapper = import_module("alfworld.agents.environment.alfred_tw_env")
        info = import_module("alfworld.info")
        pddl = import_module("textworld.envs.pddl")
        self.game = Game.of(script)
        self._index = Index.of(script.problem)
        self._seen: Any = None
        self._env = wrapper.AlfredDemangler(
            pddl.PddlEnv(textworld.EnvInfos(won=True, admissible_commands=True))
        )
        grammar = Path(info.ALFRED_TWL2_PATH).read_text().replace("UNKNOWN GOAL.", script.task)
        self._env.load(
            {
                "pddl_domain": Path(info.ALFRED_PDDL_PATH).read_text(),
                "grammar": grammar,
                "pddl_problem": script.text,
            }
        )


def _compare_with_plain_textworld(row: Row) -> Comparison:
    return compare_with(row, 10, PlainTextWorld)
