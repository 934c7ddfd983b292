"""Speed of games in one process, compared with TextWorld, and memory of a thousand games.

A step is a random possible command and the list of possible commands after it, which TextWorld
makes at every step too. Both engines never wait, so seconds are processor time: other processes
don't count. TextWorld's rate is left out where it is not installed.

    python -m benchmarks.alfworld
"""

import multiprocessing
import resource
import time
from collections.abc import Callable, Iterable
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from random import Random

from agentfly.environments.alfworld import Alfworld
from agentfly.environments.alfworld.engine.fast import FastEngine
from agentfly.environments.alfworld.engine.game import Game
from agentfly.environments.alfworld.engine.goal import TASK_TYPES
from agentfly.environments.alfworld.engine.textworld import MISSING, TextWorldEngine, is_installed
from agentfly.environments.alfworld.environment import Engine
from agentfly.environments.alfworld.game_generator import Size
from agentfly.environments.alfworld.tasks import Row, generated_rows, load_script
from agentfly.types import Seed, Task

GAMES, STEPS, LIVE = 60, 500, 1_000
REFERENCE_GAMES, REFERENCE_STEPS = 3, 40
AIMS = {
    "alfworld_steps_per_s": "10,000",
    "alfworld_textworld_steps_per_s": "tens, to compare with",
    "alfworld_live_1000_mb": "under 1,024",
}


def measure() -> dict[str, float]:
    """Return steps per second of both engines, and megabytes of a thousand games."""
    numbers = {"alfworld_steps_per_s": _fast(_rows(GAMES, "medium"))}
    if is_installed():
        reference = _in_process(_reference, _rows(REFERENCE_GAMES, "medium"))
        numbers["alfworld_textworld_steps_per_s"] = reference
    else:
        print(f"alfworld_textworld_steps_per_s is left out: {MISSING}")
    numbers["alfworld_live_1000_mb"] = _in_process(_live_megabytes, _rows(LIVE, "large"))
    return numbers


def _rows(count: int, size: Size) -> list[Row]:
    return list(generated_rows(count, split="train", task_types=TASK_TYPES, size=size, rooms="own"))


def _fast(rows: list[Row]) -> float:
    return _steps_per_second((FastEngine(Game.of(load_script(row))) for row in rows), STEPS)


def _reference(rows: list[Row]) -> float:
    # Made one by one, as TextWorld plays one game at a time.
    return _steps_per_second((TextWorldEngine(load_script(row)) for row in rows), REFERENCE_STEPS)


def _in_process(measured: Callable[[list[Row]], float], rows: list[Row]) -> float:
    """Measure in a separate process.

    TextWorld needs one, and memory that was freed before would be reused without being counted.
    """
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(1, mp_context=context) as process:
        return process.submit(measured, rows).result()


def _steps_per_second(engines: Iterable[Engine], steps: int) -> float:
    random = Random(0)
    played, spent = 0, 0.0
    for engine in engines:
        engine.start()
        possible = engine.commands()
        for _ in range(steps):
            command = random.choice(possible)
            spent, possible = _timed(engine, command, spent)
        played += steps
    return played / spent


def _timed(engine: Engine, command: str, spent: float) -> tuple[float, list[str]]:
    started = time.process_time()
    engine.step(command)
    _ = engine.won
    possible = engine.commands()
    return spent + time.process_time() - started, possible


def _live_megabytes(rows: list[Row]) -> float:
    """Return the memory of as many different games in progress."""
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
