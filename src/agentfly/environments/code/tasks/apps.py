"""APPS (arXiv:2105.09938): problems judged by input and output, some of them by calls."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ValidationInfo, field_validator, model_validator

from agentfly.environments.code.tasks.program_template import Row
from agentfly.environments.code.tasks.records import read_records


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
    """Read problems; those without tests are left out, since nothing can be said of an answer."""
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
    """Make a test of a call. A value may stand alone or as a list's only item: either is right."""
    accepted = [output, output[0]] if isinstance(output, list) and len(output) == 1 else [output]
    return {"call": f"{function}({', '.join(map(repr, arguments))})", "any_of": accepted}


def _text(value: Any) -> str:
    return "\n".join(map(str, value)) if isinstance(value, list) else str(value)
