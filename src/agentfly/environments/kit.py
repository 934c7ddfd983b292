"""Definitions of environments: everything that makes a source of tasks from a name."""

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
    """The parts of an environment, made with given options."""

    tasks: Rows
    """Rows to train on."""
    eval_tasks: Rows
    """Held-out rows, which share no answer with the training rows."""
    tools: tuple[Tool, ...]
    reward: Reward | None = None
    """Reward of a chain; None if the environment rewards its own steps."""
    environment: EnvSpec | None = None
    """Spec of an environment that sends the first message; not needed if only tools use it."""
    system_prompt: str | None = None
    max_turns: int | None = None
    expert: Player | None = None
    """Player that sees what the model sees, and at most the public fields of the task."""
    gold: Player | None = None
    """Player of known solutions: a task that it can't finish with full reward is broken.
    The expert by default."""
    random: Player | None = None
    """Player of random possible actions, a lower bound for trained models."""
    pages: Callable[[Listen], AbstractContextManager[str]] | None = None
    """Context manager that serves pages for people, and yields their address."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EnvironmentDefinition(Generic[Options]):
    """A named environment with options, from which kits are made."""

    name: str
    summary: str
    """Description in one line."""
    options: type[Options]
    """Settings of the table `source.options`, each with a default."""
    make: Callable[[Options], Kit]
    requires: Callable[[], str | None] = lambda: None
    """Returns what is missing on this machine and how to install it; None if nothing is."""
