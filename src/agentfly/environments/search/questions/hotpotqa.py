"""HotpotQA (arXiv:1809.09600) and 2WikiMultihopQA (arXiv:2011.01060), which share one form."""

from pathlib import Path

from pydantic import BaseModel, Field

from agentfly.environments.search.json_file import read_json
from agentfly.environments.search.questions.question_set import (
    PassageCollector,
    QuestionSet,
    question_row,
    validate_record,
)
from agentfly.errors import FormatError


class _Question(BaseModel):
    id: str = Field(alias="_id")
    question: str
    answer: str
    supporting_facts: list[tuple[str, int]]
    """Title and sentence."""
    context: list[tuple[str, list[str]]]
    """Title and sentences."""


def read_hotpotqa(path: Path) -> QuestionSet:
    """Read the questions, and the paragraphs of all of them."""
    listed = read_json(path)
    if not isinstance(listed, list):
        raise FormatError(f"{path} must hold a list of questions, got a {type(listed).__name__}")
    shelf, rows = PassageCollector(), []
    for number, raw in enumerate(listed, start=1):
        where = f"{path}, question {number}"
        one = validate_record(_Question, raw, where)
        places = {title: shelf.put(title, _joined(lines)) for title, lines in one.context}
        titles = dict.fromkeys(title for title, _ in one.supporting_facts)
        rows.append(
            question_row(
                id=one.id,
                question=one.question,
                answers=[one.answer],
                support=[places[title] for title in titles if title in places],
                where=where,
            )
        )
    return QuestionSet(rows=tuple(rows), passages=shelf.passages)


def _joined(sentences: list[str]) -> str:
    return " ".join(sentence.strip() for sentence in sentences)
