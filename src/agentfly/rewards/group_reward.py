"""`@group_reward`: a plain function that scores all chains of a task at once."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import ClassVar, ParamSpec, TypeVar, overload

from agentfly.errors import ConfigError, RewardError
from agentfly.rewards.function_reward import DEFAULT_TIMEOUT, UserFunction
from agentfly.rewards.injection import Offers
from agentfly.rewards.read_score import read_score
from agentfly.types import Context, Group, Score, Task

P = ParamSpec("P")
R = TypeVar("R")


class FunctionGroupReward(UserFunction[P, R]):
    """Function that scores all chains of a task at once, made by `@group_reward`."""

    kind = "group reward"
    offered: ClassVar[Offers] = {
        "group": Group,
        "trajectories": None,
        "final_responses": None,
        "task": Task,
        "context": Context,
    }

    def __init__(
        self,
        function: Callable[P, R],
        *,
        name: str | None = None,
        timeout: float = DEFAULT_TIMEOUT,
        env: None = None,
        range: tuple[float, float] | None = None,
    ) -> None:
        super().__init__(function, name=name, timeout=timeout, env=env, range=range)
        if self._arguments.asking_for_env:
            raise ConfigError(
                f"{self.label} asks for an environment ({', '.join(self._arguments.asking_for_env)}"
                "), but group rewards run after all environments were released: read what it needs "
                "in a reward of the chain or a tool, and keep it in context.metadata"
            )

    async def score_group(self, group: Group, context: Context) -> Sequence[Score | None]:
        """Score the members in order, None for unscored, or raise RewardError."""
        answered = [m for m in group.members if m.stop.verdict.scored]
        if not answered:
            return [None] * len(group.members)
        offers = {
            "group": replace(group, members=tuple(answered)),
            "trajectories": answered,
            "final_responses": [member.final_response for member in answered],
            "task": group.task,
        }
        values = self._one_each(await self._call(offers, context), len(answered))
        scores = {
            member.chain_id: self._read(value, len(member.turns))
            for member, value in zip(answered, values, strict=True)
        }
        return [scores.get(member.chain_id) for member in group.members]

    def _one_each(self, returned: object, count: int) -> list[object]:
        if isinstance(returned, str | Mapping) or not isinstance(returned, Iterable):
            raise RewardError(
                f"{self.label} returned {type(returned).__name__}; expected a list of {count} "
                "values, one for each chain that it was shown"
            )
        values = list(returned)
        if len(values) != count:
            raise RewardError(
                f"{self.label} returned {len(values)} values for {count} chains; expected one for "
                "each chain that it was shown, in their order, with None for unscored"
            )
        return values

    def _read(self, value: object, turns: int) -> Score | None:
        if value is None:
            return None
        return self._in_range(read_score(value, reward=self.label, turns=turns))


@overload
def group_reward(function: Callable[P, R], /) -> FunctionGroupReward[P, R]: ...


@overload
def group_reward(
    *,
    name: str | None = None,
    timeout: float = DEFAULT_TIMEOUT,
    range: tuple[float, float] | None = None,
) -> Callable[[Callable[P, R]], FunctionGroupReward[P, R]]: ...


def group_reward(
    function: Callable[P, R] | None = None,
    /,
    *,
    name: str | None = None,
    timeout: float = DEFAULT_TIMEOUT,
    range: tuple[float, float] | None = None,
) -> FunctionGroupReward[P, R] | Callable[[Callable[P, R]], FunctionGroupReward[P, R]]:
    """Make a group reward of a function that returns one value for each chain of a task.

    Arguments are filled by name: `group`, `trajectories`, `final_responses`, `task`, `context`, or
    any field of the task. There is no `env`: the environments are released by then.

    The function gets only the chains that ended well: those that failed or were cancelled are not
    in `group`, `trajectories` and `final_responses`, and their score is None. Each returned value
    is anything that `@reward` may return, or None to leave that chain unscored. `range` is the
    range of each value, as for `@reward`.

    >>> @group_reward
    ... def shortest(final_responses: list[str]) -> list[float]:
    ...     best = min(map(len, final_responses))
    ...     return [float(len(response) == best) for response in final_responses]
    """

    def decorate(function: Callable[P, R]) -> FunctionGroupReward[P, R]:
        return FunctionGroupReward(function, name=name, timeout=timeout, range=range)

    return decorate if function is None else decorate(function)
