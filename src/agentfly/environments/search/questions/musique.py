"""MuSiQue (arXiv:2108.00573): questions of two to four hops, one JSON object a line."""

from pathlib import Path

from pydantic import BaseModel

from agentfly.environments.search.json_file import read_json_lines
from agentfly.environments.search.questions.question_set import (
    PassageCollector,
    QuestionSet,
    question_row,
    validate_record,
)


class _Paragraph(BaseModel):
    title: str
    paragraph_text: str
    is_supporting: bool = False


class _Question(BaseModel):
    id: str
    question: str
    answer: str
    answer_aliases: list[str] = []
    answerable: bool = True
    paragraphs: list[_Paragraph]


def read_musique(path: Path) -> QuestionSet:
    """Read the questions that can be answered, and the paragraphs of all."""
    shelf, rows = PassageCollector(), []
    for where, raw in read_json_lines(path):
        one = validate_record(_Question, raw, where)
        places = [(shelf.put(p.title, p.paragraph_text), p) for p in one.paragraphs]
        if one.answerable:
            rows.append(
                question_row(
                    id=one.id,
                    question=one.question,
                    answers=[one.answer, *one.answer_aliases],
                    support=[place for place, p in places if p.is_supporting],
                    where=where,
                )
            )
    return QuestionSet(rows=tuple(rows), passages=shelf.passages)
