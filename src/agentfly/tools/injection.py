"""Parameters that the model does not see: environments, the context, the task and its fields."""

import typing
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum, auto
from typing import Annotated, Any

from agentfly.errors import AgentError, ConfigError, LeaseTimeout
from agentfly.runtime.names import suggestion
from agentfly.runtime.signature import Parameter
from agentfly.types import Context, EnvSpec, Task, is_environment_class


@dataclass(frozen=True, slots=True)
class FromTask:
    """Marker of a parameter that is filled from a field of the task.

    >>> from typing import Annotated
    >>> def check(guess: str, gold: Annotated[str, FromTask("answer")]) -> str: ...
    """

    field: str | None = None
    """None means the field of the parameter's own name."""


@dataclass(frozen=True, slots=True)
class FromEnvironment:
    """Source of a parameter that is an environment of the chain."""

    spec: EnvSpec | None
    """None means the chain's only environment."""


class WholeObject(Enum):
    """Object that is injected as a whole."""

    CONTEXT = auto()
    TASK = auto()


Source = FromTask | FromEnvironment | WholeObject

_BY_NAME: dict[str, Source] = {
    "env": FromEnvironment(None),
    "context": WholeObject.CONTEXT,
    "task": WholeObject.TASK,
}
_JSON_TYPES = (str, int, float, bool, list, dict, tuple, set)


def sources_of(
    tool: str,
    parameters: Sequence[Parameter],
    *,
    env: Callable[..., Any] | EnvSpec | None,
    inject: Collection[str],
) -> dict[str, Source]:
    """Return the sources of injected parameters, by `inject`, by annotation or by name."""
    _require_known(tool, inject, [parameter.name for parameter in parameters])
    found = {p.name: _source(tool, p, inject) for p in parameters}
    sources = {name: source for name, source in found.items() if source is not None}
    return sources if env is None else _with_environment(tool, sources, env)


def injected_environments(sources: Mapping[str, Source]) -> tuple[EnvSpec | None, ...]:
    """Return the environments that parameters receive, each once; None is the chain's only one."""
    specs = [source.spec for source in sources.values() if isinstance(source, FromEnvironment)]
    return tuple(dict.fromkeys(specs))


def bound_to_chain(sources: Mapping[str, Source]) -> list[str]:
    """Return the parameters that exist only in the chain's own process."""
    return [
        name
        for name, source in sources.items()
        if isinstance(source, FromEnvironment) or source is WholeObject.CONTEXT
    ]


async def injected_values(
    tool: str, sources: Mapping[str, Source], context: Context, defaults: Mapping[str, Any]
) -> dict[str, Any]:
    """Return the injected values; fields that are missing but have a default are left out."""
    values: dict[str, Any] = {}
    for name, source in sources.items():
        if isinstance(source, FromTask):
            field = source.field or name
            if field in context.task.fields or name not in defaults:
                values[name] = _field(tool, field, context.task)
        elif isinstance(source, FromEnvironment):
            values[name] = await leased_environment(tool, source, context)
        else:
            values[name] = context if source is WholeObject.CONTEXT else context.task
    return values


def _source(tool: str, parameter: Parameter, inject: Collection[str]) -> Source | None:
    marker = _marker(parameter.annotation)
    if marker is not None or parameter.name in inject:
        return marker or FromTask()
    kind = _without_metadata(parameter.annotation)
    if is_environment_class(kind):
        return FromEnvironment(EnvSpec(kind))
    if kind is Context or kind is Task:
        return WholeObject.CONTEXT if kind is Context else WholeObject.TASK
    return _source_by_name(tool, parameter.name, kind)


def _source_by_name(tool: str, name: str, kind: object) -> Source | None:
    source = _BY_NAME.get(name)
    if source is not None and (typing.get_origin(kind) or kind) in _JSON_TYPES:
        raise ConfigError(
            f"parameter {name!r} of tool {tool!r} is annotated {kind!r}, but a parameter of this "
            f"name is filled with the chain's {name}: rename it to let the model fill it"
        )
    return source


def _marker(annotation: object) -> FromTask | None:
    for extra in getattr(annotation, "__metadata__", ()):
        if extra is FromTask:
            return FromTask()
        if isinstance(extra, FromTask):
            return extra
    return None


def _without_metadata(annotation: Any) -> Any:
    is_annotated = typing.get_origin(annotation) is Annotated
    return typing.get_args(annotation)[0] if is_annotated else annotation


def _require_known(tool: str, inject: Collection[str], names: Sequence[str]) -> None:
    for name in inject:
        if name not in names:
            raise ConfigError(
                f"tool {tool!r} has no parameter {name!r} to inject. {suggestion(name, names)}"
            )


def _with_environment(
    tool: str, sources: dict[str, Source], env: Callable[..., Any] | EnvSpec
) -> dict[str, Source]:
    """Return the sources with the environment of `env=` for the parameter that takes one."""
    spec = env if isinstance(env, EnvSpec) else EnvSpec(env)
    takers = [name for name, source in sources.items() if isinstance(source, FromEnvironment)]
    if "env" in takers:
        takers = ["env"]
    if len(takers) != 1:
        raise ConfigError(
            f"tool {tool!r} is given env={spec.name}, but takes {len(takers)} environments: "
            "name the parameter for it `env`"
        )
    return {**sources, takers[0]: FromEnvironment(spec)}


def _field(tool: str, field: str, task: Task) -> object:
    if field not in task.fields:
        raise AgentError(
            f"tool {tool!r} needs the field {field!r}, which task {task.id!r} lacks. "
            f"{suggestion(field, task.fields)}"
        )
    return task.fields[field]


async def leased_environment(tool: str, source: FromEnvironment, context: Context) -> object:
    """Return the leased environment; the tool's timeout starts only after the lease."""
    try:
        return await context.environments.get(source.spec)
    except TimeoutError as error:
        raise LeaseTimeout(f"no environment for tool {tool!r} in time") from error
