"""Relations between two entities, and all wordings to state them and to ask for them.

The same patterns write and parse passages and questions, so the meaning of a question need not be
stored with it.
"""

import re
from dataclasses import dataclass
from functools import cached_property


@dataclass(frozen=True, kw_only=True)
class Relation:
    """A relation of a subject to exactly one object."""

    name: str
    subject: str
    """Kind of the subject, such as "person"."""
    object: str
    says: tuple[str, ...]
    """Sentences with {s} for the subject and {o} for the object; the first is the simplest."""
    phrases: tuple[str, ...]
    """Noun phrases for the object, with {} for the subject; the last is held out."""
    asks: tuple[str, ...]
    """Questions for the object; the last is held out."""

    def wordings(self, forms: tuple[str, ...], *, held_out: bool) -> tuple[str, ...]:
        """Return the training wordings, or the held-out one."""
        return forms[-1:] if held_out else forms[:-1]

    @cached_property
    def _readings(self) -> dict[str, list[re.Pattern[str]]]:
        return {
            "phrases": [_pattern(form, "{}") for form in self.phrases],
            "asks": [_pattern(form, "{}") for form in self.asks],
        }

    def read_ask(self, question: str) -> str | None:
        """Return the subject of a question for this relation; None for other questions."""
        return _first(self._readings["asks"], question)

    def read_phrase(self, phrase: str) -> str | None:
        """Return the subject of a noun phrase of this relation; None for other phrases."""
        return _first(self._readings["phrases"], phrase)

    def read_fact(self, text: str, subject: str) -> str | None:
        """Return the object that a text states for a subject; None if it does not."""
        text = without_quotes(text)
        for form in self.says:
            said = re.escape(form).replace(r"\{s\}", re.escape(subject))
            found = re.search(said.replace(r"\{o\}", "([^.]+?)"), text)
            if found:
                return found[1]
        return None


def without_quotes(text: str) -> str:
    """Return a text without the quotation marks around its names."""
    return text.replace('"', "")


def _pattern(form: str, hole: str) -> re.Pattern[str]:
    return re.compile(re.escape(form).replace(re.escape(hole), "(.+)"))


def _first(patterns: list[re.Pattern[str]], text: str) -> str | None:
    return next((found[1] for one in patterns if (found := one.fullmatch(text))), None)


RELATIONS = (
    Relation(
        name="birthplace",
        subject="person",
        object="town",
        says=("{s} was born in {o}.", "The birthplace of {s} is {o}."),
        phrases=(
            "the town where {} was born",
            "the birthplace of {}",
            "the town that {} was born in",
        ),
        asks=("Where was {} born?", "What is the birthplace of {}?", "In which town was {} born?"),
    ),
    Relation(
        name="employer",
        subject="person",
        object="company",
        says=("{s} works for {o}.", "The employer of {s} is {o}."),
        phrases=("the company that {} works for", "the employer of {}", "the company employing {}"),
        asks=("Who does {} work for?", "What is the employer of {}?", "Which company employs {}?"),
    ),
    Relation(
        name="teacher",
        subject="person",
        object="person",
        says=("{s} was taught by {o}.", "The teacher of {s} was {o}."),
        phrases=("the teacher of {}", "the person who taught {}", "the one by whom {} was taught"),
        asks=("Who taught {}?", "Who was the teacher of {}?", "By whom was {} taught?"),
    ),
    Relation(
        name="river",
        subject="town",
        object="river",
        says=("{s} lies on {o}.", "The town of {s} stands on the banks of {o}."),
        phrases=(
            "the river at {}",
            "the river that flows through {}",
            "the water on which {} lies",
        ),
        asks=(
            "On which river does {} lie?",
            "Which river flows through {}?",
            "What is the river at {}?",
        ),
    ),
    Relation(
        name="mayor",
        subject="town",
        object="person",
        says=("The mayor of {s} is {o}.", "{s} is governed by {o}."),
        phrases=("the mayor of {}", "the person who governs {}", "the one by whom {} is governed"),
        asks=("Who is the mayor of {}?", "Who governs {}?", "By whom is {} governed?"),
    ),
    Relation(
        name="founder",
        subject="company",
        object="person",
        says=("{s} was founded by {o}.", "The founder of {s} was {o}."),
        phrases=("the founder of {}", "the person who founded {}", "the one who set up {}"),
        asks=("Who founded {}?", "Who was the founder of {}?", "Who set up {}?"),
    ),
    Relation(
        name="seat",
        subject="company",
        object="town",
        says=("{s} is based in {o}.", "The main office of {s} is in {o}."),
        phrases=(
            "the town where {} is based",
            "the town with the main office of {}",
            "the seat of {}",
        ),
        asks=(
            "What town is {} based in?",
            "Where is the main office of {}?",
            "In which town is {} based?",
        ),
    ),
    Relation(
        name="author",
        subject="book",
        object="person",
        says=("{s} was written by {o}.", "The author of {s} is {o}."),
        phrases=("the author of {}", "the person who wrote {}", "the writer of {}"),
        asks=("Who wrote {}?", "Who is the author of {}?", "Who is the writer of {}?"),
    ),
    Relation(
        name="source",
        subject="river",
        object="mountain",
        says=("{s} rises on {o}.", "The source of {s} is on {o}."),
        phrases=(
            "the mountain where {} rises",
            "the mountain with the source of {}",
            "the mountain that {} comes from",
        ),
        asks=(
            "On which mountain does {} rise?",
            "Where is the source of {}?",
            "Which mountain does {} come from?",
        ),
    ),
)
