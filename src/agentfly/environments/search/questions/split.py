"""Questions to train on and questions held out, with no answer in both."""

import hashlib
from collections.abc import Iterable
from typing import Any

from agentfly.rewards.qa import normalize_answer

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
