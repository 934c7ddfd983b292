"""The environment: one game for one chain, played by either engine."""

from threading import Lock
from typing import ClassVar, Protocol

from agentfly.environments.alfworld.engine.fast import FastEngine
from agentfly.environments.alfworld.engine.game import Game, State
from agentfly.environments.alfworld.engine.goal_progress import progress
from agentfly.environments.alfworld.engine.textworld import TextWorldEngine
from agentfly.environments.alfworld.engine.wording import NOTHING_HAPPENS, WELCOME
from agentfly.environments.alfworld.tasks import load_game, load_script, require_file_in_data
from agentfly.errors import EnvError
from agentfly.resources import ClientOptions, Pooling
from agentfly.types import Seed, Step, Task

OVER = "The game is over."
COMMANDS = "\nYou can: "
"""Text between an observation and the list of possible commands."""


class Engine(Protocol):
    """Interface of an engine that plays one game."""

    @property
    def game(self) -> Game:
        """Game that is played."""

    @property
    def state(self) -> State:
        """Current state of the game."""

    @property
    def won(self) -> bool:
        """Whether the goal is reached."""

    def start(self) -> str:
        """Restart the game; return its first text."""

    def step(self, command: str) -> str:
        """Perform a command; return its text."""

    def commands(self) -> list[str]:
        """List the commands that are possible now."""


class Alfworld:
    """A room in which objects have to be found, treated and put somewhere, by text commands."""

    pooling: ClassVar[Pooling] = Pooling(max_instances=4096)
    client_options: ClassVar[ClientOptions] = {
        "show_commands": (False, True),
        "subgoals": (False, True),
        "penalty": tuple(number / 100 for number in range(101)),
    }

    def __init__(
        self,
        *,
        show_commands: bool = False,
        subgoals: bool = False,
        penalty: float = 0.0,
        data: str | None = None,
    ) -> None:
        """Choose what a step shows and is rewarded for.

        Args:
            show_commands: Whether each observation ends with the commands that are possible.
            subgoals: Whether a step is rewarded for its share of the progress, instead of only the
                last one for winning. Either way the rewards of a game that is won add up to 1.
            penalty: Taken off the reward of a step whose command was impossible.
            data: The folder of the benchmark's games. Files elsewhere are never read, even if a
                task names one; without it only generated games can be played.
        """
        self.won = False
        self._show_commands = show_commands
        self._subgoals = subgoals
        self._penalty = penalty
        self._data = data
        self._engine: Engine | None = None
        self._progress = self._start_progress = 0.0
        # A call that timed out may still run in its thread when the next one begins.
        self._lock = Lock()

    def reset(self, task: Task, seed: Seed) -> Step:
        """Start a task's game. The seed is unused: a game has no randomness."""
        del seed
        require_file_in_data(task.fields, self._data)
        with self._lock:
            self._engine = self._open(task)
            text = self._engine.start().removeprefix(WELCOME)
            self.won = self._engine.won
            self._progress = self._start_progress = self._progress_now()
            return Step(observation=self._shown(text), state_key=self._engine.state.key())

    def step(self, action: str) -> Step:
        """Perform a command; an impossible one changes nothing."""
        with self._lock:
            engine = self._playing()
            if self.won:
                return Step(observation=OVER, reward=0.0, done=True, state_key=engine.state.key())
            text = engine.step(action)
            self.won, impossible = engine.won, text == NOTHING_HAPPENS
            return Step(
                observation=text if self.won else self._shown(text),
                reward=self._reward() - self._penalty * impossible,
                done=self.won,
                info={"won": self.won},
                state_key=engine.state.key(),
                invalid=impossible,
            )

    @property
    def progress(self) -> float:
        """Progress so far, as a share of all that was missing at the start."""
        return (self._progress - self._start_progress) / (1.0 - self._start_progress)

    def commands(self) -> list[str]:
        """List the commands that are possible now."""
        with self._lock:
            return self._playing().commands()

    def close(self) -> None:
        """Drop the game."""
        self._engine = None

    def _open(self, task: Task) -> Engine:
        return FastEngine(load_game(task.fields))

    def _playing(self) -> Engine:
        if self._engine is None:
            raise EnvError("no game is being played: call reset with a task first")
        return self._engine

    def _shown(self, text: str) -> str:
        return (
            text + COMMANDS + ", ".join(self._playing().commands()) if self._show_commands else text
        )

    def _progress_now(self) -> float:
        engine = self._playing()
        return progress(engine.game.world, engine.state) if self._subgoals else float(engine.won)

    def _reward(self) -> float:
        """Return the progress of the last step."""
        before, self._progress = self.progress, self._progress_now()
        return self.progress - before


class AlfworldTextWorld(Alfworld):
    """The same environment through TextWorld, in a separate process as it is not thread-safe."""

    pooling: ClassVar[Pooling] = Pooling(
        where="process",
        max_instances=8,
        max_uses=100,
        memory_mb=400,
        make_seconds=120.0,
        reset_seconds=120.0,
    )

    def _open(self, task: Task) -> Engine:
        return TextWorldEngine(load_script(task.fields))
