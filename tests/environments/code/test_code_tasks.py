"""Tasks: generated ones that hold water, and the files that people have."""

import gzip
import itertools
import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from agentfly.environments.code import CodeOptions
from agentfly.environments.code.builtin import make
from agentfly.environments.code.judging import Check, judge
from agentfly.environments.code.tasks import (
    apps_rows,
    gsm8k_rows,
    humaneval_rows,
    math_rows,
    mbpp_rows,
    program_rows,
)
from agentfly.environments.code.tasks.programs import TEMPLATES
from agentfly.errors import ConfigError, FormatError
from agentfly.tasks import load_tasks

SHARED = Path(__file__).parents[3].parent / "shared"
GSM8K = SHARED / "data" / "gsm8k" / "train.jsonl.gz"
LEVELS = (1, 2, 3)

HUMANEVAL = {
    "task_id": "HumanEval/0",
    "prompt": 'from typing import List\n\n\ndef double(n: int) -> int:\n    """Double it."""\n',
    "entry_point": "double",
    "canonical_solution": "    return 2 * n\n",
    "test": "METADATA = {}\n\ndef check(candidate):\n    assert candidate(2) == 4\n"
    "    assert candidate(0) == 0\n    assert True, 'always'\n",
}
MBPP = {
    "task_id": 7,
    "text": "Write a function to double a number.",
    "code": "def double(n):\r\n  return 2 * n",
    "test_list": ["assert double(2) == 4", "assert double(0) == 0"],
    "test_setup_code": "",
    "challenge_test_list": ["assert double(-1) == -2"],
}
APPS = {
    "problem_id": 3,
    "question": "Double the number.",
    "solutions": json.dumps(["print(2 * int(input()))"]),
    "input_output": json.dumps({"inputs": ["2\n", "0\n"], "outputs": ["4\n", "0\n"]}),
    "difficulty": "introductory",
    "url": "",
    "starter_code": "",
}


def write(path: Path, *rows: dict[str, Any]) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


@pytest.mark.parametrize("generate", [math_rows, program_rows])
def test_train_and_held_out_share_nothing(generate: Any) -> None:
    train, held_out = [generate(levels=LEVELS, count=400, held_out=h) for h in (False, True)]
    for field in ("id", "question", "answer" if generate is math_rows else "solution"):
        assert {row[field] for row in train}.isdisjoint({row[field] for row in held_out})
    rows = [*train, *held_out]
    assert len({row["id"] for row in rows}) == len(rows)
    assert len(load_tasks(train)) == len(train)
    assert json.loads(json.dumps(rows)) == rows, "JSON values throughout"


@pytest.mark.parametrize("generate", [math_rows, program_rows])
def test_the_same_seed_gives_the_same_rows_and_only_the_wished_levels(generate: Any) -> None:
    first, again, other = [
        generate(levels=(2, 3), count=40, held_out=False, seed=seed) for seed in (1, 1, 2)
    ]
    assert first == again != other
    assert {row["level"] for row in first} == {2, 3}


def test_math_is_what_it_says() -> None:
    # Two by hand, others by another way than the one that made them.
    rows = {
        row["question"]: row["answer"]
        for row in math_rows(levels=LEVELS, count=1500, held_out=False)
    }
    assert rows["What is (86+64)*75?"] == "11250"
    assert rows["Let a = 54*21 and b = a-99. What is a+b?"] == "2169"
    primes = [n for n in range(2, 1000) if all(n % d for d in range(2, n))]
    counted = 0
    for question, answer in rows.items():
        words = question.strip("?").split()
        if question.startswith("How many primes"):
            low, high = int(words[-3]), int(words[-1])
            assert int(answer) == len([p for p in primes if low <= p <= high])
            counted += 1
        if question.startswith("What is the remainder"):
            base, power = map(int, words[5].split("**"))
            assert int(answer) == pow(base, power, int(words[-1]))
            counted += 1
    assert counted > 100


def test_math_asks_for_as_many_as_there_are() -> None:
    rows = math_rows(levels=(1,), count=10, held_out=True)
    assert len(rows) == 10


def test_there_is_variety_on_both_sides() -> None:
    names = {template.name for template in TEMPLATES}
    assert len(names) == len(TEMPLATES) >= 15
    train, held_out = [
        {
            row["solution"].split("(")[0]
            for row in program_rows(levels=LEVELS, count=999, held_out=h)
        }
        for h in (False, True)
    ]
    new = {f"def {template.name}" for template in TEMPLATES if template.held_out}
    assert len(new) >= 3
    assert new <= held_out
    assert new.isdisjoint(train)
    assert len(held_out) >= len(names) - 3, "other fillings of the known ones too"
    for level in LEVELS:
        assert len(program_rows(levels=(level,), count=999, held_out=False)) >= 40


def test_hidden_tests_are_hidden_and_tell_answers_apart() -> None:
    for row in program_rows(levels=LEVELS, count=999, held_out=False):
        shown, calls = row["question"], [test["call"] for test in row["tests"]]
        assert len(set(calls)) == len(calls) >= 8
        assert not any(f"`{call}`" in shown for call in calls), "the example is not among them"
        values = Counter(repr(test["expected"]) for test in row["tests"])
        assert max(values.values()) < len(calls), f"a constant solves {row['id']}"


def test_some_programs_by_hand() -> None:
    rows = {
        row["id"]: {test["call"]: test["expected"] for test in row["tests"]}
        for held_out in (False, True)
        for row in program_rows(levels=LEVELS, count=999, held_out=held_out)
    }
    (chunks,) = [tests for key, tests in rows.items() if key == "program-chunks {'k': 2}"]
    for call, expected in chunks.items():
        numbers = json.loads(call.removeprefix("chunks(").removesuffix(")"))
        assert list(itertools.chain(*expected)) == numbers
        assert all(len(chunk) == 2 for chunk in expected[:-1])
    assert rows["program-in_base {'k': 2}"]["in_base(0)"] == "0"
    for call, expected in rows["program-in_base {'k': 7}"].items():
        assert int(expected, 7) == int(call.removeprefix("in_base(").removesuffix(")"))
    for call, expected in rows["program-rotate {'k': 3}"].items():
        numbers = json.loads(call.removeprefix("rotate(").removesuffix(")"))
        assert sorted(expected) == sorted(numbers)
        if len(numbers) > 3:
            assert expected[0] == numbers[3]


def test_humaneval(tmp_path: Path) -> None:
    loop = {**HUMANEVAL, "task_id": "HumanEval/1", "canonical_solution": None}
    loop["test"] = (
        "def check(candidate):\n    for n in (1, 2):\n        assert candidate(n) == 2 * n"
    )
    first, second = humaneval_rows(write(tmp_path / "h.jsonl", HUMANEVAL, loop))
    assert first["id"] == "HumanEval/0"
    assert first["tests"] == ["assert double(2) == 4", "assert double(0) == 0"]
    assert first["solution"] == f"{HUMANEVAL['prompt']}    return 2 * n\n"
    assert "Complete this Python function" in first["question"]
    assert second["tests"] == [f"{loop['test']}\ncheck(double)"]
    assert "solution" not in second


def test_mbpp_full_and_sanitized(tmp_path: Path) -> None:
    sanitized = {
        "source_file": "x",
        "task_id": 8,
        "prompt": "Write a function to halve a number.",
        "code": "def half(n): return n / 2",
        "test_imports": ["import math"],
        "test_list": ["assert math.isclose(half(3), 1.5)"],
    }
    full, clean = mbpp_rows(write(tmp_path / "m.jsonl", MBPP, sanitized))
    assert full["id"] == "mbpp-7"
    assert len(full["tests"]) == 3
    assert full["solution"] == "def double(n):\n  return 2 * n"
    assert full["question"].endswith("assert double(2) == 4"), "one of three is shown"
    assert clean["setup"].startswith("import math")
    assert clean["question"].startswith("Write a function to halve")


async def test_a_function_of_mbpp_with_a_built_in_name_is_the_code_s(tmp_path: Path) -> None:
    record = {
        **MBPP,
        "code": "def max(a, b):\n  return a if len(a) > len(b) else b",
        "test_list": [
            "assert max('aaa', 'b') == 'aaa'",
            "assert max('b', 'c' * len('aa')) == 'cc'",
        ],
        "challenge_test_list": [],
    }
    (row,) = mbpp_rows(write(tmp_path / "m.jsonl", record))
    assert row["entry_point"] == "max"
    for code, right in ((row["solution"], 1.0), ("x = 1", 0.0), ("def len(x): return 3", 0.0)):
        tests = [Check(source=test) for test in row["tests"]]
        verdict = await judge(code, tests, entry_point=row["entry_point"])
        assert verdict.share == right, code


def test_code_that_is_too_deeply_nested_names_no_function(tmp_path: Path) -> None:
    deep = "-" * 20_000 + "1"
    rows = [{**MBPP, "code": f"x={deep}"}, {**MBPP, "test_list": [f"assert double(1) == {deep}"]}]
    for row in mbpp_rows(write(tmp_path / "m.jsonl", *rows)):
        assert "entry_point" not in row
    sums = {"question": "1?", "answer": f"It is <<{deep}=1>>1 and <<2-1=1>>1.\n#### 1"}
    (row,) = gsm8k_rows(write(tmp_path / "g.jsonl", sums))
    assert row["cells"] == ["2-1"]


def test_mbpp_setup_runs_after_the_code_and_before_each_test(tmp_path: Path) -> None:
    tree = {**MBPP, "test_setup_code": "root = Node(1)\r\nroot.left = Node(2)"}
    (row,) = mbpp_rows(write(tmp_path / "m.jsonl", tree))
    assert row["setup"] == "", "classes of the code are not there yet"
    assert row["tests"][1] == "root = Node(1)\nroot.left = Node(2)\nassert double(0) == 0"


def test_apps_programs_and_calls(tmp_path: Path) -> None:
    calls = {**APPS, "problem_id": 4, "solutions": "", "starter_code": "def pair(a, b):\n\t"}
    calls["input_output"] = {"fn_name": "pair", "inputs": [[1, "x"]], "outputs": [[[1, "x"]]]}
    inside = {
        **calls,
        "problem_id": 5,
        "starter_code": "class Solution:\n    def pair(self, a, b):",
    }
    listed = {**APPS, "problem_id": 6, "input_output": {"inputs": [["1", "2"]], "outputs": [["3"]]}}
    without = {**APPS, "problem_id": 7, "input_output": ""}
    path = write(tmp_path / "a.jsonl", APPS, calls, inside, listed, without)
    programs, called, method, lines = apps_rows(path)
    assert programs["cases"][0] == {"input": "2\n", "output": "4\n"}
    assert programs["solution"] == "print(2 * int(input()))"
    assert called["tests"] == [{"call": "pair(1, 'x')", "any_of": [[[1, "x"]], [1, "x"]]}]
    assert "solution" not in called
    assert method["tests"][0]["call"] == "Solution().pair(1, 'x')"
    assert lines["cases"] == [{"input": "1\n2", "output": "3"}]


def test_gsm8k_plain_and_packed(tmp_path: Path) -> None:
    row = {"question": "Two and 48/2?", "answer": "48/2 = <<48/2=24>>24, <<05*2=10>>\n#### 26"}
    plain = write(tmp_path / "g.jsonl", row)
    packed = tmp_path / "g.jsonl.gz"
    packed.write_bytes(gzip.compress(plain.read_bytes()))
    (read,) = gsm8k_rows(plain)
    assert [read] == list(gsm8k_rows(packed))
    assert read["cells"] == ["48/2"]
    assert read["answer"] == row["answer"]


@pytest.mark.skipif(not GSM8K.exists(), reason="the data is not here")
def test_gsm8k_as_published() -> None:
    rows = list(gsm8k_rows(GSM8K))
    assert len(rows) == 7473
    assert len({row["id"] for row in rows}) == 7473
    assert sum("cells" in row for row in rows) > 7000


@pytest.mark.parametrize(
    ("read", "line", "words"),
    [
        (gsm8k_rows, "{", r"rows.jsonl:2 is not JSON"),
        (gsm8k_rows, "[]", r"rows.jsonl:2: the line: .*dictionary.*fields question, answer"),
        (gsm8k_rows, '{"question": "?"}', r"rows.jsonl:2: answer: Field required"),
        (gsm8k_rows, '{"question": "?", "answer": "7"}', r"rows.jsonl:2: answer: .*no result"),
        (humaneval_rows, json.dumps({**HUMANEVAL, "test": 3}), r"rows.jsonl:2: test: "),
        (humaneval_rows, json.dumps({**HUMANEVAL, "prompt": "def"}), r"rows.jsonl:2: prompt or"),
        (
            humaneval_rows,
            json.dumps({**HUMANEVAL, "prompt": "-" * 20_000 + "1"}),
            r"rows.jsonl:2: prompt or test is not Python, or too deeply nested",
        ),
        (mbpp_rows, "9" * 5000, r"rows.jsonl:2 has too long numbers or is too deeply nested"),
        (mbpp_rows, "[" * 99_999, r"rows.jsonl:2 has too long numbers or is too deeply nested"),
        (mbpp_rows, json.dumps({**MBPP, "test_list": []}), r"rows.jsonl:2: test_list: "),
        (apps_rows, json.dumps({**APPS, "input_output": "{"}), r"rows.jsonl:2: input_output: "),
        (
            apps_rows,
            json.dumps({**APPS, "input_output": {"inputs": ["1"], "outputs": []}}),
            r"rows.jsonl:2: input_output: .*1 inputs and 0 outputs",
        ),
    ],
)
def test_a_broken_line_is_named(read: Any, line: str, words: str, tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    path.write_text(f"\n{line}\n")
    with pytest.raises(FormatError, match=words):
        list(read(path))


def test_a_broken_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"there is no file '.*none.jsonl'"):
        list(gsm8k_rows(tmp_path / "none.jsonl"))
    packed = tmp_path / "g.jsonl.gz"
    packed.write_bytes(b"not packed")
    with pytest.raises(FormatError, match=r"g.jsonl.gz is not UTF-8 text packed by gzip"):
        list(gsm8k_rows(packed))
    packed.write_bytes(gzip.compress(b"x" * 9999)[:30])
    with pytest.raises(FormatError, match="packed by gzip"):
        list(gsm8k_rows(packed))
    plain = tmp_path / "g.jsonl"
    plain.write_bytes(b"\xff\xfe{")
    with pytest.raises(FormatError, match="is not UTF-8 text"):
        list(gsm8k_rows(plain))


def test_a_files_tasks_are_split_or_come_in_two_files(tmp_path: Path) -> None:
    rows = [{"question": f"{n}?", "answer": f"#### {n}"} for n in range(200)]
    path = write(tmp_path / "all.jsonl", *rows)
    kit = make(CodeOptions(tasks="gsm8k", file=path, count=999, eval_count=999))
    train, held_out = list(kit.tasks()), list(kit.eval_tasks())
    assert len(train) + len(held_out) == 200
    assert 5 <= len(held_out) <= 40
    other = write(tmp_path / "test.jsonl", rows[0])
    kit = make(CodeOptions(tasks="gsm8k", file=path, eval_file=other, count=50))
    assert [len(list(kit.tasks())), len(list(kit.eval_tasks()))] == [50, 1]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"tasks": "gsm8k"}, "needs `file`"),
        (
            {"file": "x.jsonl"},
            "`file` needs tasks = apps, gsm8k, humaneval or mbpp.*'math' are generated",
        ),
        ({"tasks": "programs", "eval_file": "x"}, "`eval_file` needs .*'programs' are generated"),
        ({"levels": (4,)}, "levels"),
        ({"levels": ()}, "levels"),
        ({"tasks": "chess"}, "tasks"),
        ({"seconds": 0}, "seconds"),
        ({"color": 1}, "color"),
    ],
)
def test_options_that_can_not_be_are_refused(options: dict[str, Any], words: str) -> None:
    with pytest.raises(ValidationError, match=words):
        CodeOptions(**options)


def test_a_file_that_is_cut_by_a_default_says_so(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = write(tmp_path / "m.jsonl", *({**MBPP, "task_id": n} for n in range(70)))
    options = {"tasks": "mbpp", "file": path, "eval_file": path}
    kit = make(CodeOptions.model_validate(options))
    assert len(load_tasks(kit.tasks)) == 70
    assert caplog.text == "", "it is taken whole"
    assert len(load_tasks(kit.eval_tasks)) == 64
    assert "m.jsonl has more held-out tasks than 64, the default of `eval_count`" in caplog.text
    caplog.clear()
    chosen = make(CodeOptions.model_validate({**options, "eval_count": 3}))
    assert len(load_tasks(chosen.eval_tasks)) == 3
    assert caplog.text == "", "the count was chosen"
