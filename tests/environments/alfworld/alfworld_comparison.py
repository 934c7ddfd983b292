"""The same commands in both engines, and every difference between their answers."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from random import Random
from typing import Any

from tests.environments.alfworld.alfworld_walk import draw

from agentfly.environments.alfworld.engine.fast import FastEngine
from agentfly.environments.alfworld.engine.game import Game, Script
from agentfly.environments.alfworld.engine.solver import solve
from agentfly.environments.alfworld.engine.textworld import TextWorldEngine
from agentfly.environments.alfworld.tasks import load_script


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """The result of playing one game in both engines."""

    id: str
    task_type: str
    moves: int
    impossible: int
    solution: int
    """Number of commands of the solution."""
    won: bool
    differences: tuple[str, ...]


def compare(row: Mapping[str, Any], moves: int) -> Comparison:
    """Walk at random, then play a full solution."""
    return compare_with(row, moves, TextWorldEngine)


def planned(row: Mapping[str, Any]) -> int:
    """Return how many commands the planner needs to win."""
    engine = TextWorldEngine(load_script(row))
    engine.start()
    return len(engine.plan())


def compare_with(
    row: Mapping[str, Any], moves: int, engine: Callable[[Script], TextWorldEngine]
) -> Comparison:
    script = load_script(row)
    reference, fast = engine(script), FastEngine(Game.of(script))
    random = Random(row["id"])
    differences = list(_compared(reference, fast, reference.start(), fast.start(), "start"))
    impossible = 0
    for _ in range(moves):
        command = draw(random, fast)
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
