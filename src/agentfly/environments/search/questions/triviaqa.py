"""TriviaQA (arXiv:1705.03551): questions of quizzes with many spellings of each answer."""

from pathlib import Path

from pydantic import BaseModel, Field

from agentfly.environments.search.json_file import read_json
from agentfly.environments.search.questions.question_set import (
    QuestionSet,
    question_row,
    validate_record,
)


class _Answer(BaseModel):
    value: str = Field(alias="Value")
    aliases: list[str] = Field(default=[], alias="Aliases")


class _Question(BaseModel):
    id: str = Field(alias="QuestionId")
    question: str = Field(alias="Question")
    answer: _Answer = Field(alias="Answer")


class _File(BaseModel):
    data: list[_Question] = Field(alias="Data")


def read_triviaqa(path: Path) -> QuestionSet:
    """Read the questions; their evidence lies in other files and is not read."""
    rows = [
        question_row(
            id=one.id,
            question=one.question,
            answers=[one.answer.value, *one.answer.aliases],
            where=f"{path}, question {one.id}",
        )
        for one in validate_record(_File, read_json(path), str(path)).data
    ]
    return QuestionSet(rows=tuple(rows))
