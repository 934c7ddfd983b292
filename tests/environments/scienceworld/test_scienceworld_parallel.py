"""Many worlds in one JVM at once: none may come out wrong. Slow: the whole benchmark is played."""

import json
import os
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import pytest
from tests.environments.scienceworld.scienceworld_play import (
    gold_score,
    is_running,
    needs_simulator,
)

from agentfly.environments.scienceworld.players import gold_path
from agentfly.environments.scienceworld.simulator.jvm_pool import jvm_pool
from agentfly.environments.scienceworld.simulator.readers_writer_lock import ReadersWriterLock
from agentfly.environments.scienceworld.simulator.world import World
from agentfly.environments.scienceworld.tasks import VARIATIONS
from agentfly.errors import EnvError

pytestmark = [needs_simulator, pytest.mark.slow, pytest.mark.timeout(3600)]

ENVIRONMENTS = 8
UNSTEADY = ("power-component",)
"""Tasks that do not always load the same way."""
SHORT = ("find-plant", "find-living-thing", "find-non-living-thing", "lifespan-longest-lived")


def scores(episodes: list[tuple[str, int]]) -> list[int | str]:
    """Play gold paths side by side; an episode that fails gives its cause instead of points."""

    def one(episode: tuple[str, int]) -> int | str:
        try:
            return gold_score(*episode)
        except EnvError as error:
            return f"EnvError: {error}"

    with ThreadPoolExecutor(ENVIRONMENTS) as threads:
        return list(threads.map(one, episodes))


def test_gold_paths_of_all_tasks_score_full_marks_side_by_side() -> None:
    episodes = [(name, 0) for name in VARIATIONS]
    found = dict(zip(VARIATIONS, scores(episodes), strict=True))
    # A path was found in another load of the variation, which may differ: one more is enough.
    again = [name for name in UNSTEADY if found[name] != 100]
    found |= dict(zip(again, scores([(name, 1) for name in again]), strict=True))
    assert set(found.values()) == {100}, found
    assert len(found) == 30


def test_none_of_200_episodes_is_wrong_under_load() -> None:
    episodes = [(SHORT[number % len(SHORT)], number % 5) for number in range(200)]
    assert Counter(scores(episodes)) == {100: 200}


GROWING = "grow-plant"
MIXED = [(GROWING, 0, ""), (GROWING, 0, "easy"), ("boil", 0, "openDoors"), ("find-plant", 2, "")]
ACTIONS = ("look around", "wait", "inventory", "wait1", "task", "wait", "look around", "wait")


def test_worlds_of_mixed_simplifications_equal_those_of_the_bare_package() -> None:
    """Eight worlds take turns; a bare JVM with a single world plays each of them alone."""
    episodes = [*MIXED, *MIXED]
    worlds = [World() for _ in episodes]
    for world, (name, variation, simplified) in zip(worlds, episodes, strict=True):
        world.load(name, variation, simplified)
    seen: list[list[str]] = [[] for _ in worlds]
    for action in (*ACTIONS, *ROUTE):
        for world, lines in zip(worlds, seen, strict=True):
            lines.append(sorted_lines(world.step(action).text))
    for world in worlds:
        world.close()
    assert seen == bare_package(MIXED) * 2


WALK = ("open door to hallway", "go to hallway", "open door to greenhouse", "go to greenhouse")
ROUTE = (*WALK, "look around", *("wait",) * 6, "look around", "teleport to kitchen")


BARE_PACKAGE = """
import json, sys
from scienceworld import ScienceWorldEnv
episodes, actions = json.loads(sys.argv[1])
shown = []
for episode in episodes:
    simulator = ScienceWorldEnv("", envStepLimit=1000)
    simulator.load(*episode)
    # Its own `step` also lists all valid actions, which is slow.
    shown.append([simulator.server.step(action) for action in actions])
    simulator.close()
print(json.dumps(shown))
"""


def bare_package(episodes: list[tuple[str, int, str]]) -> list[list[str]]:
    """Return what the package itself shows, with a JVM for each world."""
    asked = json.dumps([episodes, [*ACTIONS, *ROUTE]])
    command = [sys.executable, "-c", BARE_PACKAGE, asked]
    shown = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    return [[sorted_lines(text) for text in texts] for texts in json.loads(shown.splitlines()[-1])]


def sorted_lines(text: str) -> str:
    """Sort the lines: the simulator lists objects in the order of a hash set."""
    return "\n".join(sorted(line.strip() for line in text.splitlines()))


def test_without_the_lock_some_are_wrong(monkeypatch: pytest.MonkeyPatch) -> None:
    episodes = [(SHORT[number % len(SHORT)], number % 5) for number in range(16)]
    for name, variation in episodes:
        gold_path(name, variation, "")

    @contextmanager
    def free(lock: ReadersWriterLock) -> Iterator[None]:
        del lock
        yield

    monkeypatch.setattr(ReadersWriterLock, "exclusive", free)
    monkeypatch.setattr(ReadersWriterLock, "shared", free)
    points = (score for _ in range(10) for score in scores(episodes) if isinstance(score, int))
    assert any(score != 100 for score in points)


def test_a_jvm_killed_in_the_middle_fails_its_own_chains_only() -> None:
    episodes = [(SHORT[number % len(SHORT)], number % 5) for number in range(40)]
    for name, variation in episodes:
        gold_path(name, variation, "")
    with ThreadPoolExecutor(1) as thread:
        playing = thread.submit(scores, episodes)
        while not (busy := [jvm for jvm in jvm_pool().jvms if jvm.worlds >= ENVIRONMENTS]):
            assert not playing.done()
        victim = busy[0].pid
        os.kill(victim, signal.SIGKILL)
        counted = Counter(
            score if isinstance(score, int) else score.partition(":")[0]
            for score in playing.result()
        )
    assert set(counted) == {100, "EnvError"}
    assert counted["EnvError"] <= ENVIRONMENTS
    survivors = [jvm.pid for jvm in jvm_pool().jvms]
    assert survivors
    assert victim not in survivors
    jvm_pool().close()
    assert not any(map(is_running, (victim, *survivors)))
