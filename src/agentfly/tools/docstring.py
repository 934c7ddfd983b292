"""What a docstring says of a function and of its parameters."""

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import docstring_parser

from agentfly.runtime.signature import unwrapped


@dataclass(frozen=True, slots=True, kw_only=True)
class Documentation:
    """A docstring as read, whether Google, NumPy or reST."""

    description: str
    """The summary and what follows it, without the sections on arguments, returns and so on."""
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
