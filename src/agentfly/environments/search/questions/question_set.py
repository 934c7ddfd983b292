"""Questions of a file, and the passages that the file brings along."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from agentfly.environments.search.passage import Passage
from agentfly.errors import FormatError

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
    >>> shelf.put("Cats", "Cats purr."), shelf.put("Cats", "More."), shelf.put("Cats", "Cats purr.")
    ('Cats', 'Cats#1', 'Cats')
    """

    _ids: dict[tuple[str, str], str] = field(default_factory=dict)
    _counts: dict[str, int] = field(default_factory=dict)

    def put(self, title: str, text: str) -> str:
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
