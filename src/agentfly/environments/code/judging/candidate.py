"""The code under test, in a sandbox of its own. It hears calls, and never what is expected."""

import asyncio
from dataclasses import dataclass
from typing import Any

from agentfly.environments.code.judging.literal import NotPlainError, read_value
from agentfly.sandbox import CellResult, CellStatus, PythonSandbox
from agentfly.types import Seed

INPUT_FILE = "input.txt"
_AS_MODULE = """\
import sys
sys.modules["solution"] = sys.modules[__name__]
__name__ = "solution"
"""
"""What stands under `if __name__ == "__main__":` is not for tests to run."""
_OPEN_INPUT = f"""\
import os, sys
os.dup2(os.open({INPUT_FILE!r}, os.O_RDONLY), 0)
os.unlink({INPUT_FILE!r})
sys.stdin = open(0, encoding="utf-8", closefd=False)
del os, sys
"""
_SEED = Seed(0)
"""Judging draws no lots: the same code gets the same verdict."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What the code gave: a plain value, or why there is none."""

    value: Any = None
    problem: str | None = None
    """For people, with the exception's type in front: "ValueError: too small"."""


class Candidate:
    """Answers calls and runs as a program, until the time for all of it is up."""

    def __init__(
        self, sandbox: PythonSandbox, *, code: str, setup: str, total_seconds: float
    ) -> None:
        self._sandbox = sandbox
        self._sources = (_AS_MODULE, setup, code)
        self._code = code
        self._defined = False
        self._broken: Answer | None = None
        self._end = asyncio.get_running_loop().time() + total_seconds

    async def call(self, expression: str) -> Answer:
        """Evaluate an expression after the code; one that was killed begins anew."""
        if self._is_late():
            return _LATE
        if not self._defined:
            self._broken = self._broken or await self._define()
        if self._broken:
            return self._broken
        result = await self._sandbox.run(expression)
        self._defined = result.status is not CellStatus.KILLED
        return _answer(result)

    async def run(self, stdin: str) -> Answer:
        """Run the code as a program, each time in a fresh interpreter, and return its output."""
        if self._is_late():
            return _LATE
        await self._sandbox.reset(None, _SEED)
        await self._sandbox.write_file(INPUT_FILE, stdin)
        await self._sandbox.run(_OPEN_INPUT)
        result = await self._sandbox.run(self._code)
        return Answer(value=result.stdout) if result.ok else Answer(problem=_problem(result))

    async def _define(self) -> Answer | None:
        """Load the code; return what is wrong with it, if anything."""
        await self._sandbox.reset(None, _SEED)
        for source in self._sources:
            result = await self._sandbox.run(source)
            if not result.ok:
                return Answer(problem=_problem(result))
        return None

    def _is_late(self) -> bool:
        return asyncio.get_running_loop().time() >= self._end


_LATE = Answer(problem="TimeoutError: the time for all tests together is up")


def _answer(result: CellResult) -> Answer:
    if not result.ok:
        return Answer(problem=_problem(result))
    try:
        return Answer(value=None if result.value is None else read_value(result.value))
    except NotPlainError as error:
        return Answer(problem=f"TypeError: {error}")


def _problem(result: CellResult) -> str:
    """Say in a line what went wrong."""
    if result.limit == "time":
        return "TimeoutError: it took too long"
    if result.limit is not None or result.error is None:
        return f"RuntimeError: {result.note or 'it ended itself'}"
    return result.error.strip().rpartition("\n")[2]
