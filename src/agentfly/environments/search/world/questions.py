"""Questions over several facts of a world: written, parsed, and drawn as rows."""

from collections.abc import Iterator
from dataclasses import dataclass
from random import Random
from typing import Any

from agentfly.environments.search.world.relation import RELATIONS, Relation, without_quotes
from agentfly.environments.search.world.world import Half, World
from agentfly.errors import ConfigError
from agentfly.types import Seed


@dataclass(frozen=True, slots=True)
class Question:
    """The name to start from, and the relations to follow."""

    start: str
    path: tuple[Relation, ...]


def write_question(question: Question, random: Random, *, held_out: bool = False) -> str:
    """Return the text of a question, in a training wording or a held-out one.

    >>> birthplace, river = RELATIONS[0], RELATIONS[3]
    >>> write_question(Question("Mira Dovel", (birthplace, river)), Random(5))
    'Which river flows through the birthplace of Mira Dovel?'
    """
    subject = question.start
    *inner, last = question.path
    for relation in inner:
        form = random.choice(relation.wordings(relation.phrases, held_out=held_out))
        subject = form.format(subject)
    return random.choice(last.wordings(last.asks, held_out=held_out)).format(subject)


def parse_question(text: str) -> Question | None:
    """Parse a question; None for one that is not about the world.

    >>> question = parse_question("Which river flows through the birthplace of Mira Dovel?")
    >>> question.start, [relation.name for relation in question.path]
    ('Mira Dovel', ['birthplace', 'river'])
    """
    for relation in RELATIONS:
        asked_of = relation.read_ask(without_quotes(text).strip())
        if asked_of is not None:
            start, inner = _read_phrase(asked_of, relation.subject)
            return Question(start, (*inner, relation))
    return None


def _read_phrase(text: str, kind: str) -> tuple[str, tuple[Relation, ...]]:
    """Unwrap phrases from the outside in, down to a name."""
    for relation in RELATIONS:
        if relation.object == kind and (subject := relation.read_phrase(text)) is not None:
            start, inner = _read_phrase(subject, relation.subject)
            return start, (*inner, relation)
    return text, ()


MANY_REPEATED = 1000
"""Draws in a row without a new question after which the world's questions are counted."""
MAX_TRAIN = 2000
"""Maximum number of questions to train on where no number is given."""
MAX_HELD_OUT = 200
"""Maximum number of held-out questions where no number is given."""


def train_rows(
    world: World, hops: tuple[int, ...], count: int | None = None
) -> list[dict[str, Any]]:
    """Return questions about the half to train on.

    Args:
        world: The world that is asked about.
        hops: Numbers of facts that a question goes through.
        count: Number of questions; a world that has fewer is a ConfigError. By default all that
            it has, at most `MAX_TRAIN`.
    """
    random = Seed(world.seed).child("train questions").random()
    number = _QuestionLimit("num_tasks", count, MAX_TRAIN)
    return _rows(world, world.train, hops, number, random, held_out=False)


def held_out_rows(
    world: World,
    hops: tuple[int, ...],
    count: int | None = None,
    *,
    new_wordings: bool = True,
) -> list[dict[str, Any]]:
    """Return questions about the held-out half, by default in held-out wordings."""
    random = Seed(world.seed).child("held-out questions").random()
    number = _QuestionLimit("num_eval_tasks", count, MAX_HELD_OUT)
    return _rows(world, world.held_out, hops, number, random, held_out=new_wordings)


@dataclass(frozen=True, slots=True)
class _QuestionLimit:
    """Requested number of questions, and its default."""

    option: str
    asked: int | None
    default: int

    def within(self, available: int, hops: tuple[int, ...]) -> int:
        """Return the number that there can be; ConfigError if more was asked for."""
        if self.asked is None or self.asked <= available:
            return min(self.asked or self.default, available)
        facts = " or ".join(map(str, hops))
        raise ConfigError(
            f"{self.option} = {self.asked} is more than the world has: {available} different "
            f"questions of {facts} hop{'s' if hops != (1,) else ''}. Set "
            f"{self.option}={available} or less, or make the world larger with `people`"
        )


def _rows(
    world: World,
    half: Half,
    hops: tuple[int, ...],
    number: _QuestionLimit,
    random: Random,
    *,
    held_out: bool,
) -> list[dict[str, Any]]:
    rows: dict[str, dict[str, Any]] = {}
    repeated = 0
    wanted = number.asked or number.default
    if wanted > number.default:  # It may be far more than there are: don't draw until then.
        wanted = number.within(_count(half, hops), hops)
    for question in _questions(half, hops, random):
        shown = Question(world.show_name(question.start), question.path)
        row = _row(half, question, write_question(shown, random, held_out=held_out))
        repeated = repeated + 1 if row["id"] in rows else 0
        rows.setdefault(row["id"], row)
        if repeated == MANY_REPEATED:
            wanted = number.within(_count(half, hops), hops)
        if len(rows) >= wanted:
            break
    return list(rows.values())


def _count(half: Half, hops: tuple[int, ...]) -> int:
    """Return the number of different questions."""
    return sum(
        _visits_once(half, entity.name, path)
        for entity in half.entities
        for length in set(hops)
        for path in _paths(entity.kind, length)
    )


def _paths(kind: str, length: int) -> Iterator[tuple[Relation, ...]]:
    if length == 0:
        yield ()
        return
    for relation in RELATIONS:
        if relation.subject == kind:
            yield from ((relation, *rest) for rest in _paths(relation.object, length - 1))


def _visits_once(half: Half, start: str, path: tuple[Relation, ...]) -> bool:
    """Return whether a path visits no entity twice."""
    names = half.walk(start, path)
    return len(set(names)) == len(names)


def _questions(half: Half, hops: tuple[int, ...], random: Random) -> Iterator[Question]:
    while True:
        entity = random.choice(half.entities)
        path = _path(entity.kind, random.choice(hops), random)
        if path is not None and _visits_once(half, entity.name, path):
            yield Question(entity.name, path)


def _path(kind: str, length: int, random: Random) -> tuple[Relation, ...] | None:
    path: list[Relation] = []
    for _ in range(length):
        choices = [relation for relation in RELATIONS if relation.subject == kind]
        if not choices:
            return None
        path.append(random.choice(choices))
        kind = path[-1].object
    return tuple(path)


def _row(half: Half, question: Question, text: str) -> dict[str, Any]:
    *support, answer = half.walk(question.start, question.path)
    return {
        "id": f"{question.start}: {', '.join(relation.name for relation in question.path)}",
        "question": text,
        "answer": answer,
        "hops": len(question.path),
        "support": support,
    }
