"""The fast engine says what TextWorld said when it was asked: a proof that needs no TextWorld.

textworld_record.json has a line for each game: how it is made, what was played, and a digest of
every answer. `python -m tests.environments.alfworld.test_alfworld_record` asks TextWorld anew.
"""

import hashlib
import json
import multiprocessing
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from random import Random
from typing import Any

import pytest
from tests.environments.alfworld.alfworld_walk import chores, draw

from agentfly.environments.alfworld.engine.fast import FastEngine
from agentfly.environments.alfworld.engine.game import Game
from agentfly.environments.alfworld.engine.goal import TASK_TYPES
from agentfly.environments.alfworld.engine.solver import solve
from agentfly.environments.alfworld.engine.textworld import TextWorldEngine, is_installed
from agentfly.environments.alfworld.engine.wording import NOTHING_HAPPENS
from agentfly.environments.alfworld.environment import Engine
from agentfly.environments.alfworld.game_generator import Size
from agentfly.environments.alfworld.tasks import Row, generated_rows, load_script

RECORD = Path(__file__).parent / "textworld_record.json"
GAMES: dict[Size, int] = {"small": 24, "medium": 24, "large": 12}
MOVES = 50

Recorded = Mapping[str, Any]


def recorded() -> list[Recorded]:
    read: list[Recorded] = json.loads(RECORD.read_text())
    return read


def digest(engine: Engine, *played: Iterable[str]) -> str:
    """Restart with each list of commands, and hash all answers."""
    told = hashlib.sha256()
    for commands in played:
        told.update(_answer(engine, engine.start()))
        for command in commands:
            told.update(_answer(engine, engine.step(command)))
    return told.hexdigest()


def _answer(engine: Engine, said: str) -> bytes:
    return json.dumps([said, engine.commands(), engine.won]).encode()


def room_of(row: Recorded) -> str:
    """Hash the game itself, so that a changed generator is not mistaken for a wrong engine."""
    return hashlib.sha256(load_script(row).problem.to_pddl().encode()).hexdigest()


def by_textworld(game: Recorded) -> str:
    return digest(TextWorldEngine(load_script(game)), *plays(game))


def by_fast_engine(game: Recorded) -> str:
    return digest(FastEngine(Game.of(load_script(game))), *plays(game))


def plays(game: Recorded) -> list[list[str]]:
    return [game["walk"], game["chores"], game["solution"]]


def test_the_generator_still_makes_the_recorded_games() -> None:
    assert [game["id"] for game in recorded() if room_of(game) != game["room"]] == []


def test_the_fast_engine_answers_as_textworld_did() -> None:
    assert [game["id"] for game in recorded() if by_fast_engine(game) != game["digest"]] == []


def test_the_record_has_all_kinds_of_games_and_impossible_moves() -> None:
    games = recorded()
    kinds = Counter((game["recipe"]["size"], game["recipe"]["task_type"]) for game in games)
    assert kinds == {
        (size, kind): count // 6 for size, count in GAMES.items() for kind in TASK_TYPES
    }
    assert {len(game["walk"]) for game in games} == {MOVES}
    refused = [refusals(game) for game in games]
    assert all(0 < each < MOVES / 2 for each in refused)


def refusals(game: Recorded) -> int:
    engine = FastEngine(Game.of(load_script(game)))
    engine.start()
    return [engine.step(command) for command in game["walk"]].count(NOTHING_HAPPENS)


def test_every_recorded_solution_wins() -> None:
    for game in recorded():
        engine = FastEngine(Game.of(load_script(game)))
        engine.start()
        for command in game["solution"]:
            assert not engine.won
            assert engine.try_step(command)
        assert engine.won


@pytest.mark.timeout(400)
@pytest.mark.skipif(not is_installed(), reason="needs the package alfworld")
def test_textworld_answers_as_recorded() -> None:
    games = recorded()[:2]
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as process:
        assert list(process.map(by_textworld, games)) == [game["digest"] for game in games]


def recorded_anew() -> Iterator[Recorded]:
    for size, count in GAMES.items():
        yield from map(
            ask_textworld,
            generated_rows(count, split="eval", task_types=TASK_TYPES, size=size, rooms="own"),
        )


def ask_textworld(row: Row) -> Recorded:
    engine, random = TextWorldEngine(load_script(row)), Random(row["id"])
    walk: list[str] = []
    busy, solution = chores(random, engine.game), solve(engine.game) or []
    answers = digest(engine, _drawn(engine, random, walk), busy, solution)
    assert engine.won, row["id"]
    return {
        "id": row["id"],
        "recipe": row["recipe"],
        "room": room_of(row),
        "walk": walk,
        "chores": busy,
        "solution": solution,
        "digest": answers,
    }


def _drawn(engine: Engine, random: Random, walk: list[str]) -> Iterator[str]:
    """Draw commands one by one, from what TextWorld says is possible, and note them."""
    for _ in range(MOVES):
        walk.append(draw(random, engine))
        yield walk[-1]


if __name__ == "__main__":
    lines = map(json.dumps, recorded_anew())
    RECORD.write_text("[\n" + ",\n".join(lines) + "\n]\n")
