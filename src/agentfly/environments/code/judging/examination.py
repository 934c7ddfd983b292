"""Run test programs in their own sandbox, and forward their calls to the code."""

import inspect
import re
from collections.abc import Iterable
from types import ModuleType
from typing import Any

from agentfly.environments.code.judging import examiner, writing
from agentfly.environments.code.judging.candidate import OBJECT_PREFIX, Answer, Candidate
from agentfly.environments.code.judging.literal import NotPlainError, read_value
from agentfly.environments.code.judging.tested_names import (
    defined_names,
    free_names,
    is_missing,
    judged_builtins,
    reference,
)
from agentfly.environments.code.judging.writing import write_value
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
        self._setup = setup
        self._entry_point = entry_point
        self._opening = f"examiner = Examiner({setup!r}, {names!r}, {entry_point!r})"
        self._is_open = False

    async def run_test(self, source: str) -> str | None:
        """Run a test; return why it failed, None if it passed."""
        if not self._is_open:
            await self._open()
        builtin_names = sorted(judged_builtins(source, defined=self._defined()))
        event = await self._ask(f"examiner.start({source!r}, {builtin_names!r})")
        while event[0] == "called":
            _, target, rest = event
            answer = await self._candidate.call(reference(target) + rest, keep_objects=True)
            event = await self._ask(f"examiner.resume({_written(answer, name=target)})")
        if event[0] == "unsendable":
            raise RewardError(
                f"the test can't be judged: it gives the code something that is no plain value: "
                f"{event[1]}"
            )
        return None if event[0] == "passed" else str(event[1])

    def _defined(self) -> frozenset[str]:
        """Return the names that are the tests' own; the setup is Python, since it ran."""
        own = {self._entry_point} if self._entry_point else set()
        return defined_names(self._setup) | own

    async def _open(self) -> None:
        await self._sandbox.reset(None, Seed(0))
        for source in (_in_sandbox(writing), _in_sandbox(examiner), self._opening):
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


def _in_sandbox(module: ModuleType) -> str:
    """Return a module's source without its import of the other one, which runs before it."""
    return re.sub(r"^from agentfly[^)]*\)\n", "", inspect.getsource(module), flags=re.MULTILINE)


def _written(answer: Answer, *, name: str) -> str:
    problem = answer.problem
    if problem is None:
        return write_value(("returned", answer.value))
    if answer.object_name is not None:
        return write_value(("kept", (answer.object_name, problem)))
    is_lost = is_missing(problem, name) or OBJECT_PREFIX in problem
    return write_value(("raised" if answer.raised and not is_lost else "failed", problem))
