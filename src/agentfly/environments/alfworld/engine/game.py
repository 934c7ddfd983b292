"""A game: its constant world, its changing state, and its task in words."""

import hashlib
import marshal
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property

from agentfly.environments.alfworld.engine.goal import Goal
from agentfly.environments.alfworld.engine.problem import Problem, display_names
from agentfly.errors import FormatError


@dataclass(frozen=True, slots=True, kw_only=True)
class Receptacle:
    """A piece of furniture, or an appliance."""

    name: str
    kind: str
    place: int
    """Place from which it is reached; several receptacles may share a place."""
    openable: bool
    takes: frozenset[str]
    """Kinds of objects that may be put there."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Item:
    """An object."""

    name: str
    kind: str
    """Kind of object; empty for one without a kind, which can be put nowhere."""
    abilities: frozenset[str]
    """Possible treatments and uses, such as `{"pickupable", "cleanable"}`."""
    contents: tuple[int, ...]
    """Objects in it, which no action moves out."""


@dataclass(frozen=True)
class World:
    """The constant part of a game: furniture and objects, in the order of their ids.

    Positions in these tuples identify them. All chains that play the game share one world.
    """

    goal: Goal
    receptacles: tuple[Receptacle, ...]
    items: tuple[Item, ...]
    start: int
    """Place at which the game starts."""

    @cached_property
    def at_place(self) -> Mapping[int, tuple[int, ...]]:
        """Receptacles by place."""
        found: dict[int, tuple[int, ...]] = {self.start: ()}
        for number, receptacle in enumerate(self.receptacles):
            found[receptacle.place] = (*found.get(receptacle.place, ()), number)
        return found

    @cached_property
    def go_commands(self) -> Mapping[str, int]:
        """Receptacles by the command that goes to them."""
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
    """Positions of a problem's ids in its world."""

    receptacles: Mapping[str, int]
    items: Mapping[str, int]
    places: Mapping[str, int]

    @classmethod
    def of(cls, problem: Problem) -> "Index":
        """Order receptacles, objects and places by their ids."""
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


Pair = tuple[int, int]


@dataclass(slots=True, kw_only=True)
class State:
    """The changing part of a game: where objects are, and what was done to them.

    Numbers are positions in the world. A state has some kilobytes and can be copied at any time.
    """

    place: int
    held: int | None = None
    inside: list[tuple[int, ...]]
    """Objects in each receptacle, in order."""
    lying: set[Pair]
    """Pairs of object and place; the domain keeps them in addition to `inside`."""
    left: set[Pair] = field(default_factory=set)
    """Pairs of object and receptacle that it was taken out of and not put back into."""
    opened: set[int] = field(default_factory=set)
    toggled: set[int] = field(default_factory=set)
    clean: set[int] = field(default_factory=set)
    hot: set[int] = field(default_factory=set)
    cool: set[int] = field(default_factory=set)
    sliced: set[int] = field(default_factory=set)

    def clone(self) -> "State":
        """Return an independent copy."""
        return State(
            place=self.place,
            held=self.held,
            inside=self.inside.copy(),
            lying=self.lying.copy(),
            left=self.left.copy(),
            opened=self.opened.copy(),
            toggled=self.toggled.copy(),
            clean=self.clean.copy(),
            hot=self.hot.copy(),
            cool=self.cool.copy(),
            sliced=self.sliced.copy(),
        )

    def key(self) -> str:
        """Return a short text that is the same for equal states of one game."""
        marks = (self.opened, self.toggled, self.clean, self.hot, self.cool, self.sliced)
        sets = [sorted(each) for each in (self.lying, self.left, *marks)]
        # Version 2 writes no references, which differ between equal values.
        whole = marshal.dumps((self.place, self.held, self.inside, sets), 2)
        return hashlib.blake2b(whole, digest_size=8).hexdigest()


def first_state(problem: Problem) -> State:
    """Return the state at the start of a game."""
    index = Index.of(problem)
    inside: list[list[int]] = [[] for _ in index.receptacles]
    for thing, receptacle in problem.pairs("inreceptacle"):
        inside[index.receptacles[receptacle]].append(index.items[thing])
    return State(
        place=index.places[problem.pairs("atlocation")[0][1]],
        inside=[tuple(sorted(things)) for things in inside],
        lying={
            (index.items[thing], index.places[place])
            for thing, place in problem.pairs("objectatlocation")
        },
        cool={index.items[thing] for thing in problem.singles("iscool")},
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Script:
    """A game before it is made ready to play."""

    problem: Problem
    task: str
    """Goal in words, such as `put a hot egg in fridge.`"""
    text: str | None = None
    """Text of the problem, if it was read from a file."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Game:
    """A game ready to play. It is never changed: an engine copies the first state."""

    world: World
    first_state: State
    task: str

    @classmethod
    def of(cls, script: Script) -> "Game":
        """Make a script ready to play; raise FormatError if an object has no location."""
        problem = script.problem
        try:
            world, state = make_world(problem), first_state(problem)
        except LookupError as error:
            raise FormatError(
                f"the game {script.task!r} can't be played: nothing says where {error} is"
            ) from error
        return cls(world=world, first_state=state, task=script.task)
