"""Questions over several facts, written and read by the relations' patterns."""

from dataclasses import dataclass
from random import Random

from agentfly.environments.search.world.relation import RELATIONS, Relation


@dataclass(frozen=True, slots=True)
class Question:
    """Where to begin, and which facts to follow."""

    start: str
    path: tuple[Relation, ...]


def write_question(question: Question, random: Random, *, held_out: bool = False) -> str:
    """Write a question, in one of the wordings to train on or in those that are held out.

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
    """Understand a question; None for one that is not of this world.

    >>> question = parse_question("Which river flows through the birthplace of Mira Dovel?")
    >>> question.start, [relation.name for relation in question.path]
    ('Mira Dovel', ['birthplace', 'river'])
    """
    for relation in RELATIONS:
        asked_of = relation.read_ask(text.strip())
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
