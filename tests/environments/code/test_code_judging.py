"""Hidden tests, each form of them, against code in real sandboxes."""

import asyncio
import inspect
import os
import re
import sys
from pathlib import Path
from types import ModuleType
from typing import Any, cast

import pytest
from tests.patience import PATIENCE
from tests.sandbox.escape_runner import descendants

from agentfly.environments.code.judging import (
    JUDGE,
    Call,
    Case,
    Check,
    Program,
    Verdict,
    candidate,
    examination,
    examiner,
    judge,
    read_cases,
)
from agentfly.environments.code.judging.judge import same_output
from agentfly.errors import ConfigError, RewardError
from agentfly.sandbox import PythonSandbox, SandboxLimits
from agentfly.types import EnvSpec, Task

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="needs Linux namespaces")

QUICK = EnvSpec(PythonSandbox, (("limits", SandboxLimits(seconds=1.0, grace_seconds=0.2)),))
SQUARE = "def f(x):\n    return x * x"


def passed(verdict: Verdict) -> list[bool]:
    return [problem is None for problem in verdict.problems]


async def test_every_form_of_test() -> None:
    cases: list[Case] = [
        Call(expression="f(3)", accepted=(9,)),
        Call(expression="f(3)", accepted=(8,)),
        Check(source="assert f(4) == 16"),
        Check(source="assert f(4) == 17, 'not so'"),
        Program(stdin="5\n", stdout="25"),
        Program(stdin="5\n", stdout="26"),
    ]
    code = f"{SQUARE}\nif __name__ == '__main__':\n    print(f(int(input())))"
    verdict = await judge(code, cases)
    assert passed(verdict) == [True, False, True, False, True, False]
    assert verdict.share == 0.5
    assert verdict.problems[1] == "f(3) gave 9"
    assert verdict.problems[3] == "AssertionError: not so"
    assert verdict.problems[5] == r"it printed '25\n'"


async def test_a_test_may_be_any_program() -> None:
    sources = [
        "import math\nfor n in range(20):\n    assert f(n) == math.pow(n, 2)",
        "numbers = [f(n) for n in range(4)]",
        "assert numbers == [0, 1, 4, 9], 'what earlier tests made is there'",
        "def check(candidate):\n    assert candidate(x=3) == 9\n    assert not candidate(0)\n"
        "check(f)",
        "try:\n    f('a')\nexcept TypeError as error:\n    assert 'multiply' in str(error)\n"
        "else:\n    raise AssertionError",
        "assert abs(f(0.1) - 0.01) < 1e-9 and f(float('inf')) == float('inf')",
        "assert f(2) == helper(2)",
    ]
    cases = [Check(source=source) for source in sources]
    verdict = await judge(SQUARE, cases, setup="def helper(x):\n    return x + x")
    assert verdict.problems == (None,) * len(cases)


@pytest.mark.parametrize(
    ("source", "right"),
    [
        ("assert sorted([2, 1]) == [1, 2]", "def sorted(x): return [min(x), max(x)]"),
        ("assert sum(10, 15) == 6", "def sum(a, b): return 6"),
        ("assert round(max(1.26, 2), 1) == 1.3", "def max(a, b): return a"),
        ("assert set(filter([1, 2])) == set([2])", "def filter(x): return [2]"),
        ("assert sum(list(range(5))) == 10", "def sum(x): return 10"),
        ("assert set([sum(range(5))]) == set([10])", "def sum(x): return 10"),
    ],
)
async def test_a_built_in_name_that_is_tested_is_the_codes(source: str, right: str) -> None:
    call = source.removeprefix("assert ").rpartition(" == ")
    cases: list[Case] = [Check(source=source)]
    cases += [Call(expression=call[0], accepted=(eval(call[2]),))]
    assert passed(await judge(right, cases)) == [True, True]
    verdict = await judge("x = 1", cases)
    assert passed(verdict) == [False, False], "nothing was written"
    assert "has no attribute" in str(next(filter(None, verdict.problems), None))
    raising = Check(source=f"try:\n    {call[0]}\nexcept Exception: pass\nelse: assert False")
    assert passed(await judge("x = 1", [raising])) == [False], "missing is no expected error"


DATA, MATH = "data = [2, 1]", "import math"
OWN_SORTED = "def sorted(x): return [min(x), max(x)]"
OWN_SUM = "def sum(x): return x[0] + x[1]"


@pytest.mark.parametrize(
    ("setup", "sources", "right"),
    [
        (DATA, ["assert sorted(data) == [1, 2]"], OWN_SORTED),
        (MATH, ["assert math.isclose(sum([1.0, 2.0]), 3.0)"], OWN_SUM),
        ("from math import *", ["assert isclose(sum([1.0, 2.0]), 3.0)"], OWN_SUM),
        ("", ["x = [2, 1]", "assert sorted(x) == [1, 2]"], OWN_SORTED),
        ("", ["s = sorted\nassert s([2, 1]) == [1, 2]"], OWN_SORTED),
        ("", ["assert callable(f)"], SQUARE),
        ("", ["assert f(2) == 4", "assert 1 == 1"], SQUARE),
        ("def run(x): return f(x)", ["assert max([run(2)]) == 4"], SQUARE),
        ("def f(x): return x * x", ["assert f(2) == 4"], SQUARE),
        ("", ["def check(g): assert g(2) == 4", "check(f)"], SQUARE),
        ("from math import *", ["assert isclose(f(2), 4)"], SQUARE),
        ("", ["x = [2]", "y = list(map(abs, x))", "assert f(x[0]) == y[0] + 2"], SQUARE),
        ("def same(f): return f", ["assert same(max([f(2)])) == 4"], SQUARE),
        ("def same(f): return f", ["y = f(2)", "assert max([y]) == 4"], SQUARE),
    ],
)
async def test_nothing_written_passes_no_test(setup: str, sources: list[str], right: str) -> None:
    cases = [Check(source=source) for source in sources]
    named = "f" if "def f(" in setup else None
    assert passed(await judge(right, cases, setup=setup, entry_point=named)) == [True] * len(cases)
    verdict = await judge("x = 1", cases, setup=setup, entry_point=named)
    assert passed(verdict) == [False] * len(cases)


@pytest.mark.parametrize(
    ("setup", "expression", "expected", "right"),
    [
        (DATA, "sorted(data)", [1, 2], OWN_SORTED),
        (MATH, "math.isclose(sum([1.0, 2.0]), 3.0)", True, OWN_SUM),
        ("def f(x): return 0", "f(3)", 9, SQUARE),
        ("def run(x): return f(x)", "max([run(3)])", 9, SQUARE),
        ("from math import *", "isclose(f(3), 9)", True, SQUARE),
        ("", "True or f(3)", True, SQUARE),
    ],
)
async def test_nothing_written_passes_no_call(
    setup: str, expression: str, expected: object, right: str
) -> None:
    case = Call(expression=expression, accepted=(expected,))
    assert passed(await judge(right, [case], setup=setup)) == [True]
    assert passed(await judge("x = 1", [case], setup=setup)) == [False]


@pytest.mark.parametrize(
    ("setup", "case"),
    [
        ("", Check(source="assert 1 == 1")),
        ("", Call(expression="1", accepted=(1,))),
        (DATA, Call(expression="data", accepted=([2, 1],))),
        ("def f(x): return x * x", Check(source="assert f(2) == 4")),
        ("from math import *", Check(source="assert isclose(1.0, 1.0)")),
        ("from math import *", Call(expression="isclose(1.0, 1.0)", accepted=(True,))),
    ],
)
async def test_a_test_that_uses_nothing_of_the_code_fails_for_all_code(
    setup: str, case: Case
) -> None:
    for code in ("x = 1", "import math\ndata = [2, 1]"):
        verdict = await judge(code, [case], setup=setup)
        assert verdict.problems == ("the test uses nothing that the code defines",)


async def test_results_of_earlier_tests_count_only_after_a_call() -> None:
    cases = [Check(source="y = [1] if True else f(3)"), Check(source="assert y == [1]")]
    assert passed(await judge("x = 1", cases)) == [False, False]
    assert passed(await judge("x = 1", [*cases, Check(source="f(1)")])) == [False] * 3


async def test_integers_may_be_longer_than_python_writes() -> None:
    code = (
        "from dataclasses import dataclass\n"
        "def f(x): return x * 10**5000\n"
        "@dataclass\nclass Box:\n    content: int\n"
        "def box(x): return Box(f(x))"
    )
    cases: list[Case] = [
        Check(source="assert f(1) == 10**5000"),
        Check(source="assert f(10**5000) == 10**10_000"),
        Check(source="assert f(1) == 10**5001"),
        Check(source="assert f(1) == 3, f(1)"),
        Check(source="assert box(1).content == 10**5000"),
        Check(source="assert f(10**99_999) == 10**104_999"),
        Check(source="assert f(10**200_000) == 10**205_000"),
        Call(expression="[f(1), {f(2)}]  # Both.", accepted=([10**5000, {2 * 10**5000}],)),
        Call(expression="f(1)", accepted=(3,)),
    ]
    verdict = await judge(code, cases)
    assert passed(verdict) == [True, True, False, False, True, True, False, True, False]
    assert verdict.problems[2:4] == ("AssertionError: ", "AssertionError")
    assert verdict.problems[6] == "f is given a value that is too large to be sent"
    assert str(verdict.problems[8]).startswith("f(1) gave 0x")


async def test_a_built_in_name_beside_the_codes_is_pythons() -> None:
    cases = [Check(source="assert sorted(f([2, 1])) == [1, 2]"), Check(source="y = f([3])")]
    cases += [Check(source="assert len(y) == 1 and sum(y) == 3")]
    code = "def sorted(x): return 0\ndef sum(x): return 0\ndef f(x): return x"
    assert passed(await judge(code, cases)) == [True] * 3
    named = [Check(source="assert sum(sum(1, 2), 3) == 1 and max(1, 2) == 2")]
    assert passed(await judge("def sum(a, b): return 1", named, entry_point="sum")) == [True]
    assert passed(await judge("def max(a, b): return 1", named, entry_point="sum")) == [False]


TREE = """
class Node:
    def __init__(self, data):
        self.data, self.left, self.right = data, None, None
    def double(self): return 2 * self.data
def height(node): return 1 + max(height(node.left), height(node.right)) if node else 0
"""
PLANTED = "root = Node(1)\nroot.left = Node(2)\nroot.left.right = Node(3)\n"


async def test_objects_of_the_codes_classes_go_back_to_it() -> None:
    right = [
        "assert height(root) == 3 and height(Node(1)) == 1",
        "assert height(root.left) == 2 and root.left.data == 2 and root.right is None",
        "assert root.left.double() == 4",
        "assert [height(node) for node in [root, root.left]] == [3, 2]",
    ]
    wrong = [
        "assert root",
        "assert root == root.left",
        "assert str(root)",
        "assert len(root) == 0",
        "assert root in [root.left]",
        "assert [x for x in root] == []",
        "try: assert root == 5\nexcept BaseException: pass",
        "try: root.nothing\nexcept BaseException: raise",
    ]
    cases = [Check(source=PLANTED + source) for source in right + wrong]
    verdict = await judge(TREE, cases)
    assert passed(verdict) == [True] * len(right) + [False] * len(wrong)
    assert "no plain value" in str(next(filter(None, verdict.problems), None))


async def test_an_object_that_died_with_its_process_is_no_expected_error() -> None:
    code = TREE + "import os\ndef leave(): os._exit(0)"
    lost = "try: height(root)\nexcept Exception: pass\nelse: assert False"
    cases = [Check(source=source) for source in (PLANTED, "leave()", lost)]
    assert passed(await judge(code, cases)) == [True, False, False]


async def test_an_outline_in_the_setup_is_filled_by_the_code() -> None:
    setup = "from typing import List\ndef double(x): return 2 * x\ndef f(x: List[int]): '''Todo.'''"
    code = "def double(x): return 0\ndef f(x: List[int]): return [double(n) + 2 * n for n in x]"
    checks = [Check(source="assert f([1, 2]) == [double(1), double(2)]")]
    verdict = await judge(code, checks, setup=setup, entry_point="f")
    assert passed(verdict) == [True], "the test's helper is its own, not the code's"
    assert passed(await judge("", checks, setup=setup, entry_point="f")) == [False]


async def test_each_test_has_its_own_time_and_all_together_theirs() -> None:
    slow = "import time\ndef f(x):\n    time.sleep(60 if x < 2 else 0)\n    return x"
    cases = [Call(expression=f"f({n})", accepted=(n,)) for n in range(4)]
    verdict = await judge(slow, cases, sandbox=QUICK)
    assert passed(verdict) == [False, False, True, True]
    assert next(filter(None, verdict.problems), None) == "f(0): TimeoutError: it took too long"
    verdict = await judge(slow, cases, sandbox=QUICK, total_seconds=0.5)
    assert passed(verdict) == [False] * 4
    assert "all tests together" in str(verdict.problems[3])


async def test_a_killed_interpreter_fails_its_own_test_only() -> None:
    code = "import os\ndef f(x):\n    if x == 1: os._exit(0)\n    return x"
    cases: list[Case] = [Call(expression=f"f({n})", accepted=(n,)) for n in range(3)]
    cases.append(Check(source="assert f(2) == 2"))
    assert passed(await judge(code, cases)) == [True, False, True, True]


async def test_a_test_that_hangs_on_an_answer_fails_and_the_next_one_runs() -> None:
    cases = [Check(source="while not f(0): pass"), Check(source="assert f(1) == 1")]
    assert passed(await judge(SQUARE, cases, sandbox=QUICK, total_seconds=1)) == [False, False]
    cases = [Check(source="x = f(0)\nwhile True: pass"), Check(source="assert f(1) == 1")]
    assert passed(await judge(SQUARE, cases, sandbox=QUICK)) == [False, True]


@pytest.mark.parametrize(
    ("code", "words"),
    [
        ("def f(x", "SyntaxError"),
        ("1 / 0", "ZeroDivisionError"),
        ("bytearray(4 << 30)", "Memory limit"),
        ("", "NameError"),
        ("def f(x): return object()", "no plain value"),
    ],
)
async def test_what_is_wrong_with_the_code_is_said(code: str, words: str) -> None:
    verdict = await judge(code, [Call(expression="f(1)", accepted=(1,))])
    assert passed(verdict) == [False]
    assert words in str(next(filter(None, verdict.problems), None))


async def test_a_program_reads_its_input_in_any_way() -> None:
    ways = [
        "print(input())",
        "import sys; print(sys.stdin.read())",
        "import sys; print(sys.stdin.buffer.read().decode())",
        "print(open(0).read())",
        "import os; print(os.read(0, 99).decode())",
        "print(input()); exit()",
        "import subprocess; subprocess.run('cat')",
    ]
    for way in ways:
        cases = [Program(stdin="héllo\n", stdout="héllo"), Program(stdin="b", stdout="b")]
        assert passed(await judge(way, cases)) == [True, True], way


async def test_programs_share_nothing_between_their_inputs() -> None:
    code = "import os, builtins\nprint(os.path.exists('x'), hasattr(builtins, 'x'))\n"
    code += "open('x', 'w').close()\nbuiltins.x = 1"
    cases = [Program(stdin="", stdout="False False")] * 2
    assert passed(await judge(code, cases)) == [True, True]


async def test_a_program_that_raises_fails_whatever_it_printed() -> None:
    verdict = await judge("print(1)\nraise ValueError('late')", [Program(stdin="", stdout="1")])
    assert verdict.problems == ("ValueError: late",)


async def test_judging_leaves_nothing_behind() -> None:
    await judge(SQUARE, [Call(expression="f(1)", accepted=(1,))])  # The server is up and stays.
    before = len(descendants(os.getpid()))
    await judge(SQUARE, [Check(source="assert f(1) == 1"), Program(stdin="", stdout="")])
    with pytest.raises(RewardError):
        await judge(SQUARE, [Check(source="f(lambda: 1)")])
    async with asyncio.timeout(PATIENCE):
        while len(descendants(os.getpid())) > before:  # noqa: ASYNC110 - no event tells
            await asyncio.sleep(0.05)


async def test_a_crash_of_the_machinery_is_no_verdict(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    nowhere = EnvSpec(PythonSandbox, (("isolation", "bubblewrap"),))
    with pytest.raises(RewardError, match="could not be judged: no sandbox could be made"):
        await judge(SQUARE, [Call(expression="f(1)", accepted=(1,))], sandbox=nowhere)


@pytest.mark.parametrize(
    ("source", "setup", "words"),
    [
        ("f(lambda: 1)", "", "gives the code something that is no plain value"),
        ("f(1)", "1 / 0", "setup fails"),
        ("f(1)", "def", "setup fails: it is not Python"),
    ],
)
async def test_a_task_that_can_not_be_judged_is_no_zero(
    source: str, setup: str, words: str
) -> None:
    with pytest.raises(RewardError, match=words):
        await judge(SQUARE, [Check(source=source)], setup=setup)


def module_in(folder: Path, source: str) -> ModuleType:
    """Return a module that is not executed, only read."""
    path = folder / "written.py"
    path.write_text(source)
    module = ModuleType("written")
    module.__file__ = str(path)
    return module


@pytest.mark.parametrize(
    ("user", "part", "case"),
    [
        (candidate, "REPORTER", Call(expression="f(1)", accepted=(1,))),
        (candidate, "writing", Call(expression="f(1)", accepted=(1,))),
        (candidate, "_OPEN_INPUT", Program(stdin="", stdout="")),
        (examination, "writing", Check(source="assert f(1) == 1")),
        (examination, "examiner", Check(source="assert f(1) == 1")),
    ],
)
async def test_a_failure_of_the_judge_is_not_blamed_on_the_task(
    user: ModuleType, part: str, case: Case, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    is_text = isinstance(getattr(user, part), str)
    monkeypatch.setattr(user, part, "1 / 0" if is_text else module_in(tmp_path, "1 / 0"))
    with pytest.raises(RewardError, match=r"^the judge's own code fails:(.|\n)*ZeroDivisionError"):
        await judge(SQUARE, [case])


async def test_the_judge_may_import_its_own_parts_on_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = inspect.getsource(examiner)
    names = "Remote, UnsendableError, is_too_large, write_value"
    line = f"from agentfly.environments.code.judging.writing import {names}\n"
    source, changes = re.subn(r"^from agentfly[^)]*\)\n", line, source, flags=re.MULTILINE)
    assert changes == 1
    monkeypatch.setattr(examination, "examiner", module_in(tmp_path, source))
    assert passed(await judge(SQUARE, [Check(source="assert f(3) == 9")])) == [True]


@pytest.mark.parametrize("line", ["import agentfly.errors", "def g(): from agentfly import Agent"])
async def test_the_judge_may_import_nothing_that_sandboxes_lack(
    line: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(examination, "writing", module_in(tmp_path, line))
    with pytest.raises(AssertionError, match="runs where agentfly can't be imported"):
        await judge(SQUARE, [Check(source="assert f(1) == 1")])


@pytest.mark.parametrize(
    ("tests", "words"),
    [
        (None, "must be a list of tests"),
        ([], "must be a list of tests"),
        ([{"call": "f(3)"}], r"tests\[0\] of task 't' is no test.*got \['call'\]"),
        (["assert f(1) == 1", 7], r"tests\[1\] of task 't' is no test.*got 7"),
        ([{"call": "f(", "expected": 1}], r"tests\[0\] of task 't' is not Python"),
        (["assert"], r"tests\[0\] of task 't' is not Python"),
        (["-" * 20_000 + "1"], r"tests\[0\] of task 't' is not Python, or too deeply nested"),
    ],
)
def test_a_broken_test_is_named(tests: object, words: str) -> None:
    task = Task(id="t", messages=(), fields={} if tests is None else {"tests": tests})
    with pytest.raises(RewardError, match=words):
        read_cases(task, "tests")


@pytest.mark.parametrize(
    ("printed", "expected", "verdict"),
    [
        ("1 2\n", "1 2", True),
        ("1 2 \n\n", "1 2\n", True),
        ("1\n2", "1 2", False),
        ("\n1", "1", False),
        ("0.3333333", "0.333333", True),
        ("0.334", "0.333333", False),
        ("3.0", "3", False),
        ("x", "0.5", False),
        ("a\tb", "a b", True),
        ("", "", True),
        ("a␛", "a\x1b", True),
    ],
)
def test_outputs_are_compared_word_by_word(printed: str, expected: str, verdict: bool) -> None:
    assert same_output(printed, expected) is verdict


def test_a_judges_sandbox_shows_long_answers_whole() -> None:
    assert JUDGE.make().limits.output_chars >= 100_000


async def test_what_is_no_test_is_refused_instead_of_passed() -> None:
    with pytest.raises(ConfigError, match=r"got str: 'assert f\(1\) == 2'.*Check\(source="):
        await judge(SQUARE, cast(Any, ["assert f(1) == 2"]))
