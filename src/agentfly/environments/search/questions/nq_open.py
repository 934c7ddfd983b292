"""NQ-open: questions to Google with short answers, one JSON object a line."""

from pathlib import Path

from pydantic import BaseModel

from agentfly.environments.search.json_file import read_json_lines
from agentfly.environments.search.questions.question_set import (
    QuestionSet,
    question_row,
    validate_record,
)


class _Line(BaseModel):
    question: str
    answer: list[str]


def read_nq_open(path: Path) -> QuestionSet:
    """Read the questions; they bring no passages."""
    rows = []
    for where, raw in read_json_lines(path):
        line = validate_record(_Line, raw, where)
        own_id = f"nq:{where.rpartition(':')[2]}"
        rows.append(
            question_row(id=own_id, question=line.question, answers=line.answer, where=where)
        )
    return QuestionSet(rows=tuple(rows))
