"""The options that clients of an environment server may choose, and limits on their sessions."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import PurePath
from typing import Any

from agentfly.errors import ConfigError
from agentfly.resources.http_protocol import plain_option
from agentfly.types import EnvSpec

ClientOptions = Mapping[str, Sequence[Any]]
"""The options that clients may set, each with the values to choose from.

It is the class attribute `client_options` of an environment, or an argument of the server:
`{"show_commands": (False, True)}`.
"""
NEVER = ("isolation", "unsafe", "readable", "preload")
"""Options that decide what code may do or see on the server's machine."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionLimits:
    """Maximum numbers of sessions, and their lifetime without a request."""

    total: int = 1024
    per_client: int = 512
    """Maximum for one client, which is identified by its address."""
    idle_seconds: float = 300.0
    """A client that asks for nothing in this time is taken for dead, and its session ends."""

    def __post_init__(self) -> None:
        for one in fields(self):
            if not getattr(self, one.name) > 0:
                value = getattr(self, one.name)
                raise ConfigError(f"{one.name} must be greater than 0, got {value!r}")


class OptionError(Exception):
    """A client asked for what the server was not started with."""


class OfferedOptions:
    """The options of one served environment.

    >>> class Shop:
    ...     def __init__(self, size=3, color="red"): ...
    >>> offered = OfferedOptions(EnvSpec(Shop, (("color", "red"),)), {"size": (3, 5)})
    >>> offered.spec_for({"size": 5}).options
    (('color', 'red'), ('size', 5))
    >>> offered.spec_for({"size": 7})
    Traceback (most recent call last):
    agentfly.resources.client_options.OptionError: ... 'size' ... Clients may choose: size: 3, 5
    """

    def __init__(self, spec: EnvSpec, offered: ClientOptions | None = None) -> None:
        if offered is None:
            offered = getattr(spec.factory, "client_options", {})
        for name, values in offered.items():
            _require_harmless(name, values)
        self._own = dict(spec.options)
        self._factory = spec.factory
        self.offered = {name: tuple(values) for name, values in offered.items()}
        """The values to choose from, by option."""

    def spec_for(self, sent: object) -> EnvSpec:
        """Return what to lease for a client; raise OptionError unless all of it is offered.

        The values are the operator's own: nothing that a client sent reaches the factory.
        """
        if not isinstance(sent, dict):
            raise OptionError(f"options are a JSON object, got a {type(sent).__name__}")
        chosen = {name: self._chosen(name, value) for name, value in sent.items()}
        # In one order, so that the same choice is the same kind of instance.
        return EnvSpec(self._factory, tuple({**self._own, **dict(sorted(chosen.items()))}.items()))

    def _chosen(self, name: str, sent: object) -> Any:
        own = [self._own[name]] if name in self._own else []
        for value in (*own, *self.offered.get(name, ())):
            if _is_sent_as(value, sent):
                return value
        raise OptionError(f"{self._refusal(name, sent)}. {self._choices()}")

    def _refusal(self, name: str, sent: object) -> str:
        refusal = f"the option {name[:100]!r} is not open to clients"
        if name in self.offered or name in self._own:
            refusal += f" with the value {json.dumps(sent):.100}"
        if name in self._own:
            refusal += ": leave it out, or send what the server was started with"
        return refusal

    def _choices(self) -> str:
        if not self.offered:
            return "Clients may choose nothing here: the operator sets all options"
        lists = (f"{name}: {_listed(values)}" for name, values in self.offered.items())
        return f"Clients may choose: {'; '.join(lists)}"


def _require_harmless(name: str, values: Sequence[Any]) -> None:
    if name in NEVER:
        raise ConfigError(
            f"clients can't be given the option {name!r}, which decides what code may do on this "
            "machine: set it where the server is started"
        )
    for value in values:
        try:
            hash(value)
        except TypeError as error:
            raise ConfigError(
                f"{name}={value!r:.100} can't be offered: {error}. Write a tuple for a list"
            ) from error
        text = json.dumps(plain_option(value))
        if isinstance(value, PurePath) or "/" in text or "\\" in text:
            raise ConfigError(
                f"clients can't be given {name}={value!r:.100}, a path or an address: set it where "
                "the server is started"
            )


def _is_sent_as(value: object, sent: object) -> bool:
    """Return whether a client that wants this value sends that: 1, 1.0 and true are different."""
    try:
        plain = plain_option(value)
    except ConfigError:
        return False  # The server's own, which no client can spell.
    return bool(plain == sent) and type(plain) is type(sent)


def _listed(values: Sequence[Any]) -> str:
    shown = [json.dumps(plain_option(value)) for value in values]
    return ", ".join(shown if len(shown) <= 8 else [*shown[:4], "...", shown[-1]])
