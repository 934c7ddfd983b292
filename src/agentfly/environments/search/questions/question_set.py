"""Questions of a file, and the passages that the file brings along."""

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
    """Rows with `question`, `answer` (a list of which any is right) and `support`."""

    rows: tuple[dict[str, Any], ...]
    passages: tuple[Passage, ...] = ()
    """Empty for files that bring none; such questions are asked of another corpus."""


@dataclass(slots=True)
class PassageCollector:
    """Passages as they are met, each once, known by its title.

    >>> shelf = PassageCollector()
    >>> shelf.add("Cats", "Cats purr."), shelf.add("Cats", "More."), shelf.add("Cats", "Cats purr.")
    ('Cats', 'Cats#1', 'Cats')
    """

    _ids: dict[tuple[str, str], str] = field(default_factory=dict)
    _counts: dict[str, int] = field(default_factory=dict)

    def add(self, title: str, text: str) -> str:
        """Return the id of this passage, new or known."""
        if (title, text) not in self._ids:
            count = self._counts.get(title, 0)
            self._counts[title] = count + 1
            self._ids[title, text] = f"{title}#{count}" if count else title
        return self._ids[title, text]

    @property
    def passages(self) -> tuple[Passage, ...]:
        """All of them, in the order in which they were met."""
        return tuple(
            Passage(id=one, title=title, text=text) for (title, text), one in self._ids.items()
        )


def question_row(
    *, id: str, question: str, answers: Sequence[str], support: Sequence[str] = (), where: str
) -> dict[str, Any]:
    """Make a row, or say that the file has no answer here."""
    right = list(dict.fromkeys(answer for answer in answers if answer.strip()))
    if not right:
        raise FormatError(f"{where} has no answer: a file with answers is needed")
    return {"id": id, "question": question, "answer": right, "support": list(support)}


def validate_record(kind: type[M], raw: object, where: str) -> M:
    """Read one object of a file, or say where and what is wrong with it."""
    try:
        return kind.model_validate(raw)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        place = ".".join(map(str, first["loc"])) or "the whole"
        raise FormatError(f"{where}: {place}: {first['msg']}") from error


HELD_OUT = 10
"""One answer in so many is held out, with all its questions."""

Rows = list[dict[str, Any]]


def split_rows(rows: Iterable[dict[str, Any]]) -> tuple[Rows, Rows]:
    """Split by the answers, so that it stays the same whatever the order of the rows.

    A question is held out by its first answer; one to train on that shares any answer with those
    is left out.
    """
    train: Rows = []
    held_out: Rows = []
    for row in rows:
        (held_out if _is_held_out(row["answer"][0]) else train).append(row)
    secret = {normalize_answer(answer) for row in held_out for answer in row["answer"]}
    return [row for row in train if secret.isdisjoint(_answers(row))], held_out


def _answers(row: dict[str, Any]) -> set[str]:
    return {normalize_answer(answer) for answer in row["answer"]}


def _is_held_out(answer: str) -> bool:
    digest = hashlib.blake2b(normalize_answer(answer).encode(), digest_size=8).digest()
    return int.from_bytes(digest) % HELD_OUT == 0
