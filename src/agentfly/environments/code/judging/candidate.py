"""The code under test, in its own sandbox, which gets calls and never expected values."""

import ast
import asyncio
import inspect
from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import cache
from types import ModuleType
from typing import Any

from agentfly.environments.code.judging import writing
from agentfly.environments.code.judging.literal import NamedContents, NotPlainError, read_value
from agentfly.environments.code.judging.raised import (
    REPORTER,
    Raised,
    asking_for_note,
    read_raised,
    watched,
)
from agentfly.environments.code.judging.tested_names import reference
from agentfly.errors import RewardError, ToolError
from agentfly.sandbox import CellResult, CellStatus, PythonSandbox
from agentfly.types import Seed

INPUT_FILE = "input.txt"
OBJECT_PREFIX = "__object_"
"""Start of the names of objects that the code has made, for its later calls."""
_AS_MODULE = """\
import sys
sys.modules["solution"] = sys.modules[__name__]
__name__ = "solution"
"""
"""Makes the code a module, so that `if __name__ == "__main__":` does not run."""
_OPEN_INPUT = f"""\
import os, sys
os.dup2(os.open({INPUT_FILE!r}, os.O_RDONLY), 0)
os.unlink({INPUT_FILE!r})
sys.stdin = open(0, encoding="utf-8", closefd=False)
del os, sys
"""
_WRITTEN_VALUE = '\n__writer__["write_result"](__value__)'
"""End of a cell whose result is `__value__`."""
_ITERATES = '\n__writer__["is_iterator"](__value__)'
"""End of a cell that tells whether `__value__` is an iterator."""
TASK_SETUP = "the task's setup"
JUDGE_CODE = "the judge's own code"
_SEED = Seed(0)
"""A fixed seed: the same code gets the same verdict."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """The code's result: a plain value, or the reason why there is none."""

    value: Any = None
    problem: str | None = None
    """Message for people, with the exception's type: "ValueError: too small"."""
    object_name: str | None = None
    """Variable of the code's sandbox that holds the result, if it is more than a plain value."""
    is_iterator: bool = False
    raised: Raised | None = None
    """The problem as an exception that a test may expect; None for a limit or an exit."""


class Candidate:
    """Evaluates calls of the code or runs it as a program, within a total time limit."""

    def __init__(
        self,
        sandbox: PythonSandbox,
        *,
        code: str,
        setup: str,
        entry_point: str | None,
        total_seconds: float,
    ) -> None:
        self._sandbox = sandbox
        self._setup = setup
        self._entry_point = entry_point
        self._code = code
        self._defined = False
        self._found: set[str] = set()
        self._calls = 0
        self._objects = 0
        self._broken: Answer | None = None
        self._end = asyncio.get_running_loop().time() + total_seconds

    async def call(self, expression: str) -> Answer:
        """Evaluate an expression after the code; one that was killed is loaded again."""
        cell = f"__value__ = {expression}{_WRITTEN_VALUE}"
        return await self._unready() or _answer(await self._run_cell(cell))

    async def call_for_test(self, expression: str) -> Answer:
        """Evaluate an expression, or assign, for a test program.

        A namedtuple, and a result that is no plain value, is kept in the sandbox, and what is
        raised may be expected.
        """
        if unready := await self._unready():
            return unready
        self._calls += 1
        result = await self._run_cell(watched(expression, self._calls) + _WRITTEN_VALUE)
        answer = _answer(result)
        if result.exit_code is not None:
            return answer
        if result.ok:
            is_plain = answer.problem is None and not isinstance(answer.value, NamedContents)
            return answer if is_plain else await self._keep(answer)
        if result.status is CellStatus.ERROR and result.limit is None:
            return replace(answer, raised=await self._raised())
        return answer

    async def defines_any(self, names: Iterable[str]) -> bool:
        """Return whether one of these names is there once the code has run."""
        for name in sorted(names):
            if name not in self._found:
                answer = await self.call_for_test(reference(name))
                if answer.problem is not None and answer.object_name is None:
                    continue
                self._found.add(name)
            return True
        return False

    async def _keep(self, answer: Answer) -> Answer:
        """Keep the last value under a name of its own."""
        self._objects += 1
        name = f"{OBJECT_PREFIX}{self._objects}"
        kept = await self._run_cell(f"{name} = __value__{_ITERATES}")
        if not kept.ok:
            return _failure(kept)
        return replace(answer, object_name=name, is_iterator=kept.value == "True")

    async def _raised(self) -> Raised | None:
        """Return the exception of the last call."""
        noted = await self._run_cell(asking_for_note(self._calls))
        return None if noted.value is None else read_raised(noted.value)

    async def _unready(self) -> Answer | None:
        """Load the code if it is not there; return the problem if nothing can be called."""
        if self._is_late():
            return _LATE
        if not self._defined:
            self._broken = self._broken or await self._define()
        return self._broken

    async def _run_cell(self, source: str) -> CellResult:
        result = await self._sandbox.run(source)
        self._defined = result.status is not CellStatus.KILLED
        return result

    async def run(self, stdin: str) -> Answer:
        """Run the code as a program, each time in a fresh interpreter, and return its output."""
        if self._is_late():
            return _LATE
        await self._sandbox.reset(None, _SEED)
        try:
            await self._sandbox.write_file(INPUT_FILE, stdin)
        except ToolError as error:
            raise RewardError(f"the input of a test can't be given to the code: {error}") from error
        await prepare(self._sandbox, _OPEN_INPUT, JUDGE_CODE)
        result = await self._sandbox.run(self._code)
        # The exit code of a program is ignored.
        exited = result.error is None and result.exit_code is not None
        return Answer(value=result.stdout) if result.ok or exited else _failure(result)

    async def _define(self) -> Answer | None:
        """Load the code; return an answer with the problem if that fails."""
        await self._sandbox.reset(None, _SEED)
        # With variables of its own, as the reporter.
        writer = f"__writer__ = {{}}\nexec({source_in_sandbox(writing)!r}, __writer__)\n"
        await prepare(self._sandbox, f"{_AS_MODULE}{REPORTER}\n{writer}", JUDGE_CODE)
        await prepare(self._sandbox, self._setup, TASK_SETUP)
        if self._entry_point is not None:  # An outline in the setup is not the code's.
            forget = f"globals().pop({self._entry_point!r}, None)"
            await prepare(self._sandbox, forget, TASK_SETUP)  # Only a setup can make this fail.
        result = await self._sandbox.run(self._code)
        if result.ok and result.exit_code is None:
            return None
        return Answer(problem=_problem(result))

    def _is_late(self) -> bool:
        return asyncio.get_running_loop().time() >= self._end


@cache
def source_in_sandbox(module: ModuleType) -> str:
    """Return a module's source without its imports of this package, which run before it."""
    source = inspect.getsource(module)
    lines = source.split("\n")
    for node in reversed(ast.parse(source).body):
        if isinstance(node, ast.ImportFrom) and str(node.module).startswith("agentfly."):
            del lines[node.lineno - 1 : node.end_lineno]
    kept = "\n".join(lines)
    assert "agentfly" not in kept, f"{module.__name__} runs where agentfly can't be imported"
    return kept


async def prepare(sandbox: PythonSandbox, source: str, what: str) -> None:
    """Run a program that is not part of the code; raise RewardError, "`what` fails", if it does."""
    result = await sandbox.run(source)
    if not result.ok:
        raise RewardError(f"{what} fails: {result.error or result.note}")


_LATE = Answer(problem="TimeoutError: the time for all tests together is up")


def _answer(result: CellResult) -> Answer:
    if not result.ok or result.exit_code is not None:
        return _failure(result)
    try:
        return Answer(value=None if result.value is None else read_value(result.value))
    except NotPlainError as error:
        return Answer(problem=f"TypeError: {error}")


def _failure(result: CellResult) -> Answer:
    return Answer(problem=_problem(result))


def _problem(result: CellResult) -> str:
    """Return the problem in one line."""
    if result.limit == "time":
        return "TimeoutError: it took too long"
    if result.limit is None and result.error is not None:
        return result.error.strip().rpartition("\n")[2]
    if result.exit_code is not None:
        return f"SystemExit: {result.exit_code}"
    return f"RuntimeError: {result.note or 'it ended itself'}"
