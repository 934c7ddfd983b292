"""One world of the simulator, in which tasks are loaded and played."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from agentfly.environments.scienceworld.simulator.jvm_pool import JvmPool, jvm_pool
from agentfly.environments.scienceworld.simulator.py4j_client import (
    ConnectionLostError,
    Reference,
    RemoteError,
)
from agentfly.environments.scienceworld.tasks import effective_simplifications
from agentfly.errors import EnvError

STEP_SECONDS = 60.0
"""Time limit of an action, which takes milliseconds, and of a list of all valid ones, seconds."""
LOAD_SECONDS = 240.0
"""Time limit of a load. Most take under a second, genetics ten; ten times that under load."""
GOLD_SECONDS = 900.0
"""Time limit of a search for a gold path, in the worst case thousands of actions."""

_CLASS = "scienceworld.runtime.pythonapi.PythonInterface"


@dataclass(frozen=True, slots=True, kw_only=True)
class StepResult:
    """State of the world after an action."""

    text: str
    score: int
    """0 to 100; -100 after a wrong focus."""
    completed: bool
    moves: int
    """Number of actions that took time: looking does not."""
    look: str
    inventory: str


class World:
    """A world for one task and one caller at a time. All failures are EnvErrors."""

    def __init__(
        self, pool: JvmPool | None = None, simplifications: frozenset[str] = frozenset()
    ) -> None:
        """Enter a JVM of worlds with these simplifications; a load with others moves it."""
        self._jvm_pool = pool or jvm_pool()
        self._enter(simplifications)

    def _enter(self, simplifications: frozenset[str]) -> None:
        self._jvm = self._jvm_pool.acquire(simplifications)
        self._inside = True
        try:
            self._connection = self._jvm.connect()
            self._me = self._made()
        except BaseException:
            self._leave()
            raise

    @property
    def alive(self) -> bool:
        """Whether its JVM is alive."""
        return self._inside and self._jvm.alive

    @property
    def pid(self) -> int:
        """Process id of its JVM."""
        return self._jvm.pid

    def load(self, task: str, variation: int, simplifications: str) -> None:
        """Load a task, with exclusive use of the JVM."""
        self._load(task, variation, simplifications, gold=False, seconds=LOAD_SECONDS)

    def gold_path(self, task: str, variation: int, simplifications: str) -> list[str]:
        """Find actions that lead to 100 points. Call `load` before playing again."""
        self._load(task, variation, simplifications, gold=True, seconds=GOLD_SECONDS)
        return self._texts("getGoldActionSequence")

    def step(self, action: str) -> StepResult:
        """Perform an action."""
        asked = (("step", action), *_STANDING)
        with self._simulator_errors(f"doing {action!r}"), self._jvm.lock.shared():
            answers: list[Any] = self._connection.call_all(self._me, asked, seconds=STEP_SECONDS)
        text, score, completed, moves, look, inventory = answers
        return StepResult(
            text=text.strip(),
            score=round(100 * score),
            completed=completed,
            moves=moves,
            look=look.strip(),
            inventory=inventory.strip(),
        )

    def description(self) -> str:
        """Return the task in words."""
        with self._simulator_errors("describing the task"), self._jvm.lock.shared():
            text = self._connection.call(self._me, "getTaskDescription", seconds=STEP_SECONDS)
        return str(text).strip()

    def templates(self) -> list[str]:
        """List the kinds of actions, such as `move OBJ to OBJ`."""
        return self._texts("getPossibleActions")

    def objects(self) -> list[str]:
        """List the names of the objects here."""
        return self._texts("getPossibleObjects")

    def valid_actions(self) -> list[str]:
        """List every action with an effect now: often a thousand, and slow."""
        return self._texts("getValidActionObjectCombinations")

    def close(self) -> None:
        """Leave the JVM."""
        if not self._inside:
            return
        try:
            if self._jvm.alive:
                with self._simulator_errors("leaving"), self._jvm.lock.shared():
                    self._connection.forget(self._me, seconds=STEP_SECONDS)
        except EnvError:
            pass  # In a JVM that has died the object is gone too.
        finally:
            self._connection.close()
            self._leave()

    def _made(self) -> Reference:
        try:
            with self._simulator_errors("making a world"), self._jvm.lock.exclusive():
                return self._connection.make(_CLASS, seconds=LOAD_SECONDS)
        except BaseException:
            self._connection.close()
            raise

    def _leave(self) -> None:
        self._inside = False
        self._jvm_pool.release(self._jvm)

    def _load(
        self, task: str, variation: int, simplifications: str, *, gold: bool, seconds: float
    ) -> None:
        self._move(effective_simplifications(task, simplifications))
        arguments = (task, variation, simplifications, gold)
        with self._simulator_errors(f"loading {task} {variation}"), self._jvm.lock.exclusive():
            self._connection.call(self._me, "load", *arguments, seconds=seconds)

    def _move(self, simplifications: frozenset[str]) -> None:
        """Leave for a JVM of these simplifications, unless it is in one."""
        if self._jvm.simplifications != simplifications:
            self.close()
            self._enter(simplifications)

    def _texts(self, method: str) -> list[str]:
        """Call a method that returns a list of texts, and fetch them in one message."""
        with self._simulator_errors(method), self._jvm.lock.shared():
            listed = self._connection.call(self._me, method, seconds=STEP_SECONDS)
            assert isinstance(listed, Reference), "lists stay in the JVM"
            joined = self._connection.call(*_JOIN, listed, seconds=STEP_SECONDS)
            self._connection.forget(listed, seconds=STEP_SECONDS)
        return str(joined).split("\n") if joined else []

    @contextmanager
    def _simulator_errors(self, doing: str) -> Iterator[None]:
        """Turn failures into EnvErrors. A JVM that hangs or lost its connection is ended."""
        try:
            yield
        except RemoteError as error:
            raise EnvError(f"{doing}: the simulator raised {error}") from error
        except ConnectionLostError as error:
            reason = f"{doing}: the simulator's JVM failed, {error}"
            self._jvm.end(f"the simulator's JVM failed in another chain, {error}")
            raise EnvError(reason) from error


_STANDING = (
    ("getScore",),
    ("getCompleted",),
    ("getNumMoves",),
    ("freeActionLook",),
    ("freeActionInventory",),
)
_JOIN = ("z:java.lang.String", "join", "\n")
