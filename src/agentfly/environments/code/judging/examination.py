"""Run test programs in their own sandbox, and forward their calls to the code."""

from enum import Enum
from typing import Any

from agentfly.environments.code.judging import examiner, stand_ins, writing
from agentfly.environments.code.judging.candidate import (
    JUDGE_CODE,
    OBJECT_PREFIX,
    TASK_SETUP,
    Answer,
    Candidate,
    prepare,
    source_in_sandbox,
)
from agentfly.environments.code.judging.literal import NotPlainError, read_value
from agentfly.environments.code.judging.tested_names import TestedNames, is_missing, reference
from agentfly.environments.code.judging.writing import write_value
from agentfly.errors import RewardError
from agentfly.sandbox import PythonSandbox
from agentfly.sandbox.cell_result import harmless
from agentfly.types import Seed


class Unused(Enum):
    """Verdict on a test that would pass without any code: no text, since code can raise any."""

    UNUSED = "the test uses nothing that the code defines"


Problem = str | Unused | None
"""Reason why a test failed; None if it passed."""


class Examination:
    """Runs test programs against a candidate."""

    def __init__(
        self,
        sandbox: PythonSandbox,
        candidate: Candidate,
        *,
        setup: str,
        names: TestedNames,
        entry_point: str | None,
    ) -> None:
        self._sandbox = sandbox
        self._candidate = candidate
        self._names = names
        forwarded = sorted(names.forwarded)
        self._opening = f"examiner = Examiner({setup!r}, {forwarded!r}, {entry_point!r})"
        self._calls = 0
        self._is_open = False

    async def run_test(self, source: str) -> Problem:
        """Run a test; return why it failed, None if it passed."""
        if not self._is_open:
            await self._open()
        builtin_names = sorted(self._names.builtins_of_check(source))
        event = await self._ask(f"examiner.start({source!r}, {builtin_names!r})")
        calls_before = self._calls
        while event[0] == "called":
            self._calls += 1
            _, target, rest = event
            answer = await self._candidate.call_for_test(reference(target) + rest)
            event = await self._ask(f"examiner.resume({_written(answer, name=target)})")
        if event[0] == "unsendable":
            raise RewardError(
                f"the test can't be judged: it gives the code something that is no plain value: "
                f"{event[1]}"
            )
        if event[0] != "passed":
            return harmless(str(event[1]))
        is_used = self._calls > calls_before or await self._reads_code(source)
        return None if is_used else Unused.UNUSED

    async def _reads_code(self, source: str) -> bool:
        """Return whether a test without calls uses results of earlier ones, or a name alone."""
        names = self._names.of_check(source)
        if self._calls and names - self._names.forwarded:
            return True
        return await self._candidate.defines_any(names & self._names.forwarded)

    async def _open(self) -> None:
        await self._sandbox.reset(None, Seed(0))
        for module in (writing, stand_ins, examiner):
            await prepare(self._sandbox, source_in_sandbox(module), JUDGE_CODE)
        await prepare(self._sandbox, self._opening, TASK_SETUP)
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


def _written(answer: Answer, *, name: str) -> str:
    event = _event(answer, name=name)
    try:
        return write_value(event)
    except Exception as error:  # noqa: BLE001 - the code has made the value
        return write_value(("failed", f"TypeError: its result can't be sent: {error!r:.80}"))


def _event(answer: Answer, *, name: str) -> tuple[str, Any]:
    problem, raised = answer.problem, answer.raised
    if answer.object_name is not None:
        contents = None if problem is not None else tuple(answer.value)
        return "kept", (answer.object_name, problem, contents, answer.is_iterator)
    if problem is None:
        return "returned", answer.value
    if raised is None or is_missing(problem, name) or OBJECT_PREFIX in problem:
        return "failed", problem
    return "raised", (raised.kind, raised.args, raised.message)
