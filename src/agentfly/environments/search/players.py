"""Scripted players: one follows the facts, one knows the answer, one knows nothing."""

import re
from collections.abc import Generator

from agentfly.environments.player import Say, Scene, call
from agentfly.environments.search.world import read

_NAME = re.compile(r"[A-Z]\w+")


def expert(scene: Scene) -> Generator[Say, str, None]:
    """Understand a question about the world, and look up one fact after another."""
    question = read(scene.observation)
    if question is None:
        yield Say("I don't know.")
        return
    subject = question.start
    for relation in question.path:
        shown = yield call("search", query=subject)
        found = relation.read_fact(shown, subject)
        if found is None:
            break
        subject = found
    yield Say(subject)


def gold(scene: Scene) -> Generator[Say, str, None]:
    """Search for the supporting passages, and say the answer that the task holds."""
    fields = scene.task.fields
    for query in fields.get("support") or [fields["question"]]:
        yield call("search", query=query)
    answer = fields["answer"]
    yield Say(answer if isinstance(answer, str) else answer[0])


def random(scene: Scene) -> Generator[Say, str, None]:
    """Search for some words of the question, and say a name that was shown."""
    draw = scene.random
    words = scene.observation.split() or ["nothing"]
    shown = yield call("search", query=" ".join(draw.choices(words, k=2)))
    yield Say(draw.choice(_NAME.findall(shown) or words))
