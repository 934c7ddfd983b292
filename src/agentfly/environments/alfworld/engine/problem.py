"""A game as a PDDL problem: the ids and facts at its start, and its goal."""

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from agentfly.environments.alfworld.engine.goal import Goal
from agentfly.errors import FormatError

BAR = "_bar_"
"""Separator of kind and position in an id."""


def display_names(ids: Iterable[str]) -> dict[str, str]:
    """Return the display name of each id; objects of a kind are numbered from last to first.

    >>> display_names(["mug_bar_a", "mug_bar_b", "sink_bar_1_bar_sinkbasin", "agent1"])
    {'mug_bar_a': 'mug 2', 'mug_bar_b': 'mug 1', 'sink_bar_1_bar_sinkbasin': 'sinkbasin 1'}
    """
    kinds = {thing: _kind(thing) for thing in sorted(ids) if BAR in thing}
    left = Counter(kinds.values())
    names = {}
    for thing, kind in kinds.items():
        names[thing] = f"{kind} {left[kind]}"
        left[kind] -= 1
    return names


def make_id(kind: str, number: int) -> str:
    """Return an id whose kind `display_names` can read.

    >>> make_id("drawer", 3), make_id("sinkbasin", 1)
    ('drawer_bar_03', 'sink_bar_01_bar_sinkbasin')
    """
    if kind.endswith("basin"):
        return f"{kind.removesuffix('basin')}{BAR}{number:02d}{BAR}{kind}"
    return f"{kind}{BAR}{number:02d}"


def _kind(thing: str) -> str:
    kind = thing.partition(BAR)[0]
    return f"{kind}basin" if "basin" in thing else kind


Fact = tuple[str, ...]
"""A predicate's arguments, such as `("mug_bar_1", "desk_bar_1")`."""

_FACT = re.compile(r"\(([a-z]+) ([^()]+)\)")

_TYPES_OF_ARGUMENTS = {
    "atlocation": ("agent", "location"),
    "receptacleatlocation": ("receptacle", "location"),
    "objectatlocation": ("object", "location"),
    "inreceptacle": ("object", "receptacle"),
    "inreceptacleobject": ("object", "object"),
    "receptacletype": ("receptacle", "rtype"),
    "objecttype": ("object", "otype"),
    "cancontain": ("rtype", "otype"),
    "openable": ("receptacle",),
    "isreceptacleobject": ("object",),
    "pickupable": ("object",),
    "cleanable": ("object",),
    "heatable": ("object",),
    "coolable": ("object",),
    "sliceable": ("object",),
    "toggleable": ("object",),
    "iscool": ("object",),
}
"""Types of the arguments of the facts that games start with."""

_NAMED_BY_ACTIONS = {
    "sinkbasintype": "rtype",
    "microwavetype": "rtype",
    "fridgetype": "rtype",
    "knifetype": "otype",
    "butterknifetype": "otype",
}
"""Kinds that the domain's actions name: every problem must declare them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """Facts by predicate, all in lower case as the planner reads them."""

    facts: Mapping[str, tuple[Fact, ...]]
    goal: Goal

    def pairs(self, predicate: str) -> tuple[tuple[str, str], ...]:
        """Return the facts of a predicate that has two arguments."""
        return tuple((first, second) for first, second in self.facts.get(predicate, ()))

    def singles(self, predicate: str) -> frozenset[str]:
        """Return the arguments of a predicate that has one."""
        return frozenset(fact[0] for fact in self.facts.get(predicate, ()))

    def ids(self) -> set[str]:
        """Return all ids in the facts."""
        return {thing for facts in self.facts.values() for fact in facts for thing in fact}

    @classmethod
    def from_pddl(cls, text: str) -> "Problem":
        """Parse a problem's text; raise FormatError if it is not of this domain."""
        _, has_facts, rest = text.lower().partition("(:init")
        facts, has_goal, goal = rest.partition("(:goal")
        if not (has_facts and has_goal):
            raise FormatError("it is no PDDL problem: it lacks `(:init` or `(:goal`")
        # The brackets that close the goal and the whole problem are not part of its condition.
        condition = goal.rstrip().removesuffix(")").rstrip().removesuffix(")")
        return cls(facts=_by_predicate(_FACT.findall(facts)), goal=Goal.from_pddl(condition))

    def to_pddl(self) -> str:
        """Write the problem as PDDL."""
        types = dict(_NAMED_BY_ACTIONS)
        lines = []
        for predicate, facts in self.facts.items():
            for fact in facts:
                types.update(zip(fact, _TYPES_OF_ARGUMENTS[predicate], strict=True))
                lines.append(f"({predicate} {' '.join(fact)})")
        objects = "\n".join(f"{thing} - {kind}" for thing, kind in types.items())
        return (
            f"(define (problem game)\n(:domain alfred)\n(:objects\n{objects}\n)\n(:init\n"
            + "\n".join(lines)
            + f"\n)\n(:goal {self.goal.to_pddl()})\n)\n"
        )


def _by_predicate(found: Iterable[tuple[str, str]]) -> dict[str, tuple[Fact, ...]]:
    facts: dict[str, dict[Fact, None]] = defaultdict(dict)
    for predicate, arguments in found:
        fact = tuple(arguments.split())
        if len(fact) != len(_TYPES_OF_ARGUMENTS.get(predicate, ())):
            raise FormatError(f"it has the unknown fact `({predicate} {arguments})`")
        facts[predicate][fact] = None
    return {predicate: tuple(each) for predicate, each in facts.items()}
