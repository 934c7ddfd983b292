"""`@reward`: a plain function that scores one chain; and the base of all function rewards."""

import copy
import functools
import inspect
import math
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, ClassVar, Generic, ParamSpec, Self, TypeVar, overload

from agentfly.errors import AgentFlyError, ConfigError, InfrastructureError, RewardError, boundary
from agentfly.rewards.injection import Arguments, EnvChoice, Offers, check_env_is_taken
from agentfly.rewards.read_score import read_score
from agentfly.runtime.invoke import invoke
from agentfly.runtime.signature import is_unbound_method, name_of, unwrapped
from agentfly.types import (
    Context,
    EnvSpec,
    Heavy,
    Offload,
    Score,
    Task,
    Trajectory,
    read_range,
)

P = ParamSpec("P")
R = TypeVar("R")

DEFAULT_TIMEOUT = 30.0
"""Default timeout of a reward in seconds."""


class UserFunction(Generic[P, R]):
    """Base of function rewards, still callable as the plain function or method."""

    kind: ClassVar[str]
    """Kind of reward in messages."""
    offered: ClassVar[Offers]
    """Reserved names of its parameters."""
    reads: tuple[str, ...] = ()
    """Fields of the task that the function reads itself, besides its parameters."""

    def __init__(
        self,
        function: Callable[P, R],
        *,
        name: str | None = None,
        timeout: float = DEFAULT_TIMEOUT,
        env: EnvChoice | None = None,
        range: tuple[float, float] | None = None,
        heavy: bool | Heavy = False,
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
        self.heavy = Heavy.read(heavy)
        if self.heavy is not None and (here := self._arguments.bound_to_chain):
            raise ConfigError(
                f"{self.label} is heavy and takes {', '.join(here)}, which can't be sent to "
                "another machine: take what it needs from the trajectory or the task, or leave "
                "heavy= out"
            )
        functools.update_wrapper(self, function, updated=())

    @classmethod
    def implied_range(cls, function: Callable[..., object]) -> tuple[float, float] | None:
        """Return the range that a function's annotations imply; None if they imply none."""
        del function
        return None

    @property
    def environments(self) -> tuple[EnvSpec, ...]:
        """Environments that it needs."""
        return self._arguments.environments

    @property
    def label(self) -> str:
        """Kind and name for messages: "reward 'exact'"."""
        return f"{self.kind} {self.name!r}"

    def missing_fields(self, task: Task, leased: Collection[EnvSpec] = ()) -> list[str]:
        """List the fields that it needs and that a task lacks.

        Args:
            task: A row.
            leased: Environments of the chain, whose instances parameters may receive.
        """
        own = [name for name in self.reads if name not in task.fields]
        return [*own, *self._arguments.missing_fields(task, leased)]

    def environment_classes(self, task: Task) -> dict[str, type | None]:
        """Return the parameters that receive an environment, with its class; None for any."""
        return self._arguments.environment_classes(task)

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        """Call the plain function."""
        return self._function(*args, **kwargs)

    def __get__(self, instance: object, owner: type | None = None) -> Self:
        """Bind a method to its instance; return a function stored on a class unchanged."""
        if instance is None or not self._needs_instance:
            return self
        bound = self._function.__get__(instance, owner)
        return type(self)(
            bound,
            name=self.name,
            timeout=self.timeout,
            env=self._env,
            range=self.range,
            **({"heavy": self.heavy} if self.heavy else {}),
        )

    def offloaded(self, offload: Offload) -> Self:
        """Return the reward with its calls on a cluster, if it is heavy."""
        if self.heavy is None:
            return self
        other = copy.copy(self)
        other._function = offload(self._function, self.heavy, self.label)  # type: ignore[assignment]
        return other

    def __repr__(self) -> str:
        """Show its kind and name."""
        return f"<{self.label}>"

    async def _call(self, offers: Offers, context: Context) -> Any:
        """Fill the arguments and call the function; its timeout starts after the leases."""
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
        """Refuse a score outside the declared range."""
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


@contextmanager
def reward_boundary(reward: str) -> Iterator[None]:
    """Let failures of infrastructure pass, and raise RewardError for everything else.

    An environment that crashes inside a reward stays an EnvError, so that the chain's stop reason
    names the real cause. A deadline, or a ToolError raised by mistake, becomes a RewardError.

    >>> with reward_boundary("reward 'exact'"):
    ...     {}["boom"]
    Traceback (most recent call last):
    agentfly.errors.RewardError: reward 'exact' raised KeyError: 'boom'
    """
    try:
        with boundary(RewardError, reward):
            yield
    except InfrastructureError:
        raise
    except AgentFlyError as error:
        raise RewardError(f"{reward} failed: {error}") from error


class FunctionReward(UserFunction[P, R]):
    """Function that scores one chain, made by `@reward`."""

    kind = "reward"
    offered: ClassVar[Offers] = {
        "final_response": None,
        "trajectory": Trajectory,
        "task": Task,
        "context": Context,
    }

    @classmethod
    def implied_range(cls, function: Callable[..., object]) -> tuple[float, float] | None:
        """Return (0, 1) for a function that is annotated to return a bool."""
        annotations = getattr(unwrapped(function), "__annotations__", {})
        return (0, 1) if annotations.get("return") in (bool, "bool") else None

    async def score(self, trajectory: Trajectory, context: Context) -> Score:
        """Score a chain, or raise RewardError."""
        offers = {
            "final_response": trajectory.final_response,
            "trajectory": trajectory,
            "task": trajectory.task,
        }
        returned = await self._call(offers, context)
        score = read_score(returned, reward=self.label, turns=len(trajectory.turns))
        return self._in_range(score)


@overload
def reward(function: Callable[P, R], /) -> FunctionReward[P, R]: ...


@overload
def reward(
    *,
    name: str | None = None,
    timeout: float = DEFAULT_TIMEOUT,
    env: EnvChoice | None = None,
    range: tuple[float, float] | None = None,
    heavy: bool | Heavy = False,
) -> Callable[[Callable[P, R]], FunctionReward[P, R]]: ...


def reward(
    function: Callable[P, R] | None = None,
    /,
    *,
    name: str | None = None,
    timeout: float = DEFAULT_TIMEOUT,
    env: EnvChoice | None = None,
    range: tuple[float, float] | None = None,
    heavy: bool | Heavy = False,
) -> FunctionReward[P, R] | Callable[[Callable[P, R]], FunctionReward[P, R]]:
    """Make a reward of a function, sync or async, which stays callable as before.

    Its arguments are filled by name: `final_response`, `trajectory`, `task`, `env`, `context`, or
    any field of the task; and by annotation: an environment class, `Context`, `Task`, `Trajectory`.
    A reserved name hides a field of the same name, which is still in `task.fields`.

    It returns a bool, a finite number, a `Score`, or a dict such as
    `{"reward": 0.5, "exact": 0, "f1": 0.5}` whose other numbers are kept as parts, and whose
    `per_turn`, if any, has one number for each turn. Any other result and any exception leave the
    chain unscored with a RewardError, never with 0.

    >>> @reward
    ... def exact(final_response: str, answer: str) -> bool:
    ...     return final_response.strip() == answer
    >>> exact(" 4 ", "4")
    True

    Args:
        function: A function, method, `functools.partial` or callable object.
        name: Name in parts and metrics; the function's own name by default.
        timeout: Maximum seconds of a call.
        env: Environment for the parameter `env`: a class, a function that makes an
            instance, or an `EnvSpec`. Without it, `env` is the chain's only environment.
        range: Least and greatest reward that it can return, such as (0, 1), or (-inf, 1) where one
            is unknown; (0, 1) for a function annotated to return a bool. A score outside of it is a
            RewardError. With it, held-out rewards have narrower intervals, and a chain that timed
            out counts as the least value.
        heavy: True or the resources of one call, for a function that runs as a task of the run's
            cluster, if there is one.
    """

    def decorate(function: Callable[P, R]) -> FunctionReward[P, R]:
        return FunctionReward(
            function, name=name, timeout=timeout, env=env, range=range, heavy=heavy
        )

    return decorate if function is None else decorate(function)
