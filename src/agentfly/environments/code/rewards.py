"""Rewards for code: the share of a task's hidden tests that the chain's final code passes."""

import ast
import re
from collections.abc import Callable, Sequence
from typing import Any

from agentfly.environments.code.judging import JUDGE, Case, Check, Verdict, judge, read_cases
from agentfly.environments.code.judging.tested_names import UNPARSABLE
from agentfly.errors import RewardError
from agentfly.rewards import FunctionReward, numeric_match, reward
from agentfly.types import Context, EnvSpec, Task, Trajectory

TESTS, CASES = "tests", "cases"
"""Fields of a task: calls and assertions; inputs and outputs."""
_SLACK_SECONDS = 60.0
"""Time in addition to that of the tests, for starting sandboxes on a busy machine."""


def unit_tests(
    *,
    field: str = TESTS,
    partial: bool = True,
    sandbox: EnvSpec = JUDGE,
    total_seconds: float = 20.0,
    name: str = "unit_tests",
) -> FunctionReward[..., Any]:
    """Score the share of unit tests that the chain's final code passes; 0 if there is no code.

    Tests are calls with their values, `{"call": "f(3)", "expected": 9}`, or assertions,
    `"assert f(3) == 9"`. A task's field `setup` runs before the code and before the tests;
    `entry_point` names the function that the tests call: needed if the setup holds an outline of
    it, or if it has the name of a built-in function.

    Args:
        field: The task's field with the list of tests.
        partial: Give each test its share; otherwise 1 if all pass, and else 0.
        sandbox: Spec of a `PythonSandbox`, with the limits of one test.
        total_seconds: Time limit of all tests together; the rest then count as failed.
        name: Name in parts and metrics.
    """
    return _tested(lambda task: field, partial, sandbox, total_seconds, name)


def stdin_cases(
    *,
    field: str = CASES,
    partial: bool = True,
    sandbox: EnvSpec = JUDGE,
    total_seconds: float = 20.0,
    name: str = "stdin_cases",
) -> FunctionReward[..., Any]:
    r"""Score the share of inputs for which the final code, as a program, prints the right output.

    Cases are `{"input": "3\n", "output": "9\n"}`. Lines are compared word by word, and a number
    with a point may differ by a millionth. The arguments are those of `unit_tests`.
    """
    return _tested(lambda task: field, partial, sandbox, total_seconds, name)


def hidden_tests(
    *, partial: bool = True, sandbox: EnvSpec = JUDGE, total_seconds: float = 20.0
) -> FunctionReward[..., Any]:
    """Score as `stdin_cases` where a task has such cases, and else as `unit_tests`."""

    def field_of(task: Task) -> str:
        return CASES if CASES in task.fields else TESTS

    return _tested(field_of, partial, sandbox, total_seconds, "hidden_tests")


def right_number() -> FunctionReward[..., bool]:
    """Score as `numeric_match`, but refuse a task with hidden tests, whose answer is a program."""
    compare = numeric_match()

    @reward(name=compare.name, range=(0, 1))
    def score(final_response: str, task: Task) -> bool:
        if tests := [name for name in (TESTS, CASES) if name in task.fields]:
            raise RewardError(
                f"task {task.id!r} has hidden tests in its field {tests[0]!r}, and numbers are "
                "compared here: have them judged with the environment's option tasks = 'programs'"
            )
        return compare(final_response, task)

    score.reads = compare.reads
    return score


def _tested(
    field_of: Callable[[Task], str],
    partial: bool,  # noqa: FBT001 - passed on from a keyword
    sandbox: EnvSpec,
    total_seconds: float,
    name: str,
) -> FunctionReward[..., Any]:
    @reward(name=name, timeout=total_seconds + _SLACK_SECONDS, range=(0, 1))
    async def score(trajectory: Trajectory, context: Context) -> dict[str, float]:
        task = trajectory.task
        cases, code = read_cases(task, field_of(task)), final_code(trajectory)
        if code is None:
            return {"reward": 0.0, "passed": 0.0}
        verdict = await judge(
            code,
            cases,
            setup=task.fields.get("setup", ""),
            entry_point=task.fields.get("entry_point"),
            sandbox=sandbox,
            total_seconds=total_seconds,
        )
        if (first := _first_failed(cases, verdict)) is not None:
            context.metadata["first_failed_test"] = first[:500]
        share = verdict.share
        return {"reward": share if partial else float(share == 1.0), "passed": share}

    return score


def _first_failed(cases: Sequence[Case], verdict: Verdict) -> str | None:
    """Return why the first failed test failed, with its assertions; None if all passed."""
    for case, problem in zip(cases, verdict.problems, strict=True):
        if problem is not None:
            said = problem.removesuffix(": ")  # An AssertionError without a message.
            return f"{said}, in: {case.source}" if isinstance(case, Check) else said
    return None


_BLOCK = re.compile(r"^```[ \t]*([\w+-]*)[^\n]*\n(.*?)^```[ \t]*$", re.MULTILINE | re.DOTALL)
_PYTHON = ("python", "python3", "py")


def final_code(trajectory: Trajectory) -> str | None:
    """Return the code that a chain is judged by; None if it has none.

    1. The last block fenced as Python in its final response, or else the last block without a
       language.
    2. The whole final response, if it is a Python program.
    3. Code that it ran with a tool: the last that ran without an error and defines a function or
       a class; or else the last that ran without an error; or else the last.
    """
    said = trajectory.final_response
    return _last_block(said) or (said if _is_program(said) else _last_run(trajectory))


def _last_block(text: str) -> str | None:
    blocks: list[tuple[str, str]] = _BLOCK.findall(text)
    fenced = [code for language, code in blocks if language.lower() in _PYTHON]
    plain = [code for language, code in blocks if not language]
    return next(reversed(fenced or plain), None)


def _is_program(text: str) -> bool:
    """Return whether a text is Python with an effect; "Done" is valid Python without one."""
    return _holds(text, ast.Call, ast.FunctionDef, ast.ClassDef, ast.Assign)


def _last_run(trajectory: Trajectory) -> str | None:
    infos = [result.info for turn in trajectory.turns for result in turn.results]
    ran = [info for info in infos if "code" in info]
    succeeded = [info["code"] for info in ran if info["ok"]]
    defining = [code for code in succeeded if _holds(code, ast.FunctionDef, ast.ClassDef)]
    return next(reversed(defining or succeeded or [info["code"] for info in ran]), None)


def _holds(source: str, *kinds: type[ast.AST]) -> bool:
    try:
        return any(isinstance(node, kinds) for node in ast.walk(ast.parse(source)))
    except UNPARSABLE:
        return False
