"""Scripted players, and the gold paths that they play.

All of them have more information than a model: none reads its observations. No expert for 30 kinds
of experiments plays by observations alone, so the expert plays the simulator's gold path too, on
the shortest way that the simplifications allow, and so that a small model can copy it: with the
names of things that observations use, and flower pots before their plants. Paths are found by the
simulator and cached:

    ~/.cache/agentfly/scienceworld/1.2.3/find-plant/12-easy.json        or in $AGENTFLY_CACHE
    ["open door to greenhouse", "go to greenhouse", "focus on adult pea plant", ...]
    ~/.cache/agentfly/scienceworld/1.2.3/find-plant/12-easy-expert-2.json
    ["teleport to greenhouse", "pick up flower pot 3", "focus on pea plant", ...]
"""

import json
import os
import re
import tempfile
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from importlib.metadata import version
from itertools import pairwise
from pathlib import Path

from agentfly.environments.command_player import Commands, follow
from agentfly.environments.player import Scene
from agentfly.environments.scienceworld.simulator.world import World
from agentfly.environments.scienceworld.tasks import effective_simplifications, read_row
from agentfly.errors import EnvError
from agentfly.models.model_cache import cache_folder

TIMED = ("identify-life-stages-1", "identify-life-stages-2")
"""Tasks in which organisms grow with time, so that a shorter path arrives too early."""

EXPERT_VERSION = 2
"""Part of the names of cached expert paths: raise it when the rules for them change."""

_search_lock = threading.Lock()
"""Held during a search: it keeps a whole JVM busy, and all other worlds in it wait."""


def gold_path(task: str, variation: int, simplifications: str) -> list[str]:
    """Return the gold path of a variation. The first search takes seconds, then it is cached.

    Raises:
        EnvError: The simulator failed or found no path.
    """
    with _search_lock:
        file = _file(task, variation, simplifications)
        return _cached(file, lambda: _search_path(task, variation, simplifications))


def expert_path(task: str, variation: int, simplifications: str) -> list[str]:
    """Return the gold path with teleports where they are possible, and easy to copy.

    Raises:
        EnvError: The simulator failed or found no path.
    """
    gold = gold_path(task, variation, simplifications)
    short = task not in TIMED and can_teleport(simplifications)
    path = list(shorten_path(gold)) if short else gold
    with _search_lock:
        file = _file(task, variation, simplifications, f"expert-{EXPERT_VERSION}")
        return _cached(file, lambda: _made_easy_to_copy(path, task, variation, simplifications))


def _made_easy_to_copy(
    path: list[str], task: str, variation: int, simplifications: str
) -> list[str]:
    """Return a path with flower pots first and names as shown; the same path if that one fails."""
    world = World(simplifications=effective_simplifications(task, simplifications))
    try:
        world.load(task, variation, simplifications)
        easy = [as_shown(action, world.step(action).text) for action in flower_pots_first(path)]
        world.load(task, variation, simplifications)
        # A name may stand for several things, and the simulator then asks which one is meant.
        solved = [world.step(action).completed for action in easy]
    finally:
        world.close()
    return easy if solved[-1] else path


def flower_pots_first(path: Sequence[str]) -> list[str]:
    """Pick up a flower pot before the focus on the plant in it.

    Observations name the pot first, and a small model copies what follows a name more easily than
    what stands before it.

    >>> flower_pots_first(["focus on pea plant", "pick up flower pot 3", "wait"])
    ['pick up flower pot 3', 'focus on pea plant', 'wait']
    """
    changed = list(path)
    for place, (action, following) in enumerate(pairwise(path)):
        if action.startswith("focus on ") and following.startswith("pick up flower pot "):
            changed[place : place + 2] = following, action
    return changed


_DONE = re.compile(r"You (?:focus on|move) the (?P<thing>.+?)(?: to the (?P<place>.+))?\.")


def as_shown(action: str, observation: str) -> str:
    """Return an action with the names that the observation after it uses.

    >>> as_shown("pick up egg dove egg", "You move the dove to the inventory.")
    'pick up dove'
    >>> as_shown("move object in inventory to red box", "You move the pillow to the red box.")
    'move pillow to red box'
    """
    done = _DONE.fullmatch(observation.partition("\n")[0])
    if done is None:
        return action
    for verb in ("focus on", "pick up"):
        if action.startswith(f"{verb} "):
            return f"{verb} {done['thing']}"
    is_move = action.startswith("move ") and done["place"]
    return f"move {done['thing']} to {done['place']}" if is_move else action


def _search_path(task: str, variation: int, simplifications: str) -> list[str]:
    world = World(simplifications=effective_simplifications(task, simplifications))
    try:
        found = world.gold_path(task, variation, simplifications)
    finally:
        world.close()
    if not found:
        raise EnvError(f"the simulator knows no gold path for {task} {variation}")
    return found


def _file(task: str, variation: int, *more: str) -> Path:
    folder = cache_folder().parent / "scienceworld" / version("scienceworld") / task
    return folder / f"{'-'.join(filter(None, (str(variation), *more)))}.json"


def _cached(file: Path, find: Callable[[], list[str]]) -> list[str]:
    found = _read(file)
    if found is None:
        found = find()
        _write(file, found)
    return found


def _read(file: Path) -> list[str] | None:
    """Read a cached path; return None if it can't be read."""
    try:
        kept = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    is_path = isinstance(kept, list) and kept and all(isinstance(one, str) for one in kept)
    return kept if is_path else None


def _write(file: Path, path: list[str]) -> None:
    """Write a path atomically."""
    file.parent.mkdir(parents=True, exist_ok=True)
    handle, half = tempfile.mkstemp(dir=file.parent, suffix=".half")
    with os.fdopen(handle, "w", encoding="utf-8") as written:
        json.dump(path, written)
    Path(half).replace(file)


def gold(scene: Scene) -> Commands:
    """Play the simulator's gold path unchanged."""
    return follow(gold_path(*read_row(scene.task.fields)))


def expert(scene: Scene) -> Commands:
    """Play the gold path, with teleports where they are possible, and easy to copy."""
    return follow(expert_path(*read_row(scene.task.fields)))


def random(scene: Scene) -> Commands:
    """Choose among the valid actions at random, without end."""
    # A world of its own lists them, so that no turn is spent on asking.
    task, variation, simplifications = read_row(scene.task.fields)
    world = World(simplifications=effective_simplifications(task, simplifications))
    try:
        world.load(task, variation, simplifications)
        while True:
            action = scene.random.choice(world.valid_actions())
            world.step(action)
            yield action
    finally:
        world.close()


def can_teleport(simplifications: str) -> bool:
    """Return whether these simplifications include teleporting."""
    return bool({"easy", "teleportAction"} & set(simplifications.split(",")))


def shorten_path(path: Iterable[str]) -> Iterator[str]:
    """Leave out doors, looks and rooms that are only passed through.

    >>> path = ["open door to hall", "go to hall", "go to lab", "look around", "eat pea"]
    >>> list(shorten_path(path))
    ['teleport to lab', 'eat pea']
    """
    target: str | None = None
    for action in path:
        if action.startswith("go to "):
            target = action.removeprefix("go to ")
        elif action != "look around" and not action.startswith("open door to "):
            if target is not None:
                yield f"teleport to {target}"
                target = None
            yield action
