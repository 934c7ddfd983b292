"""Rooms, their furniture, and which objects belong where; the floor plans of the benchmark.

The kinds, and what may be put where, are those of the benchmark's domain.
"""

import json
import re
from collections.abc import Sequence
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from random import Random
from typing import Literal

from agentfly.errors import ConfigError

Room = Literal["kitchen", "livingroom", "bedroom", "bathroom"]

FURNITURE: dict[Room, dict[str, int]] = {
    "kitchen": {
        "countertop": 3,
        "diningtable": 1,
        "sinkbasin": 1,
        "microwave": 1,
        "fridge": 1,
        "cabinet": 12,
        "drawer": 8,
        "stoveburner": 4,
        "garbagecan": 1,
        "coffeemachine": 1,
        "sidetable": 1,
        "shelf": 3,
    },
    "livingroom": {
        "coffeetable": 2,
        "sofa": 2,
        "armchair": 2,
        "sidetable": 2,
        "diningtable": 1,
        "dresser": 1,
        "drawer": 8,
        "cabinet": 4,
        "shelf": 6,
        "garbagecan": 1,
        "safe": 1,
        "desk": 1,
    },
    "bedroom": {
        "bed": 2,
        "desk": 2,
        "sidetable": 2,
        "drawer": 10,
        "dresser": 1,
        "shelf": 6,
        "garbagecan": 1,
        "armchair": 1,
        "safe": 1,
    },
    "bathroom": {
        "countertop": 2,
        "sinkbasin": 2,
        "toilet": 1,
        "bathtubbasin": 1,
        "cabinet": 6,
        "drawer": 4,
        "shelf": 3,
        "garbagecan": 1,
        "cart": 1,
    },
}
"""Maximum number of each kind of furniture in a room."""


def _words(text: str) -> tuple[str, ...]:
    return tuple(text.split())


OPENABLE = frozenset({"cabinet", "drawer", "fridge", "microwave", "safe"})

_SURFACES = "countertop diningtable sidetable"
_FOOD = f"fridge {_SURFACES} sinkbasin microwave garbagecan"
_CUTLERY = f"{_SURFACES} drawer sinkbasin"
_SMALL = "sidetable desk dresser coffeetable diningtable drawer shelf countertop"
_SEATS = "sofa armchair ottoman"
_BATH = "countertop toilet cabinet drawer shelf cart garbagecan sidetable"

RECEPTACLES_FOR: dict[str, tuple[str, ...]] = {
    thing: _words(kinds)
    for thing, kinds in {
        "alarmclock": "desk sidetable dresser shelf diningtable countertop",
        "apple": _FOOD,
        "baseballbat": "bed sidetable diningtable",
        "basketball": "bed desk dresser sidetable diningtable",
        "book": f"bed desk {_SURFACES} dresser drawer coffeetable shelf cabinet {_SEATS}",
        "bowl": f"fridge {_SURFACES} cabinet desk dresser shelf coffeetable sinkbasin microwave",
        "box": "diningtable sofa coffeetable sidetable desk dresser shelf armchair ottoman cabinet",
        "bread": f"{_SURFACES} fridge garbagecan microwave",
        "butterknife": _CUTLERY,
        "candle": f"toilet {_SURFACES} coffeetable cart cabinet drawer shelf dresser",
        "cd": "desk sidetable dresser drawer garbagecan diningtable shelf safe cabinet countertop",
        "cellphone": f"bed desk dresser sidetable drawer {_SEATS} coffeetable diningtable shelf "
        "countertop safe",
        "cloth": f"bathtubbasin {_BATH} sinkbasin dresser desk diningtable laundryhamper armchair",
        "creditcard": f"{_SMALL} {_SEATS} safe",
        "cup": f"fridge {_SURFACES} sinkbasin cabinet microwave shelf",
        "dishsponge": f"{_SURFACES} sinkbasin drawer cabinet garbagecan bathtubbasin shelf toilet "
        "cart",
        "egg": _FOOD,
        "fork": _CUTLERY,
        "glassbottle": "countertop diningtable sinkbasin cabinet fridge shelf microwave",
        "handtowel": f"handtowelholder {_BATH} sinkbasin bathtubbasin",
        "kettle": f"stoveburner {_SURFACES} cabinet sinkbasin shelf",
        "keychain": f"{_SMALL} {_SEATS} safe",
        "knife": _CUTLERY,
        "ladle": "countertop diningtable drawer cabinet sinkbasin",
        "laptop": "bed sofa desk coffeetable diningtable armchair dresser sidetable ottoman "
        "countertop",
        "lettuce": f"{_SURFACES} fridge sinkbasin garbagecan",
        "mug": f"{_SURFACES} coffeemachine fridge desk microwave sinkbasin cabinet shelf dresser",
        "newspaper": f"{_SEATS} coffeetable diningtable sidetable dresser shelf drawer garbagecan "
        "cabinet",
        "pan": f"stoveburner {_SURFACES} fridge cabinet sinkbasin",
        "pen": f"{_SMALL} garbagecan",
        "pencil": f"{_SMALL} garbagecan",
        "peppershaker": f"{_SURFACES} cabinet drawer shelf",
        "pillow": f"bed {_SEATS}",
        "plate": f"{_SURFACES} fridge coffeetable cabinet shelf dresser sinkbasin microwave",
        "plunger": "cart cabinet",
        "pot": f"stoveburner {_SURFACES} fridge cabinet sinkbasin shelf",
        "potato": _FOOD,
        "remotecontrol": "coffeetable sofa sidetable diningtable armchair dresser drawer ottoman "
        "desk shelf countertop",
        "saltshaker": f"{_SURFACES} cabinet drawer shelf",
        "soapbar": f"bathtubbasin sinkbasin {_BATH}",
        "soapbottle": f"{_SURFACES} toilet garbagecan cabinet shelf drawer cart",
        "spatula": _CUTLERY,
        "spoon": _CUTLERY,
        "spraybottle": f"{_BATH} dresser diningtable",
        "statue": "coffeetable sidetable diningtable dresser shelf countertop desk safe",
        "teddybear": "bed sofa armchair",
        "tennisracket": "bed desk dresser sidetable diningtable",
        "tissuebox": "coffeetable sidetable toilet countertop desk tvstand dresser diningtable "
        "shelf drawer cart garbagecan cabinet",
        "toiletpaper": f"toilet toiletpaperhanger {_BATH} dresser",
        "tomato": _FOOD,
        "towel": "towelholder",
        "vase": "coffeetable sidetable diningtable countertop shelf dresser desk cabinet safe",
        "watch": "coffeetable sidetable dresser diningtable drawer shelf desk",
        "wateringcan": "shelf coffeetable sidetable dresser desk drawer diningtable cabinet",
        "winebottle": f"{_SURFACES} fridge cabinet garbagecan shelf",
        # A lamp stays where it is.
        "desklamp": "sidetable desk dresser shelf coffeetable",
    }.items()
}
"""Kinds of receptacles that an object may be in, roughly the likeliest first."""

LAMP = "desklamp"

ABILITIES: dict[str, frozenset[str]] = {
    ability: frozenset(_words(things))
    for ability, things in {
        "pickupable": " ".join(thing for thing in RECEPTACLES_FOR if thing != LAMP),
        "isreceptacleobject": "bowl box cup mug pan plate pot",
        "cleanable": "apple bowl butterknife cloth cup dishsponge egg fork kettle knife ladle "
        "lettuce mug pan plate pot potato soapbar spatula spoon tomato",
        "heatable": "apple bread cup egg mug plate potato tomato",
        "coolable": "apple bowl bread cup egg lettuce mug pan plate pot potato tomato winebottle",
        "sliceable": "apple bread egg lettuce potato tomato",
        "toggleable": LAMP,
    }.items()
}
"""Objects by what can be done to them, in the domain's own words."""

THINGS: dict[Room, tuple[str, ...]] = {
    "kitchen": _words(
        "apple bowl bread butterknife cup dishsponge egg fork glassbottle kettle knife ladle "
        "lettuce mug pan peppershaker plate pot potato saltshaker soapbottle spatula spoon tomato "
        "vase winebottle"
    ),
    "livingroom": _words(
        "book box candle cellphone creditcard keychain laptop newspaper pillow plate remotecontrol "
        "statue tissuebox vase watch wateringcan"
    ),
    "bedroom": _words(
        "alarmclock baseballbat basketball book bowl cd cellphone creditcard keychain laptop mug "
        "pen pencil pillow teddybear tennisracket"
    ),
    "bathroom": _words(
        "candle cloth dishsponge handtowel plunger soapbar soapbottle spraybottle tissuebox "
        "toiletpaper"
    ),
}
"""Objects found in each room, apart from lamps."""


MISSING = "the floor plans come with the package alfworld: pip install 'agentfly[alfworld]'"

_FIRST_PLAN: dict[Room, int] = {"kitchen": 0, "livingroom": 200, "bedroom": 300, "bathroom": 400}
_HELD_OUT_PLANS: dict[Room, tuple[int, ...]] = {
    "kitchen": (9, 10, 29),
    "livingroom": (15, 19, 26),
    "bedroom": (8, 15, 25),
    "bathroom": (4, 24, 25),
}
"""Numbers of the floor plans without a training game of the benchmark."""
_PLAN_NUMBERS = range(1, 31)

_KNOWN_KINDS = {kind for kinds in RECEPTACLES_FOR.values() for kind in kinds}


def floor_plan(random: Random, room: Room, *, held_out: bool) -> Sequence[tuple[str, int]]:
    """Draw one of the benchmark's floor plans: the kind and place of each receptacle."""
    numbers = [number for number in _PLAN_NUMBERS if (number in _HELD_OUT_PLANS[room]) == held_out]
    return _read_plan(_FIRST_PLAN[room] + random.choice(numbers))


@cache
def _read_plan(number: int) -> tuple[tuple[str, int], ...]:
    path = _plans_folder() / f"FloorPlan{number}-openable.json"
    positions: dict[str, list[float]] = json.loads(path.read_text())
    places = {tuple(p): n for n, p in enumerate(positions.values(), start=1)}
    found = ((_kind(thing), places[tuple(p)]) for thing, p in sorted(positions.items()))
    return tuple((kind, place) for kind, place in found if kind in _KNOWN_KINDS)


def _kind(thing: str) -> str:
    """Return the kind of an id such as `Sink|-00.70|+00.93|-00.65|SinkBasin`."""
    first, *_, last = re.split(r"\|", thing)
    return (last if last.endswith("Basin") else first).lower()


def _plans_folder() -> Path:
    spec = find_spec("alfworld")
    if spec is None or spec.origin is None:
        raise ConfigError(MISSING)
    return Path(spec.origin).parent / "gen" / "layouts"
