"""What changes in a game: some kilobytes, which can be copied at any moment."""

import hashlib
import marshal
from dataclasses import dataclass, field

from agentfly.environments.alfworld.engine.problem import Problem
from agentfly.environments.alfworld.engine.world import Index

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
