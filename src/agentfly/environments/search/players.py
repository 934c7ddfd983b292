"""Scripted players: one follows the facts, one has the answer, one searches at random.

They use `search`, or the search tool given instead.
"""

import re

from agentfly.environments.player import Play, Say, Scene, call
from agentfly.environments.search.retriever import MAX_QUERY
from agentfly.environments.search.world import parse_question
from agentfly.rewards.reference_answers import gold_answers
from agentfly.rewards.text_match import normalize_answer

NOT_FOUND = "I found nothing."

_NAME = re.compile(r"[A-Z]\w+")


def expert(scene: Scene, tool: str = "search") -> Play:
    """Parse a question about the world, and look up one fact after another."""
    question = parse_question(scene.observation)
    if question is None:
        yield Say("I don't know.")
        return
    subject = question.start
    for relation in question.path:
        shown = yield call(tool, query=subject)
        found = relation.read_fact(shown, subject)
        if found is None:
            break
        subject = found
    yield Say(subject)


def gold(scene: Scene, tool: str = "search") -> Play:
    """Search for the supporting passages, and say the task's answer if they can be found.

    Without known support, or if the corpus has other ids, the answer itself must be shown.
    """
    answer = gold_answers(scene.task, "answer")[0]
    question = str(scene.task.fields.get("question", ""))
    support = [str(one) for one in scene.task.fields.get("support") or ()]
    seen = ""
    for wanted in support or [question]:
        # The title alone finds most passages; question and answer help with the others.
        for query in (wanted, f"{wanted} {question} {answer}"):
            if not _is_shown(wanted, seen):
                seen += "\n" + (yield call(tool, query=query[:MAX_QUERY]))
    found = bool(support) and all(_is_shown(one, seen) for one in support)
    yield Say(answer if found or _holds(seen, answer) else NOT_FOUND)


def random(scene: Scene, tool: str = "search") -> Play:
    """Search for some words of the question, and say a name that was shown."""
    draw = scene.random
    words = scene.observation.split() or ["nothing"]
    shown = yield call(tool, query=" ".join(draw.choices(words, k=2)))
    yield Say(draw.choice(_NAME.findall(shown) or words))


def _is_shown(passage_id: str, seen: str) -> bool:
    """Return whether a passage is among the lines that searches have shown.

    >>> _is_shown("d#3", "[d#3] Cats: They purr."), _is_shown("Askel", "Askel lies on the Umber.")
    (True, True)
    """
    name = re.escape(passage_id)
    return re.search(rf"^(?:\[{name}\]|{name}(?!\w))", seen, re.MULTILINE) is not None


def _holds(seen: str, answer: str) -> bool:
    return f" {normalize_answer(answer)} " in f" {normalize_answer(seen)} "
