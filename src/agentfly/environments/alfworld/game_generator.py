"""Generated games: a room, objects in it, and a goal that can be reached."""

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from random import Random
from typing import Literal

from agentfly.environments.alfworld.engine.game import Script
from agentfly.environments.alfworld.engine.goal import (
    APPLIANCES,
    SENTENCES,
    TREATMENTS,
    Goal,
    TaskType,
    Treatment,
)
from agentfly.environments.alfworld.engine.problem import Fact, Problem, make_id
from agentfly.environments.alfworld.household import (
    ABILITIES,
    FURNITURE,
    LAMP,
    OPENABLE,
    RECEPTACLES_FOR,
    THINGS,
    Room,
    floor_plan,
)

Split = Literal["train", "eval"]
Size = Literal["small", "medium", "large"]
Rooms = Literal["own", "floor_plans"]

ROOMS: dict[TaskType, tuple[Room, ...]] = {
    "pick_and_place_simple": ("kitchen", "livingroom", "bedroom", "bathroom"),
    "look_at_obj_in_light": ("livingroom", "bedroom"),
    "pick_clean_then_place_in_recep": ("kitchen", "bathroom"),
    "pick_heat_then_place_in_recep": ("kitchen",),
    "pick_cool_then_place_in_recep": ("kitchen",),
    "pick_two_obj_and_place": ("kitchen", "livingroom", "bedroom", "bathroom"),
}
"""Rooms in which each kind of task can be set."""

EVAL_SHARE = 5
"""One room in this many is kept for evaluation."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RoomSize:
    """Ranges of how much is in a room."""

    receptacles: tuple[int, int]
    things: tuple[int, int]
    shared_places: float
    """Share of receptacles that stand at the same place as another."""


ROOM_SIZES: dict[Size, RoomSize] = {
    "small": RoomSize(receptacles=(4, 6), things=(3, 6), shared_places=0.0),
    "medium": RoomSize(receptacles=(9, 14), things=(10, 18), shared_places=0.15),
    "large": RoomSize(receptacles=(18, 26), things=(25, 40), shared_places=0.15),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Recipe:
    """The parameters of a generated game: equal recipes give equal games.

    Its `repr` seeds the generator, so renaming the class or a field changes every game.

    >>> recipe = Recipe(seed=3, task_type="pick_heat_then_place_in_recep", size="small")
    >>> generate(recipe).task
    'put a hot plate in cabinet.'
    """

    seed: int
    task_type: TaskType
    split: Split = "train"
    size: Size = "medium"
    rooms: Rooms = "own"


@dataclass(frozen=True, slots=True)
class Furniture:
    """A piece of furniture."""

    kind: str
    place: int
    """Place from which it is reached."""

    def takes(self, thing: str) -> bool:
        """Return whether a kind of object may be put there."""
        return self.kind in RECEPTACLES_FOR[thing]


Placement = tuple[str, int]
"""A kind of object, and the index of the furniture that it is in."""


def generate(recipe: Recipe) -> Script:
    """Generate a game that can be won. Training and evaluation share no room."""
    random = Random(repr(recipe))
    while True:
        room = random.choice(ROOMS[recipe.task_type])
        goal = _draw_goal(random, recipe.task_type, room)
        pieces = _furnish(random, recipe, room, goal)
        placements = _fill(random, ROOM_SIZES[recipe.size], room, goal, pieces)
        if placements is not None and _split_of(goal, pieces, placements, recipe) == recipe.split:
            form = random.randrange(len(SENTENCES[goal.task_type]))
            return Script(problem=_problem(goal, pieces, placements), task=goal.sentence(form))


def _draw_goal(random: Random, task_type: TaskType, room: Room) -> Goal:
    if task_type == "look_at_obj_in_light":
        return Goal(task_type=task_type, item=random.choice(THINGS[room]), lamp=LAMP)
    treatment = TREATMENTS.get(task_type)
    able = ABILITIES[_ABLE[treatment] if treatment else "pickupable"]
    elsewhere = set(FURNITURE[room]) - {APPLIANCES[treatment] if treatment else ""}
    targets = {
        thing: [place for place in RECEPTACLES_FOR[thing] if place in elsewhere]
        for thing in THINGS[room]
        if thing in able
    }
    # An object with one usual receptacle could only be found where it has to go.
    item = random.choice([thing for thing, places in targets.items() if len(places) > 1])
    return Goal(task_type=task_type, item=item, receptacle=random.choice(targets[item]))


_ABLE: dict[Treatment, str] = {"clean": "cleanable", "heat": "heatable", "cool": "coolable"}


def _furnish(random: Random, recipe: Recipe, room: Room, goal: Goal) -> Sequence[Furniture]:
    if recipe.rooms == "floor_plans":
        return [
            Furniture(*piece) for piece in floor_plan(random, room, held_out=recipe.split == "eval")
        ]
    room_size = ROOM_SIZES[recipe.size]
    needed = _needed(random, room, goal)
    spare = [kind for kind, most in FURNITURE[room].items() for _ in range(most)]
    for kind in needed:
        spare.remove(kind)
    wanted = max(random.randint(*room_size.receptacles), len(needed))
    kinds = needed + random.sample(spare, min(wanted - len(needed), len(spare)))
    random.shuffle(kinds)
    return list(_placed(random, kinds, room_size.shared_places))


def _needed(random: Random, room: Room, goal: Goal) -> list[str]:
    """List the furniture that the goal needs: source, appliance, target or lamp stand."""
    here = FURNITURE[room]
    sources = [
        place for place in RECEPTACLES_FOR[goal.item] if place in here and place != goal.receptacle
    ]
    stands = [place for place in RECEPTACLES_FOR[LAMP] if place in here]
    last = random.choice(stands) if goal.lamp else goal.receptacle
    appliance = [APPLIANCES[goal.treatment]] if goal.treatment else []
    return list(dict.fromkeys([random.choice(sources), *appliance, last]))


def _placed(random: Random, kinds: Sequence[str], shared: float) -> Iterator[Furniture]:
    place = 0  # The middle of the room, where nothing stands.
    for kind in kinds:
        if place == 0 or random.random() >= shared:
            place += 1
        yield Furniture(kind, place)


def _fill(
    random: Random, room_size: RoomSize, room: Room, goal: Goal, pieces: Sequence[Furniture]
) -> list[Placement] | None:
    """Place objects where they belong; return None if the goal can't be reached then."""
    kinds = {piece.kind for piece in pieces}
    if not kinds.issuperset(_asked_for(goal)):
        return None
    fixed = [
        *[goal.item] * random.randint(goal.count, goal.count + 1),
        *([LAMP] if goal.lamp else []),
    ]
    others = random.choices(THINGS[room], k=random.randint(*room_size.things))
    placements = []
    for thing in (*fixed, *(other for other in others if other != goal.item)):
        places = [n for n, piece in enumerate(pieces) if piece.takes(thing)]
        if thing == goal.item:
            places = [n for n in places if pieces[n].kind != goal.receptacle]
        if places:
            placements.append((thing, random.choice(places)))
        elif thing in fixed:
            return None
    return placements


def _asked_for(goal: Goal) -> set[str]:
    """Return the kinds of furniture that the goal names or needs."""
    kinds = {goal.receptacle, APPLIANCES[goal.treatment] if goal.treatment else ""}
    return kinds - {""}


def _split_of(
    goal: Goal, pieces: Sequence[Furniture], placements: Sequence[Placement], recipe: Recipe
) -> Split:
    """Assign a room to a split by its contents alone, so that none is ever in both."""
    if recipe.rooms == "floor_plans":
        return recipe.split  # Floor plans are held out as a whole.
    # Sorted, as rooms that differ only in the order of drawing are the same. The `repr` of the
    # goal decides the split: renaming its class would move rooms between splits.
    contents = sorted((thing, pieces[number].kind) for thing, number in placements)
    room = (goal, sorted(piece.kind for piece in pieces), contents)
    digest = hashlib.blake2b(repr(room).encode(), digest_size=4).digest()
    return "eval" if int.from_bytes(digest) % EVAL_SHARE == 0 else "train"


def _problem(goal: Goal, pieces: Sequence[Furniture], placements: Sequence[Placement]) -> Problem:
    ids = _numbered([piece.kind for piece in pieces])
    things = _numbered([thing for thing, _ in placements])
    places = [make_id("loc", piece.place) for piece in pieces]
    facts: dict[str, tuple[Fact, ...]] = {
        "atlocation": (("agent1", make_id("loc", 0)),),
        "receptacletype": tuple((i, f"{p.kind}type") for i, p in zip(ids, pieces, strict=True)),
        "receptacleatlocation": tuple(zip(ids, places, strict=True)),
        "openable": tuple((i,) for i, p in zip(ids, pieces, strict=True) if p.kind in OPENABLE),
        "objecttype": tuple(
            (o, f"{kind}type") for o, (kind, _) in zip(things, placements, strict=True)
        ),
        "inreceptacle": tuple((o, ids[n]) for o, (_, n) in zip(things, placements, strict=True)),
        "objectatlocation": tuple(
            (o, places[n]) for o, (_, n) in zip(things, placements, strict=True)
        ),
        "cancontain": tuple(_can_contain(pieces, placements)),
    }
    for ability, kinds in ABILITIES.items():
        able = tuple((o,) for o, (kind, _) in zip(things, placements, strict=True) if kind in kinds)
        facts[ability] = able
    return Problem(facts=facts, goal=goal)


def _can_contain(pieces: Sequence[Furniture], placements: Sequence[Placement]) -> Iterator[Fact]:
    for kind in sorted({piece.kind for piece in pieces}):
        for thing in sorted({thing for thing, _ in placements} & ABILITIES["pickupable"]):
            if kind in RECEPTACLES_FOR[thing]:
                yield f"{kind}type", f"{thing}type"


def _numbered(kinds: Sequence[str]) -> list[str]:
    """Make an id for each kind in a list.

    >>> _numbered(["mug", "pen", "mug"])
    ['mug_bar_01', 'pen_bar_01', 'mug_bar_02']
    """
    return [make_id(kind, kinds[: n + 1].count(kind)) for n, kind in enumerate(kinds)]
