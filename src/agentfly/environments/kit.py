"""Definitions of environments: everything that makes a source of tasks from a name."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, Generic, TypeVar, get_args, get_origin

from pydantic import ValidationInfo, field_validator

from agentfly.config import Settings
from agentfly.environments.player import Player
from agentfly.errors import ConfigError
from agentfly.runtime.http.address import Listen
from agentfly.types import EnvSpec, Reward, Tool


class EnvironmentOptions(Settings):
    """Base of the options of built-in environments: one value is taken for a list of one."""

    @field_validator("*", mode="before")
    @classmethod
    def _one_or_several(cls, value: Any, info: ValidationInfo) -> Any:
        """Take `tasks=boil` and `tasks=boil,find-plant` for lists."""
        field = cls.model_fields[info.field_name or ""].annotation
        if get_origin(field) is tuple:
            return _listed(value, get_args(field)[0])
        kinds = [kind for kind in get_args(field) if get_origin(kind) is tuple]
        is_list = bool(kinds) and isinstance(value, str) and "," in value
        return _listed(value, get_args(kinds[0])[0]) if is_list else value

    def refuse_without_effect(self, *rules: tuple[bool, Sequence[str], str]) -> None:
        """Raise ValueError for options that were changed and have no effect.

        Args:
            rules: Whether options have an effect, their names, and where they have it.
        """
        problems = [
            f"{name} has no effect here: it is {where}"
            for has_effect, names, where in rules
            for name in names
            if not has_effect and getattr(self, name) != self._default(name)
        ]
        if problems:
            raise ValueError("; ".join(problems))

    def _default(self, name: str) -> Any:
        return type(self).model_fields[name].get_default(call_default_factory=True)


def _listed(value: Any, kind: Any) -> Any:
    """Return a single value, or several between commas, as a tuple; any other value unchanged.

    >>> _listed("boil,find-plant", str), _listed(2, int), _listed([1], int)
    (('boil', 'find-plant'), (2,), [1])
    """
    if isinstance(value, str):
        known = {str(one): one for one in get_args(kind)}
        return tuple(known.get(part.strip(), part.strip()) for part in value.split(",") if part)
    return (value,) if isinstance(value, int) and not isinstance(value, bool) else value


class NoTasksError(ConfigError):
    """An environment that brings no tasks of its own, and was given none."""


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
    noisy: Player | None = None
    """Expert that also takes impossible actions, so that its chains show how to go on after one.
    They are imitated with the mask `valid_calls_only`."""
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
    names_of: Callable[[Options], Mapping[str, Sequence[str]]] = lambda _: {}
    """Returns the values of those options that take names, where other options decide which."""
