"""Methods of a class as tools: each chain leases an instance of its own.

    tools=[Inventory.put, Inventory.count]      # these methods
    tools=[Inventory]                           # all public methods that have a docstring

The class needs no base class. An instance is made without arguments at the chain's first call, and
is what the reward of the same chain receives.
"""

import dis
import functools
import inspect
from collections.abc import Callable, Iterable, Iterator, Sequence
from types import BuiltinFunctionType, FunctionType, MethodType, ModuleType
from typing import Any, TypeGuard, cast

from agentfly.errors import ConfigError
from agentfly.runtime.signature import unwrapped
from agentfly.tools.function import FunctionTool, tool
from agentfly.types import EnvSpec, Tool
from agentfly.types.environment import plain_factory, serving_spec

LIFECYCLE = frozenset({"reset", "step", "close", "healthy"})
"""Methods that the chain and the manager call, and that are no tools."""


def make_tools(given: Iterable[object], environment: EnvSpec | None = None) -> tuple[Tool, ...]:
    """Turn tools, functions, methods and classes into tools.

    >>> class Inventory:
    ...     def put(self, item: str) -> str:
    ...         '''Put an item into the inventory.'''
    >>> [made.spec.name for made in make_tools([Inventory])]
    ['put']

    Args:
        given: What a user lists as tools.
        environment: The agent's environment, whose instance serves methods of its class.
    """
    made = [one for item in given for one in _tools_of(item)]
    named = [spec for one in made for spec in getattr(one, "environments", ())]
    named += [environment] if environment else []
    classes = [EnvSpec(_class_of(one)) for one in made if _is_unbound(one)]
    return tuple(_with_instance(one, named, classes) for one in made)


def method_tools(spec: EnvSpec) -> tuple[FunctionTool[..., Any], ...]:
    """Make tools of all public methods with a docstring, in the order of their definition."""
    kind = spec.instance_class
    if kind is None:
        raise ConfigError(
            f"{spec.name} is a function whose instances are of an unknown class: annotate what it "
            f"returns, as in `def {spec.name}() -> Inventory:`, or name the class itself"
        )
    require_makeable(spec)
    found = {name: inspect.getattr_static(kind, name) for name in _public_names(kind)}
    documented = [name for name, value in found.items() if _has_docstring(value)]
    if not documented:
        listed = ", ".join(found) or "none"
        raise ConfigError(
            f"{kind.__qualname__} has no tools: a tool is a public method with a docstring, and "
            f"its public methods are: {listed}. Write a docstring for each that the model may "
            "call, or a `step` that answers the model's text"
        )
    return tuple(_method_tool(kind, name).of_class(spec, name) for name in documented)


def require_makeable(spec: EnvSpec) -> None:
    """Refuse a class or function that can't be called without further arguments."""
    factory = plain_factory(spec.factory)
    if inspect.isabstract(factory):
        left = ", ".join(sorted(getattr(factory, "__abstractmethods__", ())))
        raise ConfigError(
            f"{spec.name} is abstract, so no chain can have an instance: it lacks {left}. "
            "Name a class that defines them"
        )
    try:
        inspect.signature(spec.factory).bind(**dict(spec.options))
    except TypeError as error:
        name = spec.name.partition("(")[0]
        raise ConfigError(
            f"{spec.name} can't be made without arguments ({error}), and each chain gets an "
            "instance of its own: give the parameters defaults, or name something that fills them, "
            f"as in environment=functools.partial({name}, ...), or a function that makes one"
        ) from error
    except ValueError:
        return  # No signature can be read of some classes that are written in C.


def _tools_of(item: object) -> Sequence[Tool]:
    if isinstance(item, EnvSpec) or isinstance(_factory(item), type):
        spec = item if isinstance(item, EnvSpec) else EnvSpec(cast(Callable[..., Any], item))
        return method_tools(spec)
    if is_plain_callable(item):
        return [tool(cast(Callable[..., Any], item))]
    return [cast(Tool, item)]


def is_plain_callable(item: object) -> bool:
    """Return whether it is a function, a method, or a partial of one."""
    # Not `isroutine`, which is true of every object with `__get__`, and so of tools and rewards.
    return isinstance(item, FunctionType | MethodType | BuiltinFunctionType | functools.partial)


def _factory(item: object) -> object:
    return plain_factory(item) if callable(item) else item


def _with_instance(one: Tool, named: Sequence[EnvSpec], classes: Sequence[EnvSpec]) -> Tool:
    """Return the tool with the spec of its instance.

    `named` are the environments that other tools and the agent name, `classes` those in which
    methods that were taken from a class without a decorator are defined.
    """
    if not isinstance(one, FunctionTool):
        return one
    if one.unbound:
        one = one.of_class(_spec_of(one, named, classes))
    if (method := one.method) is not None:
        spec = serving_spec(method.spec, named)
        require_makeable(spec)
        one = one.of_class(spec, method.name)
    _refuse_shared_state(one)
    return one


def _is_unbound(one: Tool) -> TypeGuard[FunctionTool[..., Any]]:
    return isinstance(one, FunctionTool) and one.unbound


def _class_of(one: FunctionTool[..., Any]) -> type:
    kind = defining_class(unwrapped(one.function))
    if kind is None:
        raise ConfigError(
            f"{one.function.__qualname__} is a method whose class can't be found, so no chain can "
            "have an instance of it: pass the class itself, tools=[TheClass], or decorate the "
            "method with @tool in the class body"
        )
    return kind


def _spec_of(
    one: FunctionTool[..., Any], named: Sequence[EnvSpec], classes: Sequence[EnvSpec]
) -> EnvSpec:
    """Return the environment of a method that was taken from its class without a decorator."""
    name, kind = one.spec.name, _class_of(one)
    own = EnvSpec(kind)
    serving = serving_spec(own, [*named, *classes])
    heirs = [str(heir.__qualname__) for heir in list[type](type.__subclasses__(kind))]
    if heirs and serving == own and own not in named:
        raise ConfigError(
            f"{kind.__qualname__}.{name} is also a method of {', '.join(heirs)}, and Python does "
            f"not say which class it was taken from: decorate {name} with @tool in the class body, "
            f"or name the class, as in environment={kind.__qualname__}"
        )
    return serving


def defining_class(function: Callable[..., Any]) -> type | None:
    """Return the class in whose body a function was written."""
    path = function.__qualname__.split(".<locals>.")[-1].split(".")[:-1]
    found: Any = getattr(inspect.unwrap(function), "__globals__", {})
    found = found.get(path[0]) if path else None
    for name in path[1:]:
        found = getattr(found, name, None)
    candidates = [found] if isinstance(found, type) else []
    # A class inside a function is not among the module's names.
    return next((c for c in (*candidates, *_all_classes()) if _defines(c, function)), None)


def _defines(kind: type, function: Callable[..., Any]) -> bool:
    own = vars(kind).get(getattr(function, "__name__", ""))
    return own is function or getattr(own, "function", None) is function


def _all_classes() -> Iterator[type]:
    waiting, seen = [object], set[type]()
    while waiting:
        kind = waiting.pop()
        for heir in type.__subclasses__(kind):
            if heir not in seen:
                seen.add(heir)
                waiting.append(heir)
                yield heir


def _public_names(kind: type) -> list[str]:
    """List public methods, those of base classes first, in the order of their definition."""
    bases = [base for base in reversed(kind.__mro__) if base is not object]
    names = dict.fromkeys(name for base in bases for name in vars(base))
    return [
        name
        for name in names
        if not name.startswith("_") and name not in LIFECYCLE and _is_method(kind, name)
    ]


def _is_method(kind: type, name: str) -> bool:
    value = inspect.getattr_static(kind, name)
    return inspect.isfunction(value) or isinstance(value, FunctionTool | staticmethod | classmethod)


def _has_docstring(value: Any) -> bool:
    return bool((getattr(value, "__doc__", None) or "").strip()) or isinstance(value, FunctionTool)


def _method_tool(kind: type, name: str) -> FunctionTool[..., Any]:
    value = getattr(kind, name)
    return value if isinstance(value, FunctionTool) else tool(value)


def _refuse_shared_state(one: FunctionTool[..., Any]) -> None:
    """Refuse a bound method whose object all chains would change together."""
    if one.shared or one.method is not None:
        return
    owner = _owner(one.function)
    if owner is None or not has_state(owner):
        return
    kind, name = type(owner).__qualname__, unwrapped(one.function).__name__
    raise ConfigError(
        f"tool {one.spec.name!r} is a method of one {kind} object, whose state all chains would "
        f"share. For an instance per chain pass the class's method, tools=[{kind}.{name}], or all "
        f"of them, tools=[{kind}]; if sharing is meant, pass tool(obj.{name}, shared=True), or "
        "write @tool(shared=True)"
    )


def _owner(function: Callable[..., Any]) -> object:
    """Return the object of a bound method, also inside a partial; None for any other function."""
    while isinstance(function, functools.partial):
        function = function.func
    return getattr(function, "__self__", None) if inspect.ismethod(function) else None


def has_state(owner: object) -> bool:
    """Return whether an object has attributes, or methods that set them."""
    if isinstance(owner, type | ModuleType):
        return False
    if isinstance(owner, list | dict | set) or getattr(owner, "__dict__", None):
        return True
    bases = [base for base in type(owner).__mro__ if base is not object]
    slots = [slot for base in bases for slot in _slots(base)]
    functions = [value for base in bases for value in vars(base).values()]
    return any(hasattr(owner, slot) for slot in slots) or any(map(_sets_attributes, functions))


def _slots(kind: type) -> Sequence[str]:
    slots = vars(kind).get("__slots__", ())
    return [slots] if isinstance(slots, str) else list(slots)


def _sets_attributes(value: object) -> bool:
    function = getattr(value, "function", value)
    return inspect.isfunction(function) and any(
        instruction.opname in ("STORE_ATTR", "DELETE_ATTR")
        for instruction in dis.get_instructions(function)
    )
