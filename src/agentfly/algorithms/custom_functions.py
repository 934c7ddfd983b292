"""An advantage or a loss of your own: `@advantage` and `@loss` on a plain function.

What a function needs is found by the names of its parameters: fields of `AdvantageInput` or of
`LossInput`. Parameters with a default may be called anything: they are options, which the table
`[algorithm]` of a run's settings may choose.
"""

import traceback
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, fields
from typing import Any

from torch import Tensor

from agentfly.algorithms.function_types import (
    AdvantageInput,
    AdvantageOutput,
    LossInput,
    LossOutput,
)
from agentfly.algorithms.group import by_group
from agentfly.errors import CallbackError, ConfigError, boundary
from agentfly.runtime.names import suggestion
from agentfly.runtime.signature import MISSING, Parameter, name_of, parameters_of, unwrapped

ONE_GROUP = "rewards_G"
"""The parameter by which an advantage asks to be called once for each group."""


@dataclass(frozen=True, slots=True)
class CustomAdvantage:
    """An advantage function made by `@advantage`; called with an `AdvantageInput`."""

    function: Callable[..., Any]
    """As it was written."""
    wanted: tuple[str, ...]
    """The fields that it asks for."""
    required: tuple[str, ...] = ()
    """Those among them that it has no default for."""
    options: tuple[Parameter, ...] = ()
    """Its other parameters, which settings may choose."""

    @property
    def name(self) -> str:
        """Name of the function."""
        return name_of(self.function)

    @property
    def needs_group(self) -> bool:
        """Whether it compares the chains of one group."""
        return ONE_GROUP in self.wanted

    def __call__(self, x: AdvantageInput) -> AdvantageOutput:
        """Fill the function's parameters and read what it returns."""
        if self.needs_group:
            return by_group(self._of_group)(x)
        asked = {name: getattr(x, name) for name in self.wanted}
        returned = _called("advantage", self.function, asked)
        if isinstance(returned, AdvantageOutput):
            return returned
        advantages_N = _checked(returned, len(x.chain_N), f"advantage {self.name!r}", "token")
        return AdvantageOutput(
            advantages_N=advantages_N, used_C=x.group_C.new_ones(len(x.group_C)).bool()
        )

    def _of_group(self, rewards_G: Tensor) -> Tensor:
        returned = _called("advantage", self.function, {ONE_GROUP: rewards_G})
        return _checked(returned, len(rewards_G), f"advantage {self.name!r}", "chain")


@dataclass(frozen=True, slots=True)
class CustomLoss:
    """A loss function made by `@loss`; called with a `LossInput`."""

    function: Callable[..., Any]
    """As it was written."""
    wanted: tuple[str, ...]
    """The fields that it asks for."""
    required: tuple[str, ...] = ()
    """Those among them that it has no default for."""
    options: tuple[Parameter, ...] = ()
    """Its other parameters, which settings may choose."""

    @property
    def name(self) -> str:
        """Name of the function."""
        return name_of(self.function)

    def __call__(self, x: LossInput) -> LossOutput:
        """Fill the function's parameters and read what it returns."""
        asked = {name: getattr(x, name) for name in self.wanted}
        returned = _called("loss", self.function, asked)
        if isinstance(returned, LossOutput):
            return returned
        return LossOutput(
            loss_N=_checked(returned, len(x.logprobs_N), f"loss {self.name!r}", "token")
        )


def advantage(function: Callable[..., Any]) -> CustomAdvantage:
    """Make an advantage of a function.

    With a parameter `rewards_G` it is called once for each group of two or more scored chains whose
    rewards differ, and returns one advantage for each. Otherwise it is called once for the step
    with the fields of `AdvantageInput` that it names, and returns one advantage for each token, or
    an `AdvantageOutput`.

    >>> @advantage
    ... def best_of_group(rewards_G: Tensor) -> Tensor:
    ...     return (rewards_G == rewards_G.max()).float()
    >>> best_of_group.needs_group
    True
    """
    offered = {field.name for field in fields(AdvantageInput)}
    wanted, required, options = _wanted(function, {*offered, ONE_GROUP}, "advantage")
    if ONE_GROUP in wanted and len(wanted) > 1:
        others = ", ".join(name for name in wanted if name != ONE_GROUP)
        raise ConfigError(
            f"advantage {name_of(function)!r} asks for one group's rewards_G, and for {others} of "
            "the whole step: leave rewards_G out and take rewards_C and group_C instead"
        )
    return CustomAdvantage(function, wanted, required, options)


def loss(function: Callable[..., Any]) -> CustomLoss:
    """Make a loss of a function that returns a loss for each token, or a `LossOutput`.

    >>> @loss
    ... def plain(logprobs_N: Tensor, advantages_N: Tensor) -> Tensor:
    ...     return -advantages_N * logprobs_N
    >>> plain.wanted
    ('logprobs_N', 'advantages_N')
    """
    return CustomLoss(function, *_wanted(function, {f.name for f in fields(LossInput)}, "loss"))


def _wanted(
    function: Callable[..., Any], offered: Collection[str], what: str
) -> tuple[tuple[str, ...], tuple[str, ...], tuple[Parameter, ...]]:
    """Return the fields that a function asks for, which of them it needs, and its options."""
    parameters = parameters_of(function)
    for parameter in parameters:
        if parameter.name not in offered and parameter.default is MISSING:
            raise ConfigError(
                f"{what} {name_of(function)!r} has a parameter {parameter.name!r}, which stands "
                f"for nothing. {suggestion(parameter.name, offered)}"
            )
    asked = [parameter for parameter in parameters if parameter.name in offered]
    return (
        tuple(parameter.name for parameter in asked),
        tuple(parameter.name for parameter in asked if parameter.default is MISSING),
        tuple(parameter for parameter in parameters if parameter.name not in offered),
    )


def _called(what: str, function: Callable[..., Any], asked: Mapping[str, Any]) -> Any:
    """Call a user's function; errors are reported with its name and line."""
    written = unwrapped(function)
    name = f"{getattr(written, '__module__', '')}:{name_of(function)}"
    try:
        with boundary(CallbackError, f"the {what} {name}"):
            return function(**asked)
    except CallbackError as error:
        cause = error.__cause__
        raise CallbackError(f"{error}{_place(written, cause)}") from cause


def _place(written: Callable[..., Any], cause: BaseException | None) -> str:
    """Say where in the function's own file it happened, whatever library raised it."""
    file = getattr(getattr(written, "__code__", None), "co_filename", None)
    frames = traceback.extract_tb(cause.__traceback__) if cause else ()
    lines = [frame.lineno for frame in frames if frame.filename == file]
    return f" ({file}, line {lines[-1]})" if lines else ""


def _checked(returned: Any, length: int, what: str, each: str) -> Tensor:
    if not isinstance(returned, Tensor):
        got = type(returned).__name__
    elif returned.shape != (length,):
        got = f"a tensor of shape {tuple(returned.shape)}"
    else:
        return returned
    raise ConfigError(
        f"{what} must return a tensor with one number for each {each}: "
        f"expected shape ({length},), got {got}"
    )
