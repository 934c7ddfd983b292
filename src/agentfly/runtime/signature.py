"""Reading the signature of a user's function: partials, methods and string annotations included."""

import functools
import inspect
import sys
import types
import typing
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from agentfly.errors import ConfigError

MISSING = inspect.Parameter.empty
"""Stands for no annotation, and for no default."""

_NOT_BY_NAME = (
    inspect.Parameter.VAR_POSITIONAL,
    inspect.Parameter.VAR_KEYWORD,
    inspect.Parameter.POSITIONAL_ONLY,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Parameter:
    """One parameter that a caller may fill."""

    name: str
    annotation: Any
    """Resolved, `Annotated` metadata kept; MISSING if there is none."""
    default: Any
    """MISSING if it must be given."""


def parameters_of(function: Callable[..., Any], *, skip_self: bool = False) -> list[Parameter]:
    """List the parameters that can be given by name; what a partial has filled is not among them.

    `skip_self` drops the first one, for a method seen in its class's body.
    """
    listed = list(inspect.signature(function).parameters.values())[1 if skip_self else 0 :]
    unusable = [str(p).partition(":")[0] for p in listed if p.kind in _NOT_BY_NAME]
    if unusable:
        raise ConfigError(
            f"{name_of(function)!r} takes {', '.join(unusable)}, which can't be given by name: "
            "list its parameters one by one, without *args, **kwargs or '/'"
        )
    filled = function.keywords if isinstance(function, functools.partial) else {}
    hints = _hints(function)
    return [
        Parameter(name=p.name, annotation=hints.get(p.name, p.annotation), default=p.default)
        for p in listed
        if p.name not in filled
    ]


def name_of(function: Callable[..., Any]) -> str:
    """Return the name that a function was defined with, or that of a callable object's class."""
    plain = unwrapped(function)
    return getattr(plain, "__name__", type(plain).__name__)


def unwrapped(function: Callable[..., Any]) -> Callable[..., Any]:
    """Look through partials and bound methods to what was written with `def`."""
    while isinstance(function, functools.partial):
        function = function.func
    return getattr(function, "__func__", function)


def is_unbound_method(function: Callable[..., Any]) -> bool:
    """Return whether a plain function comes from a class body, so that `self` is not bound."""
    if not inspect.isfunction(function):
        return False
    scope = function.__qualname__.rpartition(".")[0]
    first = next(iter(inspect.signature(function).parameters), None)
    return bool(scope) and not scope.endswith("<locals>") and first in ("self", "cls")


def _hints(function: Callable[..., Any]) -> dict[str, Any]:
    plain = unwrapped(function)
    if not inspect.isroutine(plain):
        plain = type(plain).__call__
    try:
        return typing.get_type_hints(
            _without_return(plain),
            globalns=getattr(inspect.unwrap(plain), "__globals__", {}),
            localns=_locals_around(plain),
            include_extras=True,
        )
    except (NameError, AttributeError, SyntaxError, TypeError) as error:
        raise ConfigError(
            f"an annotation of {name_of(function)!r} can't be resolved: {error}. "
            "Import the name where the function is defined (not only under TYPE_CHECKING)"
        ) from error


def _without_return(function: Callable[..., Any]) -> Callable[..., Any]:
    """Stand in for a function whose return type may name what is only imported for type checks."""

    def annotated() -> None: ...

    annotations = getattr(function, "__annotations__", {})
    annotated.__annotations__ = {k: v for k, v in annotations.items() if k != "return"}
    return annotated


def _locals_around(function: Callable[..., Any]) -> dict[str, Any]:
    """Collect names that string annotations of a function defined inside another may use."""
    module = getattr(function, "__module__", None)
    found: dict[str, Any] = {}
    frame: types.FrameType | None = sys._getframe(1)
    while frame is not None:
        if frame.f_globals.get("__name__") == module:
            found = {**frame.f_locals, **found}
        frame = frame.f_back
    return found
