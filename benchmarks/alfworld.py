"""How fast games are played in one process, beside TextWorld, and what a thousand of them take.

A step is a random command of those that are possible, with the list of what is possible after it,
which TextWorld makes at every step too. Its own rate is 0 where it is not installed.

    python -m benchmarks.alfworld
"""

import multiprocessing
import resource
import time
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from random import Random

from agentfly.environments.alfworld import Alfworld
from agentfly.environments.alfworld.engine.fast import FastEngine
from agentfly.environments.alfworld.engine.game import Game
from agentfly.environments.alfworld.engine.goal import TASK_TYPES
from agentfly.environments.alfworld.engine.textworld import TextWorldEngine, is_installed
from agentfly.environments.alfworld.environment import Engine
from agentfly.environments.alfworld.source.generator import Size
from agentfly.environments.alfworld.source.rows import Row, generated_rows, script_of
from agentfly.types import Seed, Task

GAMES, STEPS, LIVE = 60, 500, 1_000
REFERENCE_GAMES, REFERENCE_STEPS = 3, 40


def measure() -> dict[str, float]:
    """Return steps per second of both engines, and megabytes of a thousand games."""
    return {
        "alfworld_steps_per_s": _fast(_rows(GAMES, "medium")),
        "alfworld_textworld_steps_per_s": _reference(_rows(REFERENCE_GAMES, "medium")),
        "alfworld_live_1000_mb": _live_megabytes(_rows(LIVE, "large")),
    }


def _rows(count: int, size: Size) -> list[Row]:
    return list(generated_rows(count, split="train", task_types=TASK_TYPES, size=size, rooms="own"))


def _fast(rows: list[Row]) -> float:
    engines = [FastEngine(Game.of(script_of(row))) for row in rows]
    return _steps_per_second(engines, STEPS)


def _reference(rows: list[Row]) -> float:
    if not is_installed():
        return 0.0
    # In a process of its own, in which it is alone.
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(1, mp_context=context) as process:
        rates = list(process.map(_reference_rate, rows))
    return len(rates) / sum(1 / rate for rate in rates)


def _reference_rate(row: Row) -> float:
    return _steps_per_second([TextWorldEngine(script_of(row))], REFERENCE_STEPS)


def _steps_per_second(engines: "list[FastEngine] | list[TextWorldEngine]", steps: int) -> float:
    random = Random(0)
    spent = 0.0
    for engine in engines:
        engine.start()
        possible = engine.commands()
        for _ in range(steps):
            command = random.choice(possible)
            spent, possible = _timed(engine, command, spent)
    return len(engines) * steps / spent


def _timed(engine: Engine, command: str, spent: float) -> tuple[float, list[str]]:
    started = time.perf_counter()
    engine.step(command)
    _ = engine.won
    possible = engine.commands()
    return spent + time.perf_counter() - started, possible


def _live_megabytes(rows: list[Row]) -> float:
    """Return what as many different games take that are all under way."""
    before = _resident_megabytes()
    live = []
    for row in rows:
        game = Alfworld()
        game.reset(Task.from_row(row), Seed(0))
        game.step(game.commands()[0])
        live.append(game)
    return _resident_megabytes() - before


def _resident_megabytes() -> float:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * resource.getpagesize() / 2**20


if __name__ == "__main__":
    for name, value in measure().items():
        print(f"  {name:32} {value:10.4g}")
