"""The 30 tasks, their variations, and the split into training and held-out ones."""

from collections.abc import Collection, Iterable, Iterator
from itertools import chain, zip_longest
from types import MappingProxyType
from typing import Literal, TypedDict, get_args

from agentfly.errors import ConfigError
from agentfly.runtime.names import require_name

Split = Literal["train", "dev", "test"]

Simplification = Literal[
    "easy",
    "teleportAction",
    "openDoors",
    "openContainers",
    "selfWateringFlowerPots",
    "noElectricalAction",
]
"""Simplification of a task; `easy` is all of them that leave it solvable."""

SIMPLIFICATIONS: tuple[Simplification, ...] = get_args(Simplification)

VARIATIONS = MappingProxyType(
    {
        "boil": 30,
        "change-the-state-of-matter-of": 30,
        "chemistry-mix": 32,
        "chemistry-mix-paint-secondary-color": 36,
        "chemistry-mix-paint-tertiary-color": 36,
        "find-animal": 300,
        "find-living-thing": 300,
        "find-non-living-thing": 300,
        "find-plant": 300,
        "freeze": 30,
        "grow-fruit": 126,
        "grow-plant": 126,
        "identify-life-stages-1": 14,
        "identify-life-stages-2": 10,
        "inclined-plane-determine-angle": 168,
        "inclined-plane-friction-named-surfaces": 1386,
        "inclined-plane-friction-unnamed-surfaces": 162,
        "lifespan-longest-lived": 125,
        "lifespan-longest-lived-then-shortest-lived": 125,
        "lifespan-shortest-lived": 125,
        "measure-melting-point-known-substance": 436,
        "measure-melting-point-unknown-substance": 300,
        "melt": 30,
        "mendelian-genetics-known-plant": 120,
        "mendelian-genetics-unknown-plant": 480,
        "power-component": 20,
        "power-component-renewable-vs-nonrenewable-energy": 20,
        "test-conductivity": 900,
        "test-conductivity-of-unknown-substances": 600,
        "use-thermometer": 540,
    }
)
"""Number of variations of each task in the simulator."""


class Row(TypedDict):
    """One task as a row."""

    id: str
    task: str
    variation: int
    simplifications: str
    """Comma-separated names, as the simulator takes them, such as `openDoors,teleportAction`."""


def variations(task: str, split: Split) -> range:
    """Return a task's variations of a split, divided as in the simulator.

    >>> [variations("boil", split) for split in ("train", "dev", "test")]
    [range(0, 14), range(14, 21), range(21, 30)]
    """
    count = VARIATIONS[require_task(task)]
    quarter = count // 4
    places = {"train": (0, 2 * quarter), "dev": (2 * quarter, 3 * quarter)}
    return range(*places.get(split, (3 * quarter, count)))


def rows(
    tasks: Iterable[str], split: Split, simplifications: Collection[str], most: int | None
) -> Iterator[Row]:
    """Yield at most `most` variations of each task, in turn, so that a first part has all tasks.

    >>> [row["id"] for row in rows(["boil", "melt"], "dev", (), 2)]
    ['boil-14', 'melt-14', 'boil-15', 'melt-15']
    """
    text = ",".join(sorted(simplifications))
    of_tasks = [
        [
            Row(id=f"{task}-{variation}", task=task, variation=variation, simplifications=text)
            for variation in variations(task, split)[:most]
        ]
        for task in tasks
    ]
    yield from filter(None, chain.from_iterable(zip_longest(*of_tasks)))


def require_task(name: str) -> str:
    """Return the name of a task; raise ConfigError with the nearest ones if it is unknown."""
    return require_name(name, VARIATIONS, "scienceworld task")


def effective_simplifications(task: str, simplifications: str) -> frozenset[str]:
    """Return the simplifications in force; what `easy` stands for depends on the task.

    >>> sorted(effective_simplifications("test-conductivity", "easy"))
    ['openDoors', 'selfWateringFlowerPots', 'teleportAction']
    """
    chosen = frozenset(filter(None, simplifications.split(",")))
    if "easy" not in chosen:
        return chosen
    return chosen - {"easy"} | (_EASY if _is_electrical(task) else _EASY | {"noElectricalAction"})


_EASY = frozenset({"openDoors", "selfWateringFlowerPots", "teleportAction"})


def _is_electrical(task: str) -> bool:
    return "power-component" in task or "conductivity" in task


def require_solvable(tasks: Iterable[str], simplifications: Collection[str]) -> None:
    """Raise ConfigError for tasks that a simplification makes unsolvable."""
    electrical = [name for name in tasks if _is_electrical(name)]
    if electrical and "noElectricalAction" in simplifications:
        raise ConfigError(
            f"{', '.join(electrical)} can't be solved with the simplification noElectricalAction: "
            "leave one of the two out"
        )


def read_row(fields: object) -> tuple[str, int, str]:
    """Return task, variation and simplifications of a row; raise ConfigError if it is invalid.

    >>> read_row({"task": "boil", "variation": 3, "simplifications": ""})
    ('boil', 3, '')
    """
    match fields:
        case {"task": str(task), "variation": int(number), "simplifications": str(simplified)}:
            if number not in range(VARIATIONS[require_task(task)]):
                raise ConfigError(
                    f"{task} has the variations 0 to {VARIATIONS[task] - 1}, got {number}"
                )
            require_known_simplifications(simplified)
            return task, number, simplified
    raise ConfigError(
        "a row of scienceworld has a task, a variation and simplifications, such as "
        f"{{'task': 'boil', 'variation': 3, 'simplifications': 'easy'}}; got {fields!r}"
    )


def require_known_simplifications(simplified: str) -> None:
    """Raise ConfigError for an unknown simplification, which the simulator would accept."""
    for name in filter(None, simplified.split(",")):
        require_name(name, SIMPLIFICATIONS, "simplification")
