"""Variations of tasks, and playing them to their end by the environment alone."""

from collections.abc import Generator

import pytest

from agentfly.environments import Kit, Player, Say, Scene, call
from agentfly.environments.scienceworld import SCIENCEWORLD, ScienceWorld, ScienceWorldOptions
from agentfly.environments.scienceworld.players import gold_path
from agentfly.environments.scienceworld.simulator.java import missing_requirements
from agentfly.runtime.launch import read_stat
from agentfly.types import Seed, Task

needs_simulator = pytest.mark.skipif(
    missing_requirements() is not None, reason=missing_requirements() or ""
)


def kit(**options: object) -> Kit:
    return SCIENCEWORLD.make(ScienceWorldOptions.model_validate(options))


def task(name: str, variation: int = 0, simplifications: str = "") -> Task:
    row = {"task": name, "variation": variation, "simplifications": simplifications}
    return Task.from_row({"id": f"{name}-{variation}", **row})


def acting(*actions: str) -> Player:
    """Return a player that performs these actions, independent of observations, and stops."""

    def player(scene: Scene) -> Generator[Say, str, None]:
        for action in actions:
            yield call("act", action=action)
        yield Say("That is all.")

    return player


def gold_score(name: str, variation: int, simplifications: str = "") -> int:
    """Play a gold path in a new world, and return the points."""
    path = gold_path(name, variation, simplifications)
    env = ScienceWorld(max_moves=10_000)
    try:
        env.reset(task(name, variation, simplifications), Seed(0))
        for action in path:
            if env.step(action).done:
                break
        return env.score
    finally:
        env.close()


def is_running(pid: int) -> bool:
    """Return whether a process exists and is no zombie."""
    return read_stat(pid) is not None
