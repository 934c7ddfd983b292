"""The goal of a game: one of the six kinds of task, for kinds of objects."""

import re
from dataclasses import dataclass
from typing import Literal, get_args

from agentfly.errors import FormatError

TaskType = Literal[
    "pick_and_place_simple",
    "look_at_obj_in_light",
    "pick_clean_then_place_in_recep",
    "pick_heat_then_place_in_recep",
    "pick_cool_then_place_in_recep",
    "pick_two_obj_and_place",
]
TASK_TYPES: tuple[TaskType, ...] = get_args(TaskType)

Treatment = Literal["clean", "heat", "cool"]
TREATMENTS: dict[TaskType, Treatment] = {
    "pick_clean_then_place_in_recep": "clean",
    "pick_heat_then_place_in_recep": "heat",
    "pick_cool_then_place_in_recep": "cool",
}
"""Treatment of the object before it is put down, for the tasks that need one."""

APPLIANCES: dict[Treatment, str] = {"clean": "sinkbasin", "heat": "microwave", "cool": "fridge"}
"""Kind of receptacle where each treatment is done."""

SENTENCES: dict[TaskType, tuple[str, ...]] = {
    "pick_and_place_simple": ("put a {item} in {receptacle}", "put some {item} on {receptacle}"),
    "look_at_obj_in_light": (
        "look at {item} under the {lamp}",
        "examine the {item} with the {lamp}",
    ),
    "pick_clean_then_place_in_recep": (
        "put a clean {item} in {receptacle}",
        "clean some {item} and put it in {receptacle}",
    ),
    "pick_heat_then_place_in_recep": (
        "put a hot {item} in {receptacle}",
        "heat some {item} and put it in {receptacle}",
    ),
    "pick_cool_then_place_in_recep": (
        "put a cool {item} in {receptacle}",
        "cool some {item} and put it in {receptacle}",
    ),
    "pick_two_obj_and_place": (
        "put two {item} in {receptacle}",
        "find two {item} and put them in {receptacle}",
    ),
}
"""Wordings of each kind of task, as in the benchmark."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Goal:
    """A task for kinds of objects.

    The generator hashes its `repr`, so renaming the class or a field changes the generated games.

    >>> goal = Goal(task_type="pick_heat_then_place_in_recep", item="egg", receptacle="fridge")
    >>> goal.sentence(), goal.treatment
    ('put a hot egg in fridge.', 'heat')
    """

    task_type: TaskType
    item: str
    receptacle: str = ""
    """Target; empty where the object has to be looked at."""
    lamp: str = ""
    """Lamp to look at the object with; empty where it has to be put somewhere."""

    @property
    def treatment(self) -> Treatment | None:
        """Treatment of the object, if any."""
        return TREATMENTS.get(self.task_type)

    @property
    def count(self) -> int:
        """Number of objects to bring."""
        return 2 if self.task_type == "pick_two_obj_and_place" else 1

    def sentence(self, form: int = 0) -> str:
        """Return the goal in one of the benchmark's two wordings."""
        words = SENTENCES[self.task_type][form]
        return words.format(item=self.item, receptacle=self.receptacle, lamp=self.lamp) + "."

    def to_pddl(self) -> str:
        """Write the goal as a PDDL condition.

        >>> Goal(task_type="pick_and_place_simple", item="mug", receptacle="desk").to_pddl()[:43]
        '(and (exists (?r - receptacle) (exists (?o '
        """
        return _CONDITIONS[self.task_type].format(
            item=self.item, receptacle=self.receptacle, lamp=self.lamp
        )

    @classmethod
    def from_pddl(cls, condition: str) -> "Goal":
        """Parse a condition in lower case; raise FormatError if it is none of the six kinds."""
        condition = " ".join(condition.split())
        found = {name: _one(pattern, condition) for name, pattern in _KINDS.items()}
        for task_type in TASK_TYPES:
            goal = cls(task_type=task_type, **found)
            if _squeezed(goal.to_pddl()) == _squeezed(condition):
                return goal
        raise FormatError(
            f"its goal is none of the {len(TASK_TYPES)} kinds of task, but {condition!r}"
        )


_PLACED = (
    "(and (exists (?r - receptacle) (exists (?o - object) (and ({able} ?o) "
    "(objecttype ?o {{item}}type) (receptacletype ?r {{receptacle}}type) ({done} ?o) "
    "(inreceptacle ?o ?r)))))"
)

_CONDITIONS: dict[TaskType, str] = {
    "pick_and_place_simple": (
        "(and (exists (?r - receptacle) (exists (?o - object) (and (inreceptacle ?o ?r) "
        "(objecttype ?o {item}type) (receptacletype ?r {receptacle}type)))))"
    ),
    "look_at_obj_in_light": (
        "(and (exists (?ot - object ?r - receptacle ?a - agent ?l - location) (and "
        "(objecttype ?ot {lamp}type) (toggleable ?ot) (istoggled ?ot) "
        "(receptacleatlocation ?r ?l) (atlocation ?a ?l) (inreceptacle ?ot ?r))) "
        "(exists (?o - object ?a - agent) (and (objecttype ?o {item}type) (holds ?a ?o))))"
    ),
    "pick_clean_then_place_in_recep": _PLACED.format(able="cleanable", done="isclean"),
    "pick_heat_then_place_in_recep": _PLACED.format(able="heatable", done="ishot"),
    "pick_cool_then_place_in_recep": _PLACED.format(able="coolable", done="iscool"),
    "pick_two_obj_and_place": (
        "(and (exists (?r - receptacle) (exists (?o1 - object) (and (objecttype ?o1 {item}type) "
        "(receptacletype ?r {receptacle}type) (inreceptacle ?o1 ?r) (exists (?o2 - object) (and "
        "(not (= ?o1 ?o2)) (objecttype ?o2 {item}type) (receptacletype ?r {receptacle}type) "
        "(inreceptacle ?o2 ?r)))))))"
    ),
}
"""PDDL conditions as in the benchmark's files, apart from white space."""

_KINDS = {
    "item": re.compile(r"objecttype \?o[12]? (\w+)type"),
    "receptacle": re.compile(r"receptacletype \?r (\w+)type"),
    "lamp": re.compile(r"objecttype \?ot (\w+)type"),
}


def _one(pattern: re.Pattern[str], text: str) -> str:
    found = pattern.search(text)
    return found.group(1) if found else ""


def _squeezed(text: str) -> str:
    return "".join(text.split())
