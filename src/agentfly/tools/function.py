"""`@tool`: a plain function that a model can call."""

import dataclasses
import functools
import inspect
import logging
import re
import types
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import Any, Generic, ParamSpec, TypeVar, overload

import docstring_parser

from agentfly.errors import ChainError, ConfigError, DeadlineError, ToolError
from agentfly.runtime.invoke import invoke
from agentfly.runtime.signature import (
    MISSING,
    is_unbound_method,
    name_of,
    parameters_of,
    unwrapped,
)
from agentfly.tools.call_arguments import read_arguments
from agentfly.tools.injection import (
    FromEnvironment,
    FromTask,
    Source,
    bound_to_chain,
    injected_environments,
    injected_values,
    leased_environment,
    sources_of,
)
from agentfly.tools.tool_result import clean_observation, to_result
from agentfly.tools.tool_schema import Arguments, arguments_of, parameters_schema
from agentfly.types import (
    Clock,
    Context,
    EnvSpec,
    Heavy,
    Offload,
    Task,
    ToolCall,
    ToolResult,
    ToolSpec,
    ToolStatus,
)

P = ParamSpec("P")
R = TypeVar("R")

DEFAULT_SECONDS = 30.0
"""Default timeout of one call."""
MAX_SHOWN_ERROR = 500

_NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")
_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class LeasedMethod:
    """Method of an environment, called on the instance that the chain leases."""

    spec: EnvSpec
    name: str


@dataclass(frozen=True, kw_only=True, eq=False)
class FunctionTool(Generic[P, R]):
    """Function with its specification for the model, still callable as before."""

    function: Callable[P, R]
    spec: ToolSpec
    arguments: Arguments = field(repr=False)
    sources: Mapping[str, Source] = field(default_factory=dict, repr=False)
    """Sources of the parameters that are injected."""
    defaults: Mapping[str, Any] = field(default_factory=dict, repr=False)
    timeout: float = DEFAULT_SECONDS
    max_length: int | None = None
    """Maximum characters of an observation; None means no limit."""
    unbound: bool = False
    """Whether it is a method whose class and instance are not known yet."""
    method: LeasedMethod | None = None
    """Method that is called instead of the function, on the chain's own instance."""
    shared: bool = False
    """Whether all chains may share the object of a bound method."""
    heavy: Heavy | None = None
    """Resources of a call on a cluster; None where calls always run in this process."""

    def __post_init__(self) -> None:
        _require_usable(self)
        # Like `functools.update_wrapper`, which can't write to a frozen instance.
        plain = unwrapped(self.function)
        for attribute in functools.WRAPPER_ASSIGNMENTS:
            if hasattr(plain, attribute):
                vars(self)[attribute] = getattr(plain, attribute)
        vars(self)["__wrapped__"] = self.function

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        return self.function(*args, **kwargs)

    def __get__(self, instance: object, owner: type | None = None) -> "FunctionTool[..., R]":
        if not self.unbound:
            return self
        if instance is not None:
            bound = types.MethodType(self.function, instance)
            return dataclasses.replace(self, function=bound, unbound=False)
        return self if owner is None else self.of_class(EnvSpec(owner))

    def of_class(self, spec: EnvSpec, name: str | None = None) -> "FunctionTool[P, R]":
        """Return a method's tool that is called on the instance which the chain leases."""
        method = LeasedMethod(spec, name or name_of(self.function))
        return dataclasses.replace(self, method=method, unbound=False)

    @property
    def environments(self) -> tuple[EnvSpec, ...]:
        """Environments that it needs."""
        return tuple(spec for spec in self.received_environments if spec is not None)

    @property
    def received_environments(self) -> tuple[EnvSpec | None, ...]:
        """Environments that a call receives; None is the chain's only one, of whatever class."""
        own = (self.method.spec,) if self.method else ()
        return tuple(dict.fromkeys((*own, *injected_environments(self.sources))))

    def missing_fields(self, task: Task, leased: Collection[EnvSpec] = ()) -> list[str]:
        """List the fields that it takes from the task and that the task lacks."""
        del leased
        taken = {n: s.field or n for n, s in self.sources.items() if isinstance(s, FromTask)}
        return [f for n, f in taken.items() if n not in self.defaults and f not in task.fields]

    def offloaded(self, offload: Offload) -> "FunctionTool[..., Any]":
        """Return the tool with its calls on a cluster, if it is heavy."""
        if self.heavy is None:
            return self
        elsewhere = offload(self.function, self.heavy, f"tool {self.spec.name!r}")
        return dataclasses.replace(self, function=elsewhere)  # type: ignore[arg-type]

    async def run(self, call: ToolCall, context: Context) -> ToolResult:
        """Run a call; return mistakes of the model and of the tool as results."""
        read = read_arguments(call.arguments, self.arguments, self.spec)
        if isinstance(read, ToolResult):
            return clean_observation(read, self.max_length)
        asked_at = context.clock.now()
        given = await injected_values(self.spec.name, self.sources, context, self.defaults)
        instance: object = None
        if self.method is not None:
            source = FromEnvironment(self.method.spec)
            instance = await leased_environment(self.spec.name, source, context)
        # The wait for environments is not charged to the chain.
        deadline = context.deadline + (context.clock.now() - asked_at)
        result = await self._answer({**read.values, **given}, instance, context.clock, deadline)
        if read.repaired:
            result = dataclasses.replace(result, repaired=True)
        return clean_observation(result, self.max_length)

    def _callable(self, instance: object) -> Callable[..., R]:
        """Return the function, or the method of an instance, which may be in another process."""
        if self.method is None:
            return self.function
        method = getattr(instance, self.method.name)
        return method.function if isinstance(method, FunctionTool) else method

    async def _answer(
        self, arguments: dict[str, Any], instance: object, clock: Clock, deadline: float
    ) -> ToolResult:
        named = f"tool {self.spec.name!r}"
        try:
            called: functools.partial[R] = functools.partial(self._callable(instance), **arguments)
            returned = await invoke(
                called, name=named, clock=clock, deadline=deadline, seconds=self.timeout
            )
            return to_result(returned)
        except ToolError as error:
            return ToolResult(observation=str(error), status=ToolStatus.ERROR)
        except DeadlineError as error:
            if clock.now() >= deadline:
                raise  # the chain's own time is up
            advice = f"{error} and was stopped. Ask for less, or try another way."
            return ToolResult(observation=advice, status=ToolStatus.TIMEOUT)
        except ChainError:
            raise
        except Exception as error:  # noqa: BLE001 - a tool's bug is shown to the model, and logged
            _log.warning("%s failed", named, exc_info=error)  # the same text for every call
            shown = f"{named} failed: {type(error).__name__}: {error}"[:MAX_SHOWN_ERROR]
            return ToolResult(observation=shown, status=ToolStatus.ERROR)


@overload
def tool(function: Callable[P, R], /) -> FunctionTool[P, R]: ...
@overload
def tool(
    function: Callable[P, R],
    /,
    *,
    name: str | None = None,
    description: str | None = None,
    env: Callable[..., Any] | EnvSpec | None = None,
    inject: Collection[str] = (),
    timeout: float = DEFAULT_SECONDS,
    max_length: int | None = None,
    shared: bool = False,
    heavy: bool | Heavy = False,
) -> FunctionTool[P, R]: ...
@overload
def tool(
    *,
    name: str | None = None,
    description: str | None = None,
    env: Callable[..., Any] | EnvSpec | None = None,
    inject: Collection[str] = (),
    timeout: float = DEFAULT_SECONDS,
    max_length: int | None = None,
    shared: bool = False,
    heavy: bool | Heavy = False,
) -> Callable[[Callable[P, R]], FunctionTool[P, R]]: ...
def tool(function: Callable[..., Any] | None = None, /, **options: Any) -> Any:
    """Make a tool of a function. The model is shown its signature and docstring.

    Args:
        function: A function, async function, method, partial or callable object.
        **options: `name` and `description`, if not the function's own; `env`, the environment
            class, factory or spec behind the parameter `env`; `inject`, parameters that are filled
            from the task's fields of the same name; `timeout` in seconds for one call;
            `max_length` of an observation in characters; `shared`, for a bound method whose object
            all chains may share; `heavy`, True or the resources of one
            call, for a function that runs as a task of the run's cluster, if there is one.

    Example:
        >>> @tool
        ... def add(a: int, b: int = 1) -> int:
        ...     '''Add two integers.'''
        ...     return a + b
        >>> add(2), add.spec.name
        (3, 'add')
    """
    if function is None:
        return functools.partial(_make, **options)
    return _make(function, **options)


def _make(  # noqa: PLR0913 - the options of `@tool`
    function: Callable[P, R],
    *,
    name: str | None = None,
    description: str | None = None,
    env: Callable[..., Any] | EnvSpec | None = None,
    inject: Collection[str] = (),
    timeout: float = DEFAULT_SECONDS,
    max_length: int | None = None,
    shared: bool = False,
    heavy: bool | Heavy = False,
) -> FunctionTool[P, R]:
    name = name or name_of(function)
    unbound = is_unbound_method(function)
    documentation = read_docstring(function)
    parameters = parameters_of(function, skip_self=unbound)
    sources = sources_of(name, parameters, env=env, inject=inject)
    filled_by_model = [p for p in parameters if p.name not in sources]
    arguments = arguments_of(name, filled_by_model)
    schema = parameters_schema(arguments, filled_by_model, documentation.parameters)
    return FunctionTool(
        function=function,
        spec=ToolSpec(
            name=name, description=description or documentation.description, parameters=schema
        ),
        arguments=arguments,
        sources=sources,
        defaults={p.name: p.default for p in parameters if p.default is not MISSING},
        timeout=timeout,
        max_length=max_length,
        unbound=unbound,
        shared=shared,
        heavy=Heavy.read(heavy),
    )


def _require_usable(tool: FunctionTool[..., Any]) -> None:
    name = tool.spec.name
    if not _NAME.fullmatch(name):
        raise ConfigError(
            f"a tool can't be named {name!r}: use 1 to 64 letters, digits, '_' or '-' (name=...)"
        )
    if not tool.spec.description.strip():
        raise ConfigError(
            f"tool {name!r} has no description, and the model is shown one: write a docstring, or "
            "pass description=..."
        )
    if tool.timeout <= 0:
        raise ConfigError(f"timeout of tool {name!r} must be above 0 seconds, got {tool.timeout}")
    here = [*bound_to_chain(tool.sources), *(["a leased instance"] if tool.method else [])]
    if tool.heavy is not None and here:
        raise ConfigError(
            f"tool {name!r} is heavy and takes {', '.join(here)}, which can't be sent to another "
            "machine: take what it needs from the model or the task, or leave heavy= out"
        )
    if tool.max_length is not None and tool.max_length < 1:
        raise ConfigError(f"max_length of tool {name!r} must be at least 1, got {tool.max_length}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Documentation:
    """Parsed docstring in Google, NumPy or reST style."""

    description: str
    """Summary and description, without the sections on arguments, returns and so on."""
    parameters: Mapping[str, str]


def read_docstring(function: Callable[..., Any]) -> Documentation:
    """Read the docstring of a function, or of a callable object's `__call__`."""
    parsed = docstring_parser.parse(_docstring(function))
    described = {p.arg_name: " ".join((p.description or "").split()) for p in parsed.params}
    return Documentation(
        description=(parsed.description or "").strip(),
        parameters={name: text for name, text in described.items() if text},
    )


def _docstring(function: Callable[..., Any]) -> str:
    plain = unwrapped(function)
    if inspect.isroutine(plain):
        return inspect.getdoc(plain) or ""
    return inspect.getdoc(type(plain).__call__) or inspect.getdoc(type(plain)) or ""
