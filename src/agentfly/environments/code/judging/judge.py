r"""Hidden tests, and the verdict on a piece of code that is run against them in sandboxes.

The forms of a test in a task:

{"call": "f(3)", "expected": 9}        the value of a call; "any_of": [...] for several values
"assert f(3) == 9"                     a test program: statements that raise when it fails
{"input": "3\n", "output": "9\n"}      the output of a whole program
"""

import ast
import math
from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from typing import Any

from agentfly.environments.code.judging.candidate import Answer, Candidate
from agentfly.environments.code.judging.examination import Examination, Problem, Unused
from agentfly.environments.code.judging.literal import MAX_CHARACTERS, same
from agentfly.environments.code.judging.tested_names import (
    UNPARSABLE,
    TestedNames,
    with_references,
)
from agentfly.environments.code.judging.writing import show_value
from agentfly.errors import ConfigError, EnvError, RewardError
from agentfly.sandbox import PythonSandbox, SandboxLimits
from agentfly.sandbox.cell_result import harmless
from agentfly.types import EnvSpec, Task


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
    """An input of the code as a program, and its expected output."""

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
    except UNPARSABLE as error:
        raise RewardError(
            f"{where} is not Python, or too deeply nested: {error}: {source!r:.200}"
        ) from error
    return source


_LIMITS = SandboxLimits(seconds=5.0, output_chars=MAX_CHARACTERS)
JUDGE = EnvSpec(PythonSandbox, (("limits", _LIMITS),))
"""Sandbox in which code is judged: five seconds per test, and long answers allowed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """The results of all tests."""

    problems: tuple[str | None, ...]
    """Reason of each failed test; None where it passed."""

    @property
    def share(self) -> float:
        """The share of tests that passed."""
        return self.problems.count(None) / len(self.problems)


async def judge(
    code: str,
    cases: Sequence[Case],
    *,
    setup: str = "",
    entry_point: str | None = None,
    sandbox: EnvSpec = JUDGE,
    total_seconds: float = 20.0,
) -> Verdict:
    """Run code against hidden tests.

    Args:
        code: The code under test.
        cases: The tests.
        setup: Runs before the code and before the tests, for example imports.
        entry_point: The function that the tests call: needed if the setup holds an outline of it,
            or if it has the name of a built-in function.
        sandbox: Spec of the sandbox; its limits are those of one test.
        total_seconds: Time limit of all tests together; the rest then count as failed.

    Raises:
        ConfigError: One of the cases is no test.
        RewardError: A test can't be judged, or no sandbox is available.
    """
    _require_cases(cases)
    names = _tested_names(code, cases, setup, entry_point)
    try:
        async with AsyncExitStack() as stack:
            candidate = Candidate(
                _made(sandbox, stack),
                code=code,
                setup=setup,
                entry_point=entry_point,
                total_seconds=total_seconds,
            )
            examination = Examination(
                _made(sandbox, stack),
                candidate,
                setup=setup,
                names=names,
                entry_point=entry_point,
            )
            problems = [await _problem(case, candidate, examination, names) for case in cases]
    except EnvError as error:
        raise RewardError(f"the code could not be judged: {error}") from error
    return Verdict(problems=tuple(_settled(problems)))


def _tested_names(
    code: str, cases: Sequence[Case], setup: str, entry_point: str | None
) -> TestedNames:
    sources = [case.source for case in cases if isinstance(case, Check)]
    try:
        return TestedNames(code=code, setup=setup, sources=sources, entry_point=entry_point)
    except UNPARSABLE as error:
        raise RewardError(
            f"the task's setup fails: it is not Python, or too deeply nested: {error}"
        ) from error


def _settled(problems: list[Problem]) -> list[str | None]:
    """Let tests that don't use the code, such as `data = [2, 1]`, pass only with ones that do."""
    unused = None if None in problems else Unused.UNUSED.value
    return [unused if isinstance(problem, Unused) else problem for problem in problems]


def _require_cases(cases: Sequence[object]) -> None:
    """Raise ConfigError for anything that is no test: it would pass without being run."""
    for case in cases:
        if not isinstance(case, Call | Check | Program):
            raise ConfigError(
                f"a test must be a Call, a Check or a Program, got {type(case).__name__}: "
                f"{case!r:.80}. Wrap assertions as Check(source=...)"
            )


def _made(sandbox: EnvSpec, stack: AsyncExitStack) -> PythonSandbox:
    made: PythonSandbox = sandbox.make()
    stack.push_async_callback(made.close)
    return made


async def _problem(
    case: Case, candidate: Candidate, examination: Examination, names: TestedNames
) -> Problem:
    match case:
        case Call():
            return await _call_problem(case, candidate, names.of_call(case.expression))
        case Check():
            return await examination.run_test(case.source)
        case Program():
            return _program_problem(case, await candidate.run(case.stdin))


async def _call_problem(case: Call, candidate: Candidate, names: set[str]) -> Problem:
    answer = await candidate.call(with_references(case.expression, names))
    if answer.problem is not None:
        return f"{case.expression}: {answer.problem}"
    if not any(same(answer.value, expected) for expected in case.accepted):
        return f"{case.expression} gave {show_value(answer.value)}"
    return None if await candidate.defines_any(names) else Unused.UNUSED


def _program_problem(case: Program, answer: Answer) -> str | None:
    if answer.problem is not None:
        return answer.problem
    return None if same_output(answer.value, case.stdout) else f"it printed {answer.value[:200]!r}"


def same_output(printed: str, expected: str) -> bool:
    r"""Compare word by word and line by line; a number with a point may be rounded otherwise.

    >>> same_output("0.3333333  yes \n\n", "0.333333 yes"), same_output("1 2", "1\n2")
    (True, False)
    """
    ours, theirs = _words(printed), _words(harmless(expected))
    return [len(line) for line in ours] == [len(line) for line in theirs] and all(
        said == wanted or _close(said, wanted)
        for line, expected_line in zip(ours, theirs, strict=True)
        for said, wanted in zip(line, expected_line, strict=True)
    )


def _words(text: str) -> list[list[str]]:
    return [line.split() for line in text.rstrip().splitlines()]


def _close(said: str, wanted: str) -> bool:
    if "." not in wanted:
        return False
    try:
        return math.isclose(float(said), float(wanted), rel_tol=1e-6, abs_tol=1e-6)
    except ValueError:
        return False
