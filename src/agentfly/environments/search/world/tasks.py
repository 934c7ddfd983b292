"""Rows of questions about a world."""

from collections.abc import Iterator
from itertools import islice
from random import Random
from typing import Any

from agentfly.environments.search.world.question import Question, write_question
from agentfly.environments.search.world.relation import RELATIONS, Relation
from agentfly.environments.search.world.world import Half, World
from agentfly.errors import ConfigError
from agentfly.types import Seed

TRIES = 50
"""Draws for each question that is wanted; a small world has only so many."""


def train_rows(world: World, hops: tuple[int, ...], count: int) -> list[dict[str, Any]]:
    """Return questions about the half to train on."""
    random = Seed(world.seed).child("train questions").random()
    return _rows(world.train, hops, count, random, held_out=False)


def held_out_rows(
    world: World, hops: tuple[int, ...], count: int, *, new_wordings: bool = True
) -> list[dict[str, Any]]:
    """Return questions about the half that is held out, in wordings that are too."""
    random = Seed(world.seed).child("held-out questions").random()
    return _rows(world.held_out, hops, count, random, held_out=new_wordings)


def _rows(
    half: Half, hops: tuple[int, ...], count: int, random: Random, *, held_out: bool
) -> list[dict[str, Any]]:
    rows: dict[str, dict[str, Any]] = {}
    for question in islice(_questions(half, hops, random), TRIES * count):
        row = _row(half, question, write_question(question, random, held_out=held_out))
        rows.setdefault(row["id"], row)
        if len(rows) == count:
            return list(rows.values())
    raise ConfigError(
        f"this world has only {len(rows)} different questions of {hops} hops, {count} were asked "
        "for: raise `people` or lower the number of tasks"
    )


def _questions(half: Half, hops: tuple[int, ...], random: Random) -> Iterator[Question]:
    while True:
        entity = random.choice(half.entities)
        path = _path(entity.kind, random.choice(hops), random)
        if path is None:
            continue
        names = half.walk(entity.name, path)
        if len(set(names)) == len(names):  # No question that leads in a circle.
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
