r"""The forms of a hidden test, and how a task writes them.

{"call": "f(3)", "expected": 9}        the value of a call; "any_of": [...] if several are right
"assert f(3) == 9"                     a test program: any statements that raise when it fails
{"input": "3\n", "output": "9\n"}      what a whole program prints
"""

import ast
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from agentfly.errors import RewardError
from agentfly.types import Task


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """An expression whose value is compared."""

    expression: str
    accepted: tuple[Any, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """A test program that calls the code by its names."""

    source: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Program:
    """What the code prints when it reads an input."""

    stdin: str
    stdout: str


Case = Call | Check | Program


def read_cases(task: Task, field: str) -> list[Case]:
    """Read a task's hidden tests; RewardError if it has none or one can't be read."""
    rows = task.fields.get(field)
    if not isinstance(rows, list) or not rows:
        raise RewardError(
            f"task {task.id!r} can't be judged: its field {field!r} must be a list of tests such "
            f'as {{"call": "f(3)", "expected": 9}}, got {rows!r}'
        )
    return [_case(row, f"{field}[{number}] of task {task.id!r}") for number, row in enumerate(rows)]


def _case(row: object, where: str) -> Case:
    match row:
        case str():
            return Check(source=_parsed(row, "exec", where))
        case {"call": str(call), "expected": expected}:
            return Call(expression=_parsed(call, "eval", where), accepted=(expected,))
        case {"call": str(call), "any_of": [*accepted]}:
            return Call(expression=_parsed(call, "eval", where), accepted=tuple(accepted))
        case {"input": str(stdin), "output": str(stdout)}:
            return Program(stdin=stdin, stdout=stdout)
    shown = sorted(row) if isinstance(row, Mapping) else row
    raise RewardError(
        f"{where} is no test: expected a dict with `call` and `expected`, a dict with `input` and "
        f"`output`, or a text of assertions, got {shown!r}"
    )


def _parsed(source: str, mode: str, where: str) -> str:
    try:
        ast.parse(source, mode=mode)
    except (SyntaxError, ValueError) as error:
        raise RewardError(f"{where} is not Python: {error}: {source!r}") from error
    return source
