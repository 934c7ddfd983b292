"""The environment: one world of the simulator for one chain; suggestions for unknown actions."""

import hashlib
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from difflib import SequenceMatcher, get_close_matches
from threading import Lock
from typing import ClassVar, Literal

from agentfly.environments.scienceworld.simulator.world import (
    LOAD_SECONDS,
    STEP_SECONDS,
    StepResult,
    World,
)
from agentfly.environments.scienceworld.tasks import effective_simplifications, read_row
from agentfly.errors import EnvError
from agentfly.resources import ClientOptions, Pooling
from agentfly.types import Seed, Step, Task

OVER = "The task is over."

NOT_UNDERSTOOD = "No known action matches that input."
"""The simulator's answer to an unknown action."""
UNKNOWN_ACTION = "Unknown action."
"""Start of its answer if it asked which of several actions was meant and got no number."""
MIN_SIMILARITY = 0.6
"""Minimum similarity, from 0 to 1, of an action to its suggestion."""
MIN_NAME_SIMILARITY = 0.5
"""Minimum similarity of two names; lower, as names are often shortened."""
NOT_SUGGESTED = ("reset task",)

Shown = Literal["look", "room", "inventory", "task", "actions"]
"""Possible additions to an observation: the room, the room where it is another one than before,
the inventory, the task, the valid actions."""


class ScienceWorld:
    """A house with a workshop, a greenhouse and a garden, for experiments by text actions.

    After a reset and after every step, `score` holds the points so far, 0 to 100.
    """

    # Closing waits until no other world of its JVM loads a task.
    pooling: ClassVar[Pooling] = Pooling(
        max_instances=32, memory_mb=80, close_seconds=LOAD_SECONDS + STEP_SECONDS
    )
    client_options: ClassVar[ClientOptions] = {"penalty": (False, True)}

    def __init__(
        self, *, show: tuple[Shown, ...] = (), max_moves: int = 100, penalty: bool = False
    ) -> None:
        """Choose what a step shows, and how a task ends.

        Args:
            show: Additions at the end of every observation. Listing valid actions is slow.
            max_moves: Maximum number of actions that take time.
            penalty: Whether a wrong focus gives the simulator's own -100 points, instead of 0.
        """
        self.score = 0
        self._show = show
        self._max_moves = max_moves
        self._penalty = penalty
        self._over = False
        self._room = ""
        self._world: World | None = None
        # A call that timed out may still run in its thread when the next one begins.
        self._lock = Lock()

    def reset(self, task: Task, seed: Seed) -> Step:
        """Load a task and look around. The seed is unused: the variation determines the task."""
        del seed
        with self._lock:
            name, variation, simplified = read_row(task.fields)
            world = self._living_world(effective_simplifications(name, simplified))
            world.load(name, variation, simplified)
            result = world.step("look around")
            self.score, self._over, self._room = result.score, False, _room(result)
            first = [world.description(), result.text]
            shown = first + self._shown(result, without=("task", "look", "room"))
            return Step(observation="\n".join(shown), state_key=_key(result))

    def step(self, action: str) -> Step:
        """Perform an action; one that is not understood changes nothing."""
        with self._lock:
            if self._over:
                return Step(observation=OVER, reward=0.0, done=True)
            result = self._playing().step(action)
            before, self.score = self.score, self._points(result)
            wrong = result.score < 0
            self._over = result.completed or wrong or result.moves >= self._max_moves
            lines = [self._answer(action, result)]
            return Step(
                observation="\n".join(lines if self._over else lines + self._shown(result)),
                reward=(self.score - before) / 100,
                done=self._over,
                info={"score": self.score, "moves": result.moves, "wrong_focus": wrong},
                state_key=_key(result),
                invalid=_is_refused(action, result),
            )

    def things(self) -> str:
        """List the kinds of actions and the objects here: fast and short."""
        with self._lock:
            world = self._playing()
            kinds, things = ", ".join(world.templates()), ", ".join(world.objects())
            return f"Actions: {kinds}\nThings (OBJ): {things}"

    def valid_actions(self) -> list[str]:
        """List every action with an effect now: slow, and often a thousand."""
        with self._lock:
            return self._playing().valid_actions()

    def close(self) -> None:
        """Close the world."""
        with self._lock:
            if self._world is not None:
                self._world.close()
                self._world = None

    def _living_world(self, simplifications: frozenset[str]) -> World:
        if self._world is not None and not self._world.alive:
            self._world.close()
            self._world = None
        self._world = self._world or World(simplifications=simplifications)
        return self._world

    def _playing(self) -> World:
        if self._world is None:
            raise EnvError("no task is being played: call reset with a task first")
        return self._world

    def _points(self, result: StepResult) -> int:
        return result.score if self._penalty else max(result.score, 0)

    def _answer(self, action: str, result: StepResult) -> str:
        if not _is_refused(action, result):
            return result.text
        world = self._playing()
        meant = nearest_action(action, world.templates(), world.objects())
        return f"{result.text} Did you mean: {meant}" if meant else result.text

    def _shown(self, result: StepResult, without: tuple[Shown, ...] = ()) -> list[str]:
        world = self._playing()
        before, self._room = self._room, _room(result)
        if self._room == before:
            without = (*without, "room")
        ways: dict[Shown, Callable[[], str]] = {
            "look": lambda: result.look,
            "room": lambda: result.look,
            "inventory": lambda: result.inventory,
            "task": world.description,
            "actions": lambda: "You can: " + ", ".join(world.valid_actions()),
        }
        return [ways[what]() for what in self._show if what not in without]


def _is_refused(action: str, result: StepResult) -> bool:
    """Return whether an action was not understood.

    An empty answer to the question which action was meant is allowed: it cancels the question.
    """
    is_empty = not action.strip()
    is_unknown = result.text.startswith(UNKNOWN_ACTION) and not is_empty
    return is_unknown or result.text == NOT_UNDERSTOOD


def _room(result: StepResult) -> str:
    """Return the line that names the room."""
    return result.look.partition("\n")[0]


def _key(result: StepResult) -> str:
    """Return a key of the visible state: room, inventory and score."""
    seen = "\0".join((result.look, result.inventory, str(result.score)))
    return hashlib.blake2b(seen.encode(), digest_size=16).hexdigest()


def nearest_action(action: str, templates: Iterable[str], objects: Sequence[str]) -> str | None:
    """Return the most similar action with objects that are here, if any is similar enough.

    >>> nearest_action("put it there", ["move OBJ to OBJ", "eat OBJ"], ["apple", "red box"])
    >>> nearest_action("mov aple to the box", ["move OBJ to OBJ", "eat OBJ"], ["apple", "red box"])
    'move apple to red box'
    """
    written = " ".join(action.lower().split())
    likeness = {
        one: SequenceMatcher(None, written, one).ratio()
        for template in templates
        if template not in NOT_SUGGESTED
        for one in _filled(template, written, objects)
    }
    best = max(likeness, key=likeness.__getitem__, default=None)
    return best if best is not None and likeness[best] >= MIN_SIMILARITY else None


def _filled(template: str, written: str, objects: Sequence[str]) -> Iterator[str]:
    """Yield a template filled with the objects that a text seems to name.

    >>> list(_filled("pick up OBJ", "pickup aple", ["apple", "red box"]))
    ['pick up apple']
    """
    verb, *links = re.split(r" ?OBJ ?", template)
    if not links:
        yield template
        return
    count = len(verb.split())
    # One word less, for a verb whose two words were written as one.
    for skipped in (count, count - 1):
        rest = " ".join(written.split()[skipped:])
        named = rest.split(f" {links[0]} ", 1) if links[0] else [rest]
        things = [thing for name in named if (thing := _closest(name, objects))]
        if len(things) == len(links):
            pairs = zip(things, links, strict=True)
            yield " ".join(filter(None, (verb, *(part for pair in pairs for part in pair))))


def _closest(name: str, objects: Sequence[str]) -> str | None:
    return next(iter(get_close_matches(name, objects, n=1, cutoff=MIN_NAME_SIMILARITY)), None)
