"""SQuAD 1.1 and 2.0 (arXiv:1806.03822): questions about paragraphs of Wikipedia."""

from pathlib import Path

from pydantic import BaseModel

from agentfly.environments.search.json_file import read_json
from agentfly.environments.search.questions.question_set import (
    PassageCollector,
    QuestionSet,
    question_row,
    validate_record,
)


class _Answer(BaseModel):
    text: str


class _Question(BaseModel):
    id: str
    question: str
    answers: list[_Answer]
    is_impossible: bool = False


class _Paragraph(BaseModel):
    context: str
    qas: list[_Question]


class _Article(BaseModel):
    title: str
    paragraphs: list[_Paragraph]


class _File(BaseModel):
    data: list[_Article]


def read_squad(path: Path) -> QuestionSet:
    """Read the questions that have an answer, and all paragraphs."""
    shelf, rows = PassageCollector(), []
    for article in validate_record(_File, read_json(path), str(path)).data:
        for paragraph in article.paragraphs:
            place = shelf.put(article.title.replace("_", " "), paragraph.context)
            rows += [
                question_row(
                    id=one.id,
                    question=one.question.strip(),
                    answers=[answer.text for answer in one.answers],
                    support=[place],
                    where=f"{path}, question {one.id}",
                )
                for one in paragraph.qas
                if not one.is_impossible
            ]
    return QuestionSet(rows=tuple(rows), passages=shelf.passages)
