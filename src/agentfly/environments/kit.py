"""What a ready-made environment brings along, so that its name alone makes a source of tasks."""

from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from agentfly.config import Settings
from agentfly.environments.player import Player
from agentfly.runtime.http.address import Listen
from agentfly.types import EnvSpec, Reward, Tool

Options = TypeVar("Options", bound=Settings)

Rows = Callable[[], Iterable[Mapping[str, Any]]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Kit:
    """Everything of one environment, made with one choice of its options."""

    tasks: Rows
    """Rows to train on."""
    eval_tasks: Rows
    """Held-out rows, which share no answer with those."""
    tools: tuple[Tool, ...]
    reward: Reward | None = None
    """None where the environment's own steps are rewarded."""
    environment: EnvSpec | None = None
    """Given if it speaks first. One that only tools use is known by their specs."""
    system_prompt: str | None = None
    max_turns: int | None = None
    expert: Player | None = None
    """Plays well with what the model sees, and the task's public fields at most."""
    gold: Player | None = None
    """Plays what is known to be right: every task that it can't finish with full marks is broken.
    The expert by default."""
    random: Player | None = None
    """Plays any action that is possible: the level below which nothing was learned."""
    pages: Callable[[Listen], AbstractContextManager[str]] | None = None
    """Serves pages for a person while a block runs, and gives their address."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EnvironmentDefinition(Generic[Options]):
    """An entry of the catalog."""

    name: str
    summary: str
    """One line."""
    options: type[Options]
    """What can be chosen in a run's table `source.options`, each with a default."""
    make: Callable[[Options], Kit]
    requires: Callable[[], str | None] = lambda: None
    """Says what is missing on this machine and how to get it; None if all is there."""
