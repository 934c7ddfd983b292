"""Environments: stateful objects that a chain leases for itself."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from agentfly.types.score import require_finite_reward


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """Answer of an environment to an action."""

    observation: str
    reward: float | None = None
    done: bool = False
    info: Mapping[str, Any] = field(default_factory=dict)
    state_key: str | None = None
    """Key of the state reached: equal keys mean equal states, for turn-level credit."""

    def __post_init__(self) -> None:
        require_finite_reward(self.reward, "a step")


@dataclass(frozen=True, slots=True)
class EnvSpec:
    """Specification of an environment. Equal specs in one chain give the same instance.

    >>> class Shop: ...
    >>> EnvSpec(Shop) == EnvSpec(Shop), EnvSpec(Shop) == EnvSpec(Shop, (("size", 3),))
    (True, False)
    """

    factory: Callable[..., Any]
    """A class, or a function that makes an instance."""
    options: tuple[tuple[str, Any], ...] = ()
    """Keyword arguments for the factory; hashable."""

    @property
    def name(self) -> str:
        """Name in messages and metrics."""
        options = ", ".join(f"{key}={value!r}" for key, value in self.options)
        name = getattr(self.factory, "__qualname__", repr(self.factory))
        return f"{name}({options})" if options else name

    def make(self) -> Any:
        """Make a new instance."""
        return self.factory(**dict(self.options))


def is_environment_class(annotation: object) -> bool:
    """Return whether a parameter with this annotation receives an environment."""
    return isinstance(annotation, type) and all(
        callable(getattr(annotation, method, None)) for method in ("reset", "close")
    )
