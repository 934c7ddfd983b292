"""The same commands in both engines, and every difference between their answers."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from random import Random
from typing import Any

from agentfly.environments.alfworld.engine.fast import FastEngine
from agentfly.environments.alfworld.engine.game import Game, Script
from agentfly.environments.alfworld.engine.solution import solve
from agentfly.environments.alfworld.engine.textworld import TextWorldEngine
from agentfly.environments.alfworld.source.rows import script_of

STRAY = 0.15
"""How often a walk tries something that may well be impossible."""
BUSY = 0.5
"""How often it does something with what is at hand instead of whatever is possible."""
IDLE = ("go", "help", "look", "inventory")


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """What came of playing one game in both engines."""

    id: str
    task_type: str
    moves: int
    impossible: int
    solution: int
    """How many commands win the game from its start."""
    won: bool
    differences: tuple[str, ...]


def compare(row: Mapping[str, Any], moves: int) -> Comparison:
    """Walk at random, then play a full solution."""
    return compare_with(row, moves, TextWorldEngine)


def planned(row: Mapping[str, Any]) -> int:
    """Return how many commands the planner needs to win."""
    engine = TextWorldEngine(script_of(row))
    engine.start()
    return len(engine.plan())


def compare_with(
    row: Mapping[str, Any], moves: int, engine: Callable[[Script], TextWorldEngine]
) -> Comparison:
    script = script_of(row)
    reference, fast = engine(script), FastEngine(Game.of(script))
    random = Random(row["id"])
    differences = list(_compared(reference, fast, reference.start(), fast.start(), "start"))
    impossible = 0
    for _ in range(moves):
        command = _draw(random, fast)
        impossible += command.strip() not in fast.commands()
        differences += _stepped(reference, fast, command)
    differences += _compared(reference, fast, reference.start(), fast.start(), "second start")
    solution = solve(fast.game) or ["look"]
    for command in solution:
        differences += _stepped(reference, fast, command)
    return Comparison(
        id=row["id"],
        task_type=row["task_type"],
        moves=moves + len(solution),
        impossible=impossible,
        solution=len(solution),
        won=reference.won,
        differences=tuple(differences),
    )


def _stepped(reference: TextWorldEngine, fast: FastEngine, command: str) -> Iterator[str]:
    yield from _compared(
        reference, fast, reference.step(command), fast.step(command), repr(command)
    )


def _compared(
    reference: TextWorldEngine, fast: FastEngine, expected: str, said: str, after: str
) -> Iterator[str]:
    if said != expected:
        yield f"after {after}: said {said!r} instead of {expected!r}"
    if fast.commands() != reference.commands():
        strange = set(fast.commands()) ^ set(reference.commands())
        yield f"after {after}: other commands: {strange or 'another order'}"
    if fast.won != reference.won:
        yield f"after {after}: won is {fast.won}"
    if fast.state != reference.state:
        yield f"after {after}: another state"


def _draw(random: Random, engine: FastEngine) -> str:
    possible = engine.commands()
    busy = [command for command in possible if command.split()[0] not in IDLE]
    chance = random.random()
    if chance < STRAY:
        return _stray(random, engine)
    return random.choice(busy if busy and chance < STRAY + BUSY else possible)


def _stray(random: Random, engine: FastEngine) -> str:
    item = random.choice(engine.game.world.items).name
    other = random.choice(engine.game.world.items).name
    receptacle = random.choice(engine.game.world.receptacles).name
    return random.choice(
        [
            "",
            "fly",
            "Look",
            " inventory ",
            f"go to  {receptacle}",
            f"go to {item}",
            f"go to {receptacle}",
            f"open {receptacle}",
            f"close {receptacle}",
            f"examine {receptacle}",
            f"examine {item}",
            f"use {item}",
            f"take {item} from {receptacle}",
            f"move {item} to {receptacle}",
            f"put {item} in/on {receptacle}",
            f"heat {item} with {receptacle}",
            f"cool {item} with {receptacle}",
            f"clean {item} with {receptacle}",
            f"slice {item} with {other}",
        ]
    )
