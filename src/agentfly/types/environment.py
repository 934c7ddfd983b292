"""Environments: stateful objects that a chain leases for itself."""

import functools
import typing
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from agentfly.types.score import read_flag, require_finite_reward


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """Answer of an environment to an action."""

    observation: str
    reward: float | None = None
    """Reward of this step; None if the environment says nothing about it, which is not 0. Without a
    reward function the score of a chain is the sum over its steps; a chain in which no step has a
    reward and none was `invalid` is unscored."""
    done: bool = False
    info: Mapping[str, Any] = field(default_factory=dict)
    """Values for rewards and people, not shown to the model."""
    state_key: str | None = None
    """Key of the state reached: equal keys mean equal states, for turn-level credit."""
    invalid: bool = False
    """Whether the action was impossible. Such actions are counted, and a call of a tool that
    returns this step has the status `refused`."""

    def __post_init__(self) -> None:
        require_finite_reward(self.reward, "a step")
        for name in ("done", "invalid"):
            flag = read_flag(getattr(self, name), f"{name!r} of a step")
            object.__setattr__(self, name, flag)


@dataclass(frozen=True, slots=True)
class EnvSpec:
    """Specification of an environment. Equal specs in one chain give the same instance.

    >>> class Shop: ...
    >>> EnvSpec(Shop) == EnvSpec(Shop), EnvSpec(Shop) == EnvSpec(Shop, (("size", 3),))
    (True, False)
    """

    factory: Callable[..., Any]
    """A class, a partial of one, or a function that makes an instance."""
    options: tuple[tuple[str, Any], ...] = ()
    """Keyword arguments for the factory; hashable."""

    @property
    def name(self) -> str:
        """Name in messages and metrics."""
        options = ", ".join(f"{key}={value!r}" for key, value in self.options)
        made = plain_factory(self.factory)
        name = getattr(made, "__qualname__", repr(made))
        return f"{name}({options})" if options else name

    @property
    def instance_class(self) -> type | None:
        """Class of the instances; None if a function makes them and does not annotate its return.

        >>> EnvSpec(functools.partial(dict, size=3)).instance_class
        <class 'dict'>
        """
        made = plain_factory(self.factory)
        kind = made if isinstance(made, type) else _return_type(made)
        return kind if isinstance(kind, type) and kind not in (Any, object) else None

    def make(self) -> Any:
        """Make a new instance."""
        return self.factory(**dict(self.options))


def _return_type(function: Callable[..., Any]) -> object:
    try:
        return typing.get_type_hints(function).get("return")
    except (NameError, TypeError):
        return None  # Imported for type checks only, or not a function.


def serving_spec(wanted: EnvSpec, specs: Iterable[EnvSpec]) -> EnvSpec:
    """Return the spec whose instance a parameter receives, among those of a chain.

    A parameter names only a class. Where the chain makes it in another way (with options, by a
    partial, as a subclass), and in only one, that instance is meant.

    >>> class Shop: ...
    >>> large = EnvSpec(Shop, (("size", 3),))
    >>> serving_spec(EnvSpec(Shop), [EnvSpec(Shop), large]) == large
    True
    """
    kind = wanted.factory
    if wanted.options or not isinstance(kind, type):
        return wanted
    others = [spec for spec in dict.fromkeys(specs) if spec != wanted]
    fitting = [s for s in others if s.instance_class and issubclass(s.instance_class, kind)]
    return fitting[0] if len(fitting) == 1 else wanted


def plain_factory(factory: Callable[..., Any]) -> Callable[..., Any]:
    """Look through partials to the class or function."""
    while isinstance(factory, functools.partial):
        factory = factory.func
    return factory


def is_environment_class(annotation: object) -> bool:
    """Return whether a parameter with this annotation receives an environment."""
    return isinstance(annotation, type) and all(
        callable(getattr(annotation, method, None)) for method in ("reset", "close")
    )
