"""A game: its world, its state at the start, and its task in words."""

from dataclasses import dataclass

from agentfly.environments.alfworld.engine.problem import Problem
from agentfly.environments.alfworld.engine.state import State, first_state
from agentfly.environments.alfworld.engine.world import World, make_world
from agentfly.errors import FormatError


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
