"""Jinja as `transformers` configures it for chat templates, with a limit of processor time.

A template comes with a model, from an unknown author. Jinja's sandbox protects the machine, but not
against endless rendering: `range` ends at 100,000, but two nested loops over it run for hours. A
thread can't be stopped from outside, and a process for each rendering costs more than rendering, so
the limit is inside: every pass of a loop and every call checks a budget of processor time (which
doesn't depend on other processes), and the two operators whose single step can take forever, `*`
and `**`, are bounded. Memory is not limited.
"""

import json
import threading
import time
from collections.abc import Iterable, Iterator
from functools import lru_cache
from typing import Any, NoReturn

import jinja2
from jinja2 import nodes
from jinja2.ext import Extension, loopcontrols
from jinja2.parser import Parser
from jinja2.runtime import Context, LoopContext
from jinja2.sandbox import ImmutableSandboxedEnvironment

_TICKS_PER_LOOK = 64
"""Number of loop passes and calls between two readings of the clock."""

_MAX_REPEATED = 10_000_000
"""Characters or items that a repetition (`"-" * 80`) may make."""

_MAX_BITS = 4096
"""Bits of a number that a template may compute."""

_DICT_ATTRIBUTES = frozenset(dir(dict))

_LOOP_ATTRIBUTES = frozenset(
    {"first", "last", "index", "index0", "revindex", "revindex0", "length", "depth", "depth0"}
)
"""Attributes of `loop` that are numbers or truth values, which the sandbox need not examine."""


class RenderTimeout(jinja2.TemplateRuntimeError):
    """A rendering that spent its budget."""


class _Budget(threading.local):
    """Processor time of the rendering that runs in this thread."""

    ends = float("inf")
    ticks = 0

    def spend(self, ticks: int = 1) -> None:
        self.ticks += ticks
        if self.ticks >= _TICKS_PER_LOOK:
            self.ticks = 0
            if time.thread_time() > self.ends:
                raise RenderTimeout("it computes for too long")


_budget = _Budget()


class CpuTimeLimit:
    """Context manager that limits the processor time of what this thread renders in the body."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds

    def __enter__(self) -> None:
        """Start the budget."""
        _budget.ends = time.thread_time() + self._seconds

    def __exit__(self, *error: object) -> None:
        """Lift the limit."""
        _budget.ends = float("inf")


class _Metered:
    """An iterable whose every item is charged to the budget."""

    def __init__(self, items: Iterable[Any]) -> None:
        self._items = items

    def __len__(self) -> int:
        return len(self._items)  # type: ignore[arg-type] # a TypeError is what Jinja expects

    def __iter__(self) -> Iterator[Any]:
        for item in self._items:
            _budget.spend()
            yield item


def _metered(items: Iterable[Any]) -> Iterable[Any]:
    """Charge the items of a loop to the budget: those of a short list at once."""
    if isinstance(items, list | tuple) and len(items) < _TICKS_PER_LOOK:
        _budget.spend(len(items))
        return items
    return _Metered(items)


class _Sandbox(ImmutableSandboxedEnvironment):
    """Jinja's sandbox, with a short way for what templates read most: a dict's field, `loop`."""

    intercepted_binops = frozenset({"*", "**"})

    def getattr(self, obj: Any, attribute: str) -> Any:
        """Return `obj.attribute`; a dict's own methods come before its keys, as Jinja has it."""
        if type(obj) is dict and attribute not in _DICT_ATTRIBUTES:
            if attribute in obj:
                return obj[attribute]
            return self.undefined(obj=obj, name=attribute)
        if type(obj) is LoopContext and attribute in _LOOP_ATTRIBUTES:
            return getattr(obj, attribute)
        return super().getattr(obj, attribute)

    def call(__self, __context: Context, __obj: Any, *args: Any, **kwargs: Any) -> Any:  # noqa: N805 - as in Jinja
        _budget.spend()
        return super().call(__context, __obj, *args, **kwargs)

    def call_binop(self, context: Context, operator: str, left: Any, right: Any) -> Any:
        _require_small(operator, left, right)
        return super().call_binop(context, operator, left, right)

    def _generate(self, source: nodes.Template, *args: Any, **kwargs: Any) -> str:
        for loop in source.find_all(nodes.For):
            metered = nodes.Filter(loop.iter, "_metered", [], [], None, None)
            loop.iter = metered.set_lineno(loop.lineno).set_environment(self)
        return super()._generate(source, *args, **kwargs)


def _require_small(operator: str, left: Any, right: Any) -> None:
    numbers = [n for n in (left, right) if isinstance(n, int)]
    if len(numbers) == 2:
        one, other = (abs(n).bit_length() for n in numbers)
        bits = one * abs(numbers[1]) if operator == "**" else one + other
        if bits > _MAX_BITS:
            raise jinja2.TemplateRuntimeError(f"a number of more than {_MAX_BITS} bits")
    elif numbers and operator == "*":
        repeated = right if left is numbers[0] else left
        if hasattr(repeated, "__len__") and len(repeated) * numbers[0] > _MAX_REPEATED:
            raise jinja2.TemplateRuntimeError(f"a text of more than {_MAX_REPEATED} characters")


@lru_cache(maxsize=1)
def environment() -> jinja2.Environment:
    """Return the environment in which all templates are compiled."""
    made = _Sandbox(trim_blocks=True, lstrip_blocks=True, extensions=[_GenerationTag, loopcontrols])
    made.filters["tojson"] = _tojson
    made.filters["_metered"] = _metered
    made.globals["raise_exception"] = _raise_exception
    del made.globals["lipsum"]
    return made


def _tojson(
    value: object,
    ensure_ascii: bool = False,  # noqa: FBT001, FBT002 - templates pass these by position too
    indent: int | None = None,
    separators: tuple[str, str] | None = None,
    sort_keys: bool = False,  # noqa: FBT001, FBT002
) -> str:
    """Write JSON as it is; Jinja's own filter escapes it for HTML."""
    return json.dumps(
        value,
        ensure_ascii=ensure_ascii,
        indent=indent,
        separators=separators,
        sort_keys=sort_keys,
    )


def _raise_exception(message: str) -> NoReturn:
    raise jinja2.TemplateError(message)


class _GenerationTag(Extension):
    """`{% generation %}` marks what an assistant says; here the tokens themselves are the record.

    The body becomes a scope of its own, as in transformers: what it sets stays inside it.
    """

    tags = {"generation"}  # noqa: RUF012 - declared so by Jinja

    def parse(self, parser: Parser) -> nodes.Node:
        line = next(parser.stream).lineno
        body = parser.parse_statements(("name:endgeneration",), drop_needle=True)
        return nodes.CallBlock(self.call_method("_said"), [], [], body).set_lineno(line)

    @staticmethod
    def _said(caller: Any) -> str:
        return str(caller())
