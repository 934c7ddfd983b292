"""The fast engine: the benchmark's games as a small state machine."""

from functools import partial

from agentfly.environments.alfworld.engine.actions import Action, actions_here, go_to
from agentfly.environments.alfworld.engine.game import Game
from agentfly.environments.alfworld.engine.goal_progress import is_won
from agentfly.environments.alfworld.engine.state import State
from agentfly.environments.alfworld.engine.wording import NOTHING_HAPPENS, introduction


class FastEngine:
    """Plays a game as TextWorld does, byte for byte, in microseconds a step."""

    __slots__ = ("_actions", "game", "state")

    def __init__(self, game: Game, state: State | None = None) -> None:
        self.game = game
        self.state = state or game.first_state.clone()
        self._actions: dict[str, Action] | None = None

    def start(self) -> str:
        """Begin anew, and return what is said first."""
        self.state = self.game.first_state.clone()
        self._actions = None
        return introduction(self.game.world, self.state, self.game.task)

    def step(self, command: str) -> str:
        """Do what a command says, and return what is said of it."""
        world, command = self.game.world, command.strip()
        receptacle = world.go_commands.get(command)
        action = self._here().get(command) if receptacle is None else self._going(receptacle)
        if action is None:
            return NOTHING_HAPPENS
        self._actions = None
        return action(world, self.state)

    def try_step(self, command: str) -> bool:
        """Do what a command says; tell whether it was possible."""
        return self.step(command) != NOTHING_HAPPENS

    def commands(self) -> list[str]:
        """Return what can be done now, in the order of the alphabet."""
        go_commands = self.game.world.go_commands.items()
        away = [command for command, receptacle in go_commands if self._going(receptacle)]
        return sorted([*away, *self._here()])

    @property
    def won(self) -> bool:
        """Whether the goal is reached."""
        return is_won(self.game.world, self.state)

    def clone(self) -> "FastEngine":
        """Return a copy that plays on by itself."""
        return FastEngine(self.game, self.state.clone())

    def _going(self, receptacle: int) -> Action | None:
        """Return the way to a receptacle; None if one stands before it already."""
        if self.game.world.receptacles[receptacle].place == self.state.place:
            return None
        return partial(go_to, number=receptacle)

    def _here(self) -> dict[str, Action]:
        if self._actions is None:
            self._actions = actions_here(self.game.world, self.state)
        return self._actions
