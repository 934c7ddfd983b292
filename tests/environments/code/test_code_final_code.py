"""Which code a chain is judged by."""

from typing import Any

import pytest

from agentfly.environments.code import final_code
from agentfly.types import Message, StopReason, Task, TokenStream, ToolResult, Trajectory, Turn

TASK = Task(id="t", messages=())


def chain(said: str, *ran: tuple[str, bool]) -> Trajectory:
    """Make a chain that ran some code, with or without success, and then said something."""
    results = [ToolResult(observation="", info={"code": code, "ok": ok}) for code, ok in ran]
    common: dict[str, Any] = {"context_ids": (), "completion": None, "temperature": 1.0}
    turns = [
        Turn(index=place, message=Message(role="assistant"), results=(result,), **common)
        for place, result in enumerate([*results, ToolResult(observation="some other tool's")])
    ]
    turns.append(Turn(index=len(turns), message=Message(role="assistant", content=said), **common))
    return Trajectory(
        task=TASK,
        group_id="t/0",
        chain_id="t/0/0",
        messages=(),
        streams=(TokenStream(turns=tuple(turns)),),
        stop=StopReason.ANSWERED,
    )


@pytest.mark.parametrize(
    ("said", "code"),
    [
        ("So:\n```python\nx = 1\n```\nThat is it.", "x = 1\n"),
        ("```python\nold\n```\nBetter:\n```py\nnew\n```\n```text\nno code\n```", "new\n"),
        ("```python\nx = 1\n```\n```\nits output\n```", "x = 1\n"),
        ("```\nx = 1\n```", "x = 1\n"),
        ("def f(x):\n    return x", "def f(x):\n    return x"),
        ("print(int(input()) * 2)", "print(int(input()) * 2)"),
        ("Done", None),
        ("42", None),
        ("I could not do it.", None),
        ("", None),
        ("```python\nnever closed", None),
        ("```bash\nls\n```", None),
        ("\0", None),
    ],
)
def test_the_answer_comes_first(said: str, code: str | None) -> None:
    assert final_code(chain(said)) == code


@pytest.mark.parametrize(
    ("ran", "code"),
    [
        ([("def f(): 1", True), ("f()", True)], "def f(): 1"),
        ([("def f(): 1", True), ("def f(): 2", True), ("def f(): 3", False)], "def f(): 2"),
        ([("x = 1", True), ("y = 2", True), ("z", False)], "y = 2"),
        ([("print(input())", False)], "print(input())"),
        ([], None),
    ],
)
def test_or_else_what_was_run(ran: list[tuple[str, bool]], code: str | None) -> None:
    assert final_code(chain("Done.", *ran)) == code
    assert final_code(chain("```python\nmine\n```", *ran)) == "mine\n"


def test_a_chain_that_said_nothing_has_no_code() -> None:
    empty = Trajectory(
        task=TASK, group_id="t/0", chain_id="t/0/0", messages=(), stop=StopReason.TURN_LIMIT
    )
    assert final_code(empty) is None
