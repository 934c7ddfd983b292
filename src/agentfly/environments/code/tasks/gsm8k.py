"""GSM8K (arXiv:2110.14168): word problems whose solution ends in "#### 42"."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

from pydantic import BaseModel, field_validator

from agentfly.environments.code.tasks.program_template import Row
from agentfly.environments.code.tasks.records import read_records
from agentfly.types import content_id

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
    """Read problems; a solution's own calculations become `cells`, where it has any."""
    for _, record in read_records(path, Gsm8kRecord):
        row: Row = {"question": record.question, "answer": record.answer}
        steps = [step for step in _ANNOTATION.findall(record.answer) if _is_expression(step)]
        if steps:
            row["cells"] = ["\n".join(steps)]
        yield {"id": f"gsm8k-{content_id(row)}", **row}


def _is_expression(text: str) -> bool:
    try:
        ast.parse(text.strip(), mode="eval")
    except SyntaxError:  # "05*2", say
        return False
    return True
