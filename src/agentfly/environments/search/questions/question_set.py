"""Questions of a file, the passages that come with them, and the held-out split."""

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from agentfly.environments.search.retriever import Passage
from agentfly.errors import FormatError
from agentfly.rewards.text_match import normalize_answer

M = TypeVar("M", bound=BaseModel)


@dataclass(frozen=True, slots=True, kw_only=True)
class QuestionSet:
    """Rows with `question`, `answer` (a list of correct answers) and `support`."""

    rows: tuple[dict[str, Any], ...]
    passages: tuple[Passage, ...] = ()
    """Passages of the file; if empty, the questions need another corpus."""


@dataclass(slots=True)
class PassageCollector:
    """Collects different passages, with ids made from their titles.

    >>> collector = PassageCollector()
    >>> [collector.add("Cats", text) for text in ("Cats purr.", "More.", "Cats purr.")]
    ['Cats', 'Cats#1', 'Cats']
    """

    _ids: dict[tuple[str, str], str] = field(default_factory=dict)
    _counts: dict[str, int] = field(default_factory=dict)

    def add(self, title: str, text: str) -> str:
        """Add a passage unless it is there; return its id."""
        if (title, text) not in self._ids:
            count = self._counts.get(title, 0)
            self._counts[title] = count + 1
            self._ids[title, text] = f"{title}#{count}" if count else title
        return self._ids[title, text]

    @property
    def passages(self) -> tuple[Passage, ...]:
        """All passages in the order in which they were added."""
        return tuple(
            Passage(id=one, title=title, text=text) for (title, text), one in self._ids.items()
        )


def question_row(
    *, id: str, question: str, answers: Sequence[str], support: Sequence[str] = (), where: str
) -> dict[str, Any]:
    """Return a row; FormatError if there is no answer."""
    right = list(dict.fromkeys(answer for answer in answers if answer.strip()))
    if not right:
        raise FormatError(f"{where} has no answer: a file with answers is needed")
    return {"id": id, "question": question, "answer": right, "support": list(support)}


def validate_record(kind: type[M], raw: object, where: str) -> M:
    """Return one object of a file; FormatError that says where and what is wrong."""
    try:
        return kind.model_validate(raw)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        place = ".".join(map(str, first["loc"])) or "the whole"
        raise FormatError(f"{where}: {place}: {first['msg']}") from error


HELD_OUT = 10
"""One in this many answers is held out, with all its questions."""

Rows = list[dict[str, Any]]


def split_rows(rows: Iterable[dict[str, Any]]) -> tuple[Rows, Rows]:
    """Split rows by their answers, independent of their order, into training and held-out.

    A question is held out by its first answer; training questions that share an answer with
    held-out ones are dropped.
    """
    train: Rows = []
    held_out: Rows = []
    for row in rows:
        (held_out if _is_held_out(row["answer"][0]) else train).append(row)
    held_out_answers = {normalize_answer(answer) for row in held_out for answer in row["answer"]}
    return [row for row in train if held_out_answers.isdisjoint(_answers(row))], held_out


def _answers(row: dict[str, Any]) -> set[str]:
    return {normalize_answer(answer) for answer in row["answer"]}


def _is_held_out(answer: str) -> bool:
    digest = hashlib.blake2b(normalize_answer(answer).encode(), digest_size=8).digest()
    return int.from_bytes(digest) % HELD_OUT == 0
