"""The furniture of the benchmark's own 120 rooms, which the wheel `alfworld` carries."""

import json
import re
from collections.abc import Sequence
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from random import Random

from agentfly.environments.alfworld.source.household import HOMES, Room
from agentfly.errors import ConfigError

MISSING = "the floor plans come with the package alfworld: pip install 'agentfly[alfworld]'"

_FIRST: dict[Room, int] = {"kitchen": 0, "livingroom": 200, "bedroom": 300, "bathroom": 400}
_HELD_OUT: dict[Room, tuple[int, ...]] = {
    "kitchen": (9, 10, 29),
    "livingroom": (15, 19, 26),
    "bedroom": (8, 15, 25),
    "bathroom": (4, 24, 25),
}
"""The rooms of each sort in which no training game of the benchmark is played."""
_ALL = range(1, 31)

_KNOWN = {kind for homes in HOMES.values() for kind in homes}


def floor_plan(random: Random, room: Room, *, held_out: bool) -> Sequence[tuple[str, int]]:
    """Draw a room: the kind of each receptacle, and where one stands before it."""
    numbers = [number for number in _ALL if (number in _HELD_OUT[room]) == held_out]
    return _read(_FIRST[room] + random.choice(numbers))


@cache
def _read(number: int) -> tuple[tuple[str, int], ...]:
    path = _folder() / f"FloorPlan{number}-openable.json"
    positions: dict[str, list[float]] = json.loads(path.read_text())
    places = {tuple(p): n for n, p in enumerate(positions.values(), start=1)}
    found = ((_kind(thing), places[tuple(p)]) for thing, p in sorted(positions.items()))
    return tuple((kind, place) for kind, place in found if kind in _KNOWN)


def _kind(thing: str) -> str:
    """Read the kind of an id such as `Sink|-00.70|+00.93|-00.65|SinkBasin`."""
    first, *_, last = re.split(r"\|", thing)
    return (last if last.endswith("Basin") else first).lower()


def _folder() -> Path:
    spec = find_spec("alfworld")
    if spec is None or spec.origin is None:
        raise ConfigError(MISSING)
    return Path(spec.origin).parent / "gen" / "layouts"
