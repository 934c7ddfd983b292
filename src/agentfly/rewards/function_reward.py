"""`@reward`: a plain function that scores one chain."""

from collections.abc import Callable
from typing import ClassVar, ParamSpec, TypeVar, overload

from agentfly.rewards.injection import EnvChoice, Offers
from agentfly.rewards.read_score import read_score
from agentfly.rewards.user_function import DEFAULT_TIMEOUT, UserFunction
from agentfly.runtime.signature import unwrapped
from agentfly.types import Context, Score, Task, Trajectory

P = ParamSpec("P")
R = TypeVar("R")


class FunctionReward(UserFunction[P, R]):
    """A function that scores one chain, made by `@reward`."""

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
) -> Callable[[Callable[P, R]], FunctionReward[P, R]]: ...


def reward(
    function: Callable[P, R] | None = None,
    /,
    *,
    name: str | None = None,
    timeout: float = DEFAULT_TIMEOUT,
    env: EnvChoice | None = None,
    range: tuple[float, float] | None = None,
) -> FunctionReward[P, R] | Callable[[Callable[P, R]], FunctionReward[P, R]]:
    """Make a reward of a function, sync or async, that stays callable as it was.

    Its arguments are found by name: `final_response`, `trajectory`, `task`, `env`, `context`, or
    any field of the task; and by annotation: an environment class, `Context`, `Task`, `Trajectory`.
    A name on offer hides a field of the same name, which is still in `task.fields`.

    It returns a bool, a finite number, a `Score`, or a dict such as
    `{"reward": 0.5, "exact": 0, "f1": 0.5}` whose other numbers are kept as parts, and whose
    `per_turn`, if any, has one number for each turn. Whatever else it returns or raises leaves the
    chain unscored with a RewardError, never with 0.

    >>> @reward
    ... def exact(final_response: str, answer: str) -> bool:
    ...     return final_response.strip() == answer
    >>> exact(" 4 ", "4")
    True

    Args:
        function: A function, method, `functools.partial` or callable object.
        name: What to call it in parts and metrics; the function's own name by default.
        timeout: Seconds that a call may take.
        env: Which environment to give to the parameter `env`: a class, a function that makes an
            instance, or an `EnvSpec`. Without it, `env` is the chain's only environment.
        range: The least and the greatest reward that it can give, such as (0, 1), or (-inf, 1)
            where one is not known; (0, 1) for a function that is annotated to return a bool. A
            score beyond it is a RewardError. Held-out rewards have
            narrower intervals with it, and a chain that ran out of time counts as its least.
    """

    def decorate(function: Callable[P, R]) -> FunctionReward[P, R]:
        return FunctionReward(function, name=name, timeout=timeout, env=env, range=range)

    return decorate if function is None else decorate(function)
