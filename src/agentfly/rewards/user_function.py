"""A user's function, and how a chain calls it: what all kinds of function rewards share."""

import functools
import inspect
import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any, ClassVar, Generic, ParamSpec, Self, TypeVar

from agentfly.errors import ConfigError, RewardError
from agentfly.rewards.failure import reward_boundary
from agentfly.rewards.injection import Arguments, EnvChoice, Offers, check_env_is_taken
from agentfly.runtime.invoke import invoke
from agentfly.runtime.signature import is_unbound_method, name_of
from agentfly.types import Context, EnvSpec, Score, read_range

P = ParamSpec("P")
R = TypeVar("R")

DEFAULT_TIMEOUT = 30.0
"""Seconds that a reward may take, unless it says otherwise."""


class UserFunction(Generic[P, R]):
    """Still callable as the plain function; in a class's body, a method."""

    kind: ClassVar[str]
    """What to call it in messages."""
    offered: ClassVar[Offers]
    """Names on offer to its parameters."""

    def __init__(
        self,
        function: Callable[P, R],
        *,
        name: str | None = None,
        timeout: float = DEFAULT_TIMEOUT,
        env: EnvChoice | None = None,
        range: tuple[float, float] | None = None,
    ) -> None:
        _check(function, self.kind, timeout)
        self.name = name or name_of(function)
        self.timeout = timeout
        self.range = read_range(range or self.implied_range(function), self.label)
        self._function = function
        self._env = env
        self._needs_instance = is_unbound_method(function)
        self._arguments = Arguments.of(function, offered=self.offered, env=env)
        check_env_is_taken(self.name, self._arguments, env)
        functools.update_wrapper(self, function, updated=())

    @classmethod
    def implied_range(cls, function: Callable[..., object]) -> tuple[float, float] | None:
        """Return the range that a function's own form implies; None if it implies none."""
        del function
        return None

    @property
    def environments(self) -> tuple[EnvSpec, ...]:
        """Which environments it needs."""
        return self._arguments.environments

    @property
    def label(self) -> str:
        """What to call it in messages: "reward 'exact'"."""
        return f"{self.kind} {self.name!r}"

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        """Call the plain function."""
        return self._function(*args, **kwargs)

    def __get__(self, instance: object, owner: type | None = None) -> Self:
        """Bind a method to its instance. A function kept as a class's attribute stays as it is."""
        if instance is None or not self._needs_instance:
            return self
        bound = self._function.__get__(instance, owner)
        return type(self)(
            bound, name=self.name, timeout=self.timeout, env=self._env, range=self.range
        )

    def __repr__(self) -> str:
        """Show its kind and name."""
        return f"<{self.label}>"

    async def _call(self, offers: Offers, context: Context) -> Any:
        """Fill the arguments and call the function; its own time begins when it has its envs."""
        with reward_boundary(self.label):
            self._check_bound()
            environments = await self._arguments.lease(context)
            deadline = min(context.deadline, context.clock.now() + self.timeout)
            offers = {**offers, "context": replace(context, deadline=deadline)}
            arguments = self._arguments.fill(offers, context.task) | environments
            return await invoke(
                functools.partial(self._function, **arguments),
                name=self.name,
                clock=context.clock,
                deadline=context.deadline,
                seconds=self.timeout,
            )

    def _in_range(self, score: Score) -> Score:
        """Refuse a score that the declared range does not have: others count on it."""
        if score.value not in self.range:
            raise RewardError(
                f"{self.label} returned {score.value:g}, and declares a range from "
                f"{self.range.low:g} to {self.range.high:g}: correct the one or the other"
            )
        return score

    def _check_bound(self) -> None:
        if self._needs_instance:
            raise ConfigError("it is a method: take it from an instance, not from its class")


def _check(function: object, kind: str, timeout: float) -> None:
    if not callable(function) or inspect.isclass(function):
        raise ConfigError(
            f"a {kind} is made of a function, a method or a callable object, got {function!r}"
        )
    if not 0 < timeout < math.inf:
        raise ConfigError(f"timeout must be a positive number of seconds, got {timeout!r}")
