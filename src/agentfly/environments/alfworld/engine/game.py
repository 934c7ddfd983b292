"""What never changes in a game: its furniture, its things, where one can go."""

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


Pair = tuple[int, int]


@dataclass(slots=True, kw_only=True)
class State:
    """Where everything is, and what was done to it. Numbers are positions in the world."""

    place: int
    held: int | None = None
    inside: list[tuple[int, ...]]
    """The things in each receptacle, in order."""
    lying: set[Pair]
    """Which thing lies at which place, as the domain keeps it beside what lies in what."""
    left: set[Pair] = field(default_factory=set)
    """Which thing was taken out of which receptacle and not put back."""
    opened: set[int] = field(default_factory=set)
    toggled: set[int] = field(default_factory=set)
    clean: set[int] = field(default_factory=set)
    hot: set[int] = field(default_factory=set)
    cool: set[int] = field(default_factory=set)
    sliced: set[int] = field(default_factory=set)

    def clone(self) -> "State":
        """Copy it; neither sees what is done to the other."""
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
        # The version before objects are written as references, which differ between equal values.
        whole = marshal.dumps((self.place, self.held, self.inside, sets), 2)
        return hashlib.blake2b(whole, digest_size=8).hexdigest()


def first_state(problem: Problem) -> State:
    """Return the state at a game's start."""
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
    """A game as it is written down."""

    problem: Problem
    task: str
    """The goal in words, such as `put a hot egg in fridge.`"""
    text: str | None = None
    """The problem as it stands in a file, if it was read from one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Game:
    """A game ready to be played. Never changed: an engine copies the first state."""

    world: World
    first_state: State
    task: str

    @classmethod
    def of(cls, script: Script) -> "Game":
        """Make what is written ready to be played; FormatError if something is nowhere."""
        problem = script.problem
        try:
            world, state = make_world(problem), first_state(problem)
        except LookupError as error:
            raise FormatError(
                f"the game {script.task!r} can't be played: nothing says where {error} is"
            ) from error
        return cls(world=world, first_state=state, task=script.task)
