"""What the manager needs to know of an instance, wherever it lives."""

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Protocol

from agentfly.resources.pooling import Pooling
from agentfly.runtime.invoke import is_async
from agentfly.types import Clock, EnvSpec


class Instance(Protocol):
    """One environment."""

    @property
    def environment(self) -> object | None:
        """The object itself, if it is in this process."""

    @property
    def unfit(self) -> str | None:
        """Why it must not be lent again, as far as is known without asking it."""

    @property
    def methods(self) -> Mapping[str, bool]:
        """Its methods, and which of them are async."""

    def attribute(self, name: str) -> Any:
        """Return a method, sync or async as its class has it, or another value; in any thread."""

    async def close(self) -> None:
        """End it within the time it has for that, whatever its state. May be called again."""


Placement = Callable[[EnvSpec, Pooling, Clock], Awaitable[Instance]]
"""Makes an instance within `make_seconds`, or raises EnvError and leaves nothing behind."""


def methods_of(environment: object) -> dict[str, bool]:
    """List an object's methods, and which of them are async.

    >>> class Shop:
    ...     async def search(self, words): ...
    ...     def buy(self): ...
    >>> methods_of(Shop())
    {'buy': False, 'search': True}
    """
    kind = type(environment)
    # Looked up on the class, or every property would be computed.
    found = {name: getattr(kind, name, None) for name in dir(kind) if name[:2] != "__"}
    methods = {name: own for name, own in found.items() if not isinstance(own, type)}
    return {name: is_async(own) for name, own in methods.items() if callable(own)}
