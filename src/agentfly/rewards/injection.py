"""Arguments of a reward's function: where each comes from, decided once at decoration.

The first rule that fits a parameter decides:

1. a parameter `env`, where the decorator was given `env=`: that environment;
2. an annotation that is an environment class, `Context`, `Task`, `Trajectory`, ...: that object;
3. a reserved name (`final_response`, `trajectory`, `task`, `env`, `context`, ...): that object;
4. anything else: the task's field of that name, or else the parameter's default;
5. without both, an annotation that is a class: the chain's instance of it, which its tools lease.

A reserved name always hides a field of the same name: a reward that takes `task` gets the Task, and
finds a field called "task" in `task.fields["task"]`.
"""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, get_args, get_origin

from agentfly.errors import ConfigError, LeaseTimeout, RewardError
from agentfly.runtime.names import suggestion
from agentfly.runtime.signature import MISSING, Parameter, is_unbound_method, parameters_of
from agentfly.types import Context, EnvSpec, Task, is_environment_class

Offers = Mapping[str, Any]
"""Reserved names. At decoration: each with the annotation that also selects it, or None.
At a call: each with its value."""

EnvChoice = EnvSpec | Callable[..., Any]
"""Values of `env=`: a class, a function that makes an instance, or a spec."""


@dataclass(frozen=True, slots=True)
class _Offered:
    name: str


@dataclass(frozen=True, slots=True)
class _Environment:
    spec: EnvSpec | None
    """None is the chain's only environment."""


@dataclass(frozen=True, slots=True)
class _Field:
    name: str
    default: Any
    kind: type | None = None
    """Class of the annotation: without such a field, the chain's instance of it is meant."""

    def is_instance(self, task: Task) -> bool:
        """Return whether it is an environment of the chain instead of a field of the task."""
        return self.kind is not None and self.name not in task.fields and self.default is MISSING


_Source = _Offered | _Environment | _Field


@dataclass(frozen=True, slots=True)
class Arguments:
    """Sources of a function's arguments.

    >>> arguments = Arguments.of(lambda final_response, answer: 0, offered={"final_response": None})
    >>> list(arguments.sources)
    ['final_response', 'answer']
    """

    sources: Mapping[str, _Source]

    @classmethod
    def of(
        cls, function: Callable[..., Any], *, offered: Offers, env: EnvChoice | None = None
    ) -> "Arguments":
        """Choose the source of each parameter of a function."""
        spec = env if env is None or isinstance(env, EnvSpec) else EnvSpec(env)
        parameters = parameters_of(function, skip_self=is_unbound_method(function))
        return cls({p.name: _source(p, offered, spec) for p in parameters})

    @property
    def environments(self) -> tuple[EnvSpec, ...]:
        """Environments that parameters select by class or spec, each once."""
        specs = [s.spec for s in self.sources.values() if isinstance(s, _Environment)]
        return tuple(dict.fromkeys(spec for spec in specs if spec is not None))

    @property
    def bound_to_chain(self) -> tuple[str, ...]:
        """Names of the parameters that exist only in the chain's own process."""
        context = [n for n, s in self.sources.items() if s == _Offered("context")]
        return (*self.asking_for_env, *context)

    @property
    def asking_for_env(self) -> tuple[str, ...]:
        """Names of the parameters that receive an environment."""
        return tuple(n for n, s in self.sources.items() if isinstance(s, _Environment))

    def environment_classes(self, task: Task) -> dict[str, type | None]:
        """Return the parameters that receive an environment with its class; None for any."""
        found: dict[str, type | None] = {}
        for name, source in self.sources.items():
            if isinstance(source, _Environment):
                found[name] = source.spec.instance_class if source.spec else None
            elif isinstance(source, _Field) and source.is_instance(task):
                found[name] = source.kind
        return found

    async def lease(self, context: Context) -> dict[str, Any]:
        """Return the environments, leased until the chain's deadline.

        The reward's own timeout starts only after that.
        """
        wanted = {n: s.spec for n, s in self.sources.items() if isinstance(s, _Environment)}
        for name, source in self.sources.items():
            if isinstance(source, _Field) and source.kind and source.is_instance(context.task):
                wanted[name] = EnvSpec(source.kind)
        try:
            async with context.clock.timeout_at(context.deadline):
                return {n: await context.environments.get(spec) for n, spec in wanted.items()}
        except TimeoutError as error:
            raise LeaseTimeout(f"no environment for {', '.join(wanted)} in time") from error

    def fill(self, offers: Offers, task: Task) -> dict[str, Any]:
        """Return the value of each parameter except environments, or raise RewardError."""
        return {
            name: _value(source, offers, task)
            for name, source in self.sources.items()
            if not isinstance(source, _Environment)
            and not (isinstance(source, _Field) and source.is_instance(task))
        }

    def missing_fields(self, task: Task, leased: Collection[EnvSpec] = ()) -> list[str]:
        """List the fields that a task would have to have and lacks.

        Args:
            task: A row.
            leased: Environments of the chain, whose instances parameters may receive.
        """
        fields = [s for s in self.sources.values() if isinstance(s, _Field)]
        kinds = [spec.instance_class for spec in leased]
        return [
            field.name
            for field in fields
            if field.default is MISSING
            and field.name not in task.fields
            and not any(k and field.kind and issubclass(k, field.kind) for k in kinds)
        ]


def _source(parameter: Parameter, offered: Offers, env: EnvSpec | None) -> _Source:
    name, wanted = parameter.name, _without_metadata(parameter.annotation)
    if name == "env" and env is not None:
        return _Environment(env)
    if is_environment_class(wanted):
        # A Protocol describes an environment, but can't be instantiated.
        is_protocol = getattr(wanted, "_is_protocol", False)
        return _Environment(None if is_protocol else EnvSpec(wanted))
    by_annotation = [n for n, kind in offered.items() if kind is not None and kind is wanted]
    if by_annotation:
        return _Offered(by_annotation[0])
    if name == "env":
        return _Environment(None)
    if name in offered:
        return _Offered(name)
    is_class = isinstance(wanted, type) and wanted is not MISSING
    own_class = is_class and wanted.__module__ != "builtins"
    return _Field(name, parameter.default, wanted if own_class else None)


def _without_metadata(annotation: Any) -> Any:
    return get_args(annotation)[0] if get_origin(annotation) is Annotated else annotation


def _value(source: _Offered | _Field, offers: Offers, task: Task) -> Any:
    if isinstance(source, _Offered):
        return offers[source.name]
    if source.name not in task.fields and source.default is MISSING:
        raise RewardError(missing_field(source.name, task, offers))
    return task.fields.get(source.name, source.default)


def missing_field(name: str, task: Task, offers: Collection[str] = ()) -> str:
    """Return the message for a missing field, with the existing names and a suggestion."""
    known = suggestion(name, {*task.fields, *offers})
    return f"task {task.id!r} has no field {name!r}. {known}"


def check_env_is_taken(name: str, arguments: Arguments, env: EnvChoice | None) -> None:
    """Refuse an `env=` that no parameter would receive."""
    if env is not None and "env" not in arguments.sources:
        raise ConfigError(
            f"{name!r} was given env={env!r}, but has no parameter called 'env' to receive it: "
            "add one, or leave env= out"
        )
