"""`@turn_reward`: a plain function that scores each turn of a chain."""

from collections.abc import Callable
from typing import ClassVar, ParamSpec, TypeVar, overload

from agentfly.rewards.function_reward import DEFAULT_TIMEOUT, FunctionReward, UserFunction
from agentfly.rewards.injection import EnvChoice, Offers
from agentfly.rewards.read_score import read_number
from agentfly.types import Context, Message, Score, Trajectory, Turn

P = ParamSpec("P")
R = TypeVar("R")


class TurnReward(UserFunction[P, R]):
    """Function that scores each turn of a chain, made by `@turn_reward`."""

    kind = "turn reward"
    offered: ClassVar[Offers] = {
        **FunctionReward.offered,
        "turn": Turn,
        "message": Message,
        "results": None,
    }

    async def score(self, trajectory: Trajectory, context: Context) -> Score:
        """Score each turn, and the chain by their sum, or raise RewardError."""
        values = tuple([await self._score_turn(t, trajectory, context) for t in trajectory.turns])
        return self._in_range(Score(value=sum(values, 0.0), per_turn=values))

    async def _score_turn(self, turn: Turn, trajectory: Trajectory, context: Context) -> float:
        offers = {
            "turn": turn,
            "message": turn.message,
            "results": turn.results,
            "final_response": trajectory.final_response,
            "trajectory": trajectory,
            "task": trajectory.task,
        }
        returned = await self._call(offers, context)
        said = f"{self.label} returned for turn {turn.index}"
        return read_number(returned, said, "a finite number or a bool")


@overload
def turn_reward(function: Callable[P, R], /) -> TurnReward[P, R]: ...


@overload
def turn_reward(
    *,
    name: str | None = None,
    timeout: float = DEFAULT_TIMEOUT,
    env: EnvChoice | None = None,
    range: tuple[float, float] | None = None,
) -> Callable[[Callable[P, R]], TurnReward[P, R]]: ...


def turn_reward(
    function: Callable[P, R] | None = None,
    /,
    *,
    name: str | None = None,
    timeout: float = DEFAULT_TIMEOUT,
    env: EnvChoice | None = None,
    range: tuple[float, float] | None = None,
) -> TurnReward[P, R] | Callable[[Callable[P, R]], TurnReward[P, R]]:
    """Make a reward of a function that is called for each turn, in order, and returns a number.

    The numbers become the score's `per_turn`, and their sum its value. Arguments are filled as for
    `@reward`; in addition there are `turn` (a Turn), `message` (the model's message) and `results`
    (the results of its tools). `timeout` is for each call, and `range` is that of the sum over a
    whole chain.

    >>> @turn_reward
    ... def valid_calls(results) -> float:
    ...     return -0.1 * sum(result.status.invalid for result in results)
    """

    def decorate(function: Callable[P, R]) -> TurnReward[P, R]:
        return TurnReward(function, name=name, timeout=timeout, env=env, range=range)

    return decorate if function is None else decorate(function)
