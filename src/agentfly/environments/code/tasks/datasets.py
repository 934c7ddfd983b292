"""Readers of well-known task files: JSON lines, plain or compressed by gzip.

The formats are GSM8K (arXiv:2110.14168), HumanEval (arXiv:2107.03374), MBPP (arXiv:2108.07732) and
APPS (arXiv:2105.09938). Errors name the file and the line.
"""

import ast
import gzip
import json
import re
import zlib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, TypeVar

from pydantic import (
    AliasChoices,
    BaseModel,
    Field,
    ValidationError,
    ValidationInfo,
    field_validator,
    model_validator,
)

from agentfly.environments.code.judging.tested_names import UNPARSABLE
from agentfly.environments.code.tasks.program_template import Row
from agentfly.errors import ConfigError, FormatError
from agentfly.types import content_id

Record = TypeVar("Record", bound=BaseModel)


def read_records(path: Path, kind: type[Record]) -> Iterator[tuple[str, Record]]:
    """Yield the records of a file, each with its position: "tasks.jsonl:3"."""
    for number, line in enumerate(_lines(path), start=1):
        where = f"{path}:{number}"
        if line.strip():
            yield where, _record(line, kind, where)


def _lines(path: Path) -> Iterator[str]:
    if not path.is_file():
        raise ConfigError(f"there is no file {str(path)!r} to read tasks from")
    opened = gzip.open if path.suffix == ".gz" else open
    try:
        with opened(path, "rt", encoding="utf-8-sig") as file:
            yield from file
    except (UnicodeDecodeError, gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise FormatError(f"{path} is not {_expected(path)}: {error}") from error


def _expected(path: Path) -> str:
    return "UTF-8 text packed by gzip" if path.suffix == ".gz" else "UTF-8 text"


def _record(line: str, kind: type[Record], where: str) -> Record:
    try:
        return kind.model_validate(json.loads(line))
    except json.JSONDecodeError as error:
        raise FormatError(f"{where} is not JSON: {error.msg}") from error
    except ValidationError as error:
        wrong = error.errors(include_url=False)[0]
        place = ".".join(map(str, wrong["loc"])) or "the line"
        known = ", ".join(field.alias or name for name, field in kind.model_fields.items())
        raise FormatError(
            f"{where}: {place}: {wrong['msg']}. Expected an object with the fields {known}"
        ) from error
    except (ValueError, RecursionError) as error:  # Valid JSON that Python does not read.
        raise FormatError(f"{where} has too long numbers or is too deeply nested") from error


_ANNOTATION = re.compile(r"<<([\d+\-*/(). ]+)=")
"""A step of the solution as an expression: `<<48/2=24>>`."""


class Gsm8kRecord(BaseModel):
    """A line of the official files."""

    question: str
    answer: str

    @field_validator("answer")
    @classmethod
    def _ends_in_a_result(cls, answer: str) -> str:
        if "####" not in answer:
            raise ValueError("has no result after '####'")
        return answer


def gsm8k_rows(path: Path) -> Iterator[Row]:
    """Yield word problems; the calculations in a solution become `cells`."""
    for _, record in read_records(path, Gsm8kRecord):
        row: Row = {"question": record.question, "answer": record.answer}
        steps = [step for step in _ANNOTATION.findall(record.answer) if _is_expression(step)]
        if steps:
            row["cells"] = ["\n".join(steps)]
        yield {"id": f"gsm8k-{content_id(row)}", **row}


def _is_expression(text: str) -> bool:
    try:
        ast.parse(text.strip(), mode="eval")
    except UNPARSABLE:  # "05*2", say
        return False
    return True


class HumanEvalRecord(BaseModel):
    """A line of the official file."""

    task_id: str
    prompt: str
    entry_point: str
    test: str
    canonical_solution: str | None = None


def humaneval_rows(path: Path) -> Iterator[Row]:
    """Yield functions to complete. The prompt is the setup, for its helpers and imports."""
    for where, record in read_records(path, HumanEvalRecord):
        try:
            tests = _tests(record.test, record.entry_point)
            ast.parse(record.prompt)
        except UNPARSABLE as error:
            raise FormatError(
                f"{where}: prompt or test is not Python, or too deeply nested: {error}"
            ) from error
        row = {
            "id": record.task_id,
            "question": f"Complete this Python function:\n```python\n{record.prompt.rstrip()}\n```",
            "setup": record.prompt,
            "entry_point": record.entry_point,
            "tests": tests,
        }
        if record.canonical_solution is not None:
            row["solution"] = record.prompt + record.canonical_solution
        yield row


def _tests(source: str, entry_point: str) -> list[str]:
    """Return a test per assertion of `check`; one in all if it has other statements."""
    tree = ast.parse(source)
    checks = [x for x in tree.body if isinstance(x, ast.FunctionDef) and x.name == "check"]
    body = checks[-1].body if checks else []
    named, tests = _Named(entry_point), []
    if all(isinstance(statement, ast.Assert) for statement in body):
        tests = [
            ast.unparse(named.visit(statement)) for statement in body if _uses_candidate(statement)
        ]
    return tests or [f"{source}\ncheck({entry_point})"]


def _uses_candidate(statement: ast.stmt) -> bool:
    """Return whether an assertion uses the candidate; `assert True` tests nothing."""
    return any(isinstance(x, ast.Name) and x.id == "candidate" for x in ast.walk(statement))


class _Named(ast.NodeTransformer):
    """Replaces `candidate` by the name of the function."""

    def __init__(self, name: str) -> None:
        self._name = name

    def visit_Name(self, node: ast.Name) -> ast.Name:
        return ast.Name(self._name, node.ctx) if node.id == "candidate" else node


class MbppRecord(BaseModel):
    """A line of the official files; the sanitized ones say `prompt` and `test_imports`."""

    task_id: int | str
    text: str = Field(validation_alias=AliasChoices("text", "prompt"))
    test_list: list[str] = Field(min_length=1)
    code: str | None = None
    test_setup_code: str = ""
    test_imports: list[str] = []
    challenge_test_list: list[str] = []


def mbpp_rows(path: Path) -> Iterator[Row]:
    """Yield problems; the first assertion is shown, since the text does not name the function."""
    for _, record in read_records(path, MbppRecord):
        tests = [*record.test_list, *record.challenge_test_list]
        row = {
            "id": f"mbpp-{record.task_id}",
            "question": f"{record.text}\nYour code should satisfy:\n{record.test_list[0]}",
            "setup": "\n".join(record.test_imports),
            "tests": [_after(record.test_setup_code, test) for test in tests],
        }
        if record.code is not None:
            solution = row["solution"] = record.code.replace("\r\n", "\n")
            if name := function_of_tests(solution, tests):
                row["entry_point"] = name
        yield row


def function_of_tests(code: str, tests: Iterable[str]) -> str | None:
    """Return the one function of the code that all tests name; None if that is not clear.

    >>> function_of_tests("def max(a, b): return a if a > b else b", ["assert max(1, 2) == 2"])
    'max'
    """
    try:
        found = {one.name for one in ast.parse(code).body if isinstance(one, ast.FunctionDef)}
        for test in tests:
            found &= {one.id for one in ast.walk(ast.parse(test)) if isinstance(one, ast.Name)}
    except UNPARSABLE:
        return None
    return found.pop() if len(found) == 1 else None


def _after(setup: str, test: str) -> str:
    """Return a test with what it needs, which may use classes of the code."""
    setup = setup.replace("\r\n", "\n").strip()
    return f"{setup}\n{test}" if setup else test


class InputOutput(BaseModel):
    """The tests of one problem."""

    inputs: list[Any] = []
    outputs: list[Any] = []
    fn_name: str | None = None

    @model_validator(mode="after")
    def _as_many(self) -> "InputOutput":
        if len(self.inputs) != len(self.outputs):
            raise ValueError(f"{len(self.inputs)} inputs and {len(self.outputs)} outputs")
        return self


class AppsRecord(BaseModel):
    """A line of the official files, in which two fields are JSON within JSON."""

    problem_id: int | str
    question: str
    input_output: InputOutput = InputOutput()
    solutions: list[str] = []
    starter_code: str = ""

    @field_validator("input_output", "solutions", mode="before")
    @classmethod
    def _unpacked(cls, value: Any, info: ValidationInfo) -> Any:
        if not isinstance(value, str):
            return value
        empty: Any = {} if info.field_name == "input_output" else []
        return json.loads(value) if value.strip() else empty


def apps_rows(path: Path) -> Iterator[Row]:
    """Yield problems judged by input and output or by calls; those without tests are skipped."""
    for _, record in read_records(path, AppsRecord):
        tests = record.input_output
        if not tests.inputs:
            continue
        row: Row = {"id": f"apps-{record.problem_id}", "question": _question(record)}
        pairs = list(zip(tests.inputs, tests.outputs, strict=True))
        if tests.fn_name is None:
            row["cases"] = [{"input": _text(i), "output": _text(o)} for i, o in pairs]
        else:
            function = _function(tests.fn_name, record.starter_code)
            row["tests"] = [_call(function, i, o) for i, o in pairs]
        if record.solutions:
            row["solution"] = record.solutions[0]
        yield row


def _question(record: AppsRecord) -> str:
    if record.starter_code.strip():
        return f"{record.question}\n\nBegin with:\n```python\n{record.starter_code.rstrip()}\n```"
    if record.input_output.fn_name is not None:
        return f"{record.question}\n\nWrite a function `{record.input_output.fn_name}`."
    return f"{record.question}\n\nWrite a program that reads from stdin and prints to stdout."


def _function(name: str, starter_code: str) -> str:
    return f"Solution().{name}" if "class Solution" in starter_code else name


def _call(function: str, arguments: list[Any], output: Any) -> Row:
    """Return the test of a call; a value and a list with only this value are both accepted."""
    accepted = [output, output[0]] if isinstance(output, list) and len(output) == 1 else [output]
    return {"call": f"{function}({', '.join(map(repr, arguments))})", "any_of": accepted}


def _text(value: Any) -> str:
    return "\n".join(map(str, value)) if isinstance(value, list) else str(value)
