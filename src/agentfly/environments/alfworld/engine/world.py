"""What never changes in a game: its furniture, its things, where one can go."""

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

from agentfly.environments.alfworld.engine.goal import Goal
from agentfly.environments.alfworld.engine.names import display_names
from agentfly.environments.alfworld.engine.problem import Problem
from agentfly.errors import FormatError


@dataclass(frozen=True, slots=True, kw_only=True)
class Receptacle:
    """A piece of furniture, or an appliance."""

    name: str
    kind: str
    place: int
    """Where one stands before it; several may share a place."""
    openable: bool
    takes: frozenset[str]
    """Kinds of things that may be put there."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Item:
    """A thing."""

    name: str
    kind: str
    """Empty for one without a kind, which can be put nowhere."""
    abilities: frozenset[str]
    """Such as `{"pickupable", "cleanable"}`."""
    contents: tuple[int, ...]
    """Things that lie in it for ever: no action moves them out."""


@dataclass(frozen=True)
class World:
    """Furniture and things of one game, in the order of their ids, known by their positions in it.

    The same for all chains that play the game, and for all copies of a state.
    """

    goal: Goal
    receptacles: tuple[Receptacle, ...]
    items: tuple[Item, ...]
    start: int
    """The place at which a game begins."""

    @cached_property
    def at_place(self) -> Mapping[int, tuple[int, ...]]:
        """Which receptacles stand at each place."""
        found: dict[int, tuple[int, ...]] = {self.start: ()}
        for number, receptacle in enumerate(self.receptacles):
            found[receptacle.place] = (*found.get(receptacle.place, ()), number)
        return found

    @cached_property
    def go_commands(self) -> Mapping[str, int]:
        """The commands that lead to each receptacle, from any other place."""
        return {f"go to {receptacle.name}": n for n, receptacle in enumerate(self.receptacles)}


_ABILITIES = (
    "pickupable",
    "cleanable",
    "heatable",
    "coolable",
    "sliceable",
    "toggleable",
    "isreceptacleobject",
)


@dataclass(frozen=True, slots=True)
class Index:
    """The positions of a problem's ids in the world that is made of it."""

    receptacles: Mapping[str, int]
    items: Mapping[str, int]
    places: Mapping[str, int]

    @classmethod
    def of(cls, problem: Problem) -> "Index":
        """Put receptacles, things and places in the order of their ids."""
        placed = problem.pairs("receptacleatlocation")
        receptacles = {receptacle for receptacle, _ in placed}
        places = {thing for thing in problem.ids() if thing.startswith("loc_bar_")}
        items = {
            thing
            for predicate in ("objecttype", "inreceptacle", "objectatlocation", *_ABILITIES)
            for thing, *_ in problem.facts.get(predicate, ())
        }
        return cls(_positions(receptacles), _positions(items), _positions(places))


def _positions(ids: set[str]) -> dict[str, int]:
    return {thing: number for number, thing in enumerate(sorted(ids))}


def make_world(problem: Problem) -> World:
    """Make the world of a problem."""
    index = Index.of(problem)
    names = display_names(problem.ids())
    starts = problem.pairs("atlocation")
    if len(starts) != 1:
        raise FormatError(
            f"it must say once where the game begins, and says it {len(starts)} times"
        )
    return World(
        goal=problem.goal,
        receptacles=_receptacles(problem, index, names),
        items=_items(problem, index, names),
        start=index.places[starts[0][1]],
    )


def _receptacles(
    problem: Problem, index: Index, names: Mapping[str, str]
) -> tuple[Receptacle, ...]:
    places = dict(problem.pairs("receptacleatlocation"))
    if len(places) != len(problem.pairs("receptacleatlocation")):
        raise FormatError("one of its receptacles is at two locations")
    kinds = dict(problem.pairs("receptacletype"))
    openable = problem.singles("openable")
    takes: dict[str, set[str]] = defaultdict(set)
    for receptacle_kind, item_kind in problem.pairs("cancontain"):
        takes[receptacle_kind].add(item_kind.removesuffix("type"))
    return tuple(
        Receptacle(
            name=names[thing],
            kind=kinds.get(thing, "").removesuffix("type"),
            place=index.places[places[thing]],
            openable=thing in openable,
            takes=frozenset(takes[kinds.get(thing, "")]),
        )
        for thing in index.receptacles
    )


def _items(problem: Problem, index: Index, names: Mapping[str, str]) -> tuple[Item, ...]:
    kinds = dict(problem.pairs("objecttype"))
    able = {ability: problem.singles(ability) for ability in _ABILITIES}
    contents: dict[str, list[int]] = defaultdict(list)
    for inner, outer in problem.pairs("inreceptacleobject"):
        contents[outer].append(index.items[inner])
    return tuple(
        Item(
            name=names[thing],
            kind=kinds.get(thing, "").removesuffix("type"),
            abilities=frozenset(ability for ability in _ABILITIES if thing in able[ability]),
            contents=tuple(sorted(contents[thing])),
        )
        for thing in index.items
    )
