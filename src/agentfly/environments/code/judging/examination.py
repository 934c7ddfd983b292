"""Run test programs in their own sandbox, and forward their calls to the code."""

import ast
import builtins
import inspect
from collections.abc import Iterable
from typing import Any

from agentfly.environments.code.judging import examiner
from agentfly.environments.code.judging.candidate import Answer, Candidate
from agentfly.environments.code.judging.literal import NotPlainError, read_value, write_value
from agentfly.errors import RewardError
from agentfly.sandbox import PythonSandbox
from agentfly.types import Seed


class Examination:
    """Runs test programs against a candidate."""

    def __init__(
        self,
        sandbox: PythonSandbox,
        candidate: Candidate,
        *,
        setup: str,
        sources: Iterable[str],
        entry_point: str | None,
    ) -> None:
        self._sandbox = sandbox
        self._candidate = candidate
        names = sorted(free_names("\n".join(sources)))
        self._opening = f"examiner = Examiner({setup!r}, {names!r}, {entry_point!r})"
        self._is_open = False

    async def run_test(self, source: str) -> str | None:
        """Run a test; return why it failed, None if it passed."""
        if not self._is_open:
            await self._open()
        event = await self._ask(f"examiner.start({source!r})")
        while event[0] == "called":
            answer = await self._candidate.call(_call(*event[1:]))
            event = await self._ask(f"examiner.resume({_written(answer, name=event[1])})")
        if event[0] == "unsendable":
            raise RewardError(
                f"the test can't be judged: it gives the code something that is no plain value: "
                f"{event[1]}"
            )
        return None if event[0] == "passed" else str(event[1])

    async def _open(self) -> None:
        await self._sandbox.reset(None, Seed(0))
        for source in (inspect.getsource(examiner), self._opening):
            result = await self._sandbox.run(source)
            if not result.ok:
                raise RewardError(f"the task's setup fails: {result.error or result.note}")
        self._is_open = True

    async def _ask(self, expression: str) -> Any:
        result = await self._sandbox.run(expression)
        problem = f"the test itself did not end: {result.error or result.note}"
        if result.ok and result.value is not None:
            try:
                return read_value(result.value)
            except NotPlainError as error:
                problem = f"the code is given something that can't be sent: {error}"
        self._is_open = False  # Its thread may still be running.
        return "failed", problem


def free_names(source: str) -> set[str]:
    r"""Return the names that a program uses but does not define, without built-in ones.

    >>> free_names("import math\nfor n in (1, 2): assert f(n) == math.sqrt(n)")
    {'f'}
    """
    used, made = set[str](), set[str]()
    for node in ast.walk(ast.parse(source)):
        match node:
            case ast.Name(id=name, ctx=ast.Load()):
                used.add(name)
            case ast.Name(id=name) | ast.arg(arg=name):
                made.add(name)
            case ast.FunctionDef(name=name) | ast.ClassDef(name=name):
                made.add(name)
            case ast.ExceptHandler(name=str(name)):
                made.add(name)
            case ast.alias(name=name, asname=other):
                made.add(other or name.partition(".")[0])
    return used - made - set(dir(builtins))


def _call(name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> str:
    given = [write_value(arg) for arg in args]
    given += [f"{key}={write_value(value)}" for key, value in kwargs.items()]
    return f"{name}({', '.join(given)})"


def _written(answer: Answer, *, name: str) -> str:
    if answer.problem is None:
        return write_value(("returned", answer.value))
    missing = answer.problem.startswith(f"NameError: name {name!r} is not defined")
    how = "raised" if answer.raised and not missing else "failed"
    return write_value((how, answer.problem))
