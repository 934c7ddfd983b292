"""Rewards for short answers as text: exact match, and SQuAD's exact match and F1.

The rules of `qa_exact_match` and `qa_f1` are those of the SQuAD 2.0 evaluation script (Rajpurkar et
al., arXiv:1806.03822): both sides are lower-cased, ASCII punctuation is deleted, the articles "a",
"an" and "the" become white space, and white space is collapsed. Of several right answers the best
match counts. A task with an empty list of answers has none, and then only an empty response is
right.
"""

import re
import string
from collections import Counter

from agentfly.rewards.function_reward import FunctionReward, reward
from agentfly.rewards.reference_answers import gold_answers, listed_answers
from agentfly.types import Task


def exact_match(*, field: str = "answer", name: str = "exact_match") -> FunctionReward[..., bool]:
    r"""Score 1 if the final response is the right answer, character for character, and else 0.

    White space around either is ignored; nothing else is. For answers in prose see
    `qa_exact_match`, for numbers `numeric_match`.

    >>> exact_match()("Paris\n", Task(id="a", messages=(), fields={"answer": "Paris"}))
    True

    Args:
        field: The task's field with the right answer, or with a list of alternatives.
        name: Name in parts and metrics.
    """

    @reward(name=name, range=(0, 1))
    def score(final_response: str, task: Task) -> bool:
        golds = gold_answers(task, field)
        return final_response.strip() in {gold.strip() for gold in golds}

    score.reads = (field,)
    return score


_ARTICLES = re.compile(r"\b(a|an|the)\b")
_NO_PUNCTUATION = str.maketrans("", "", string.punctuation)


def normalize_answer(text: str) -> str:
    """Remove case, punctuation, articles and extra white space from a text.

    >>> normalize_answer("The  Eiffel-Tower, (in Paris)!")
    'eiffeltower in paris'
    """
    spelled = text.lower().translate(_NO_PUNCTUATION)
    return " ".join(_ARTICLES.sub(" ", spelled).split())


def token_f1(response: str, gold: str) -> float:
    """Return the harmonic mean of precision and recall over the words of two texts.

    >>> round(token_f1("the cat sat", "a cat"), 4)  # precision 1/2, recall 1/1
    0.6667
    """
    said, right = normalize_answer(response).split(), normalize_answer(gold).split()
    if not said and not right:
        return 1.0
    shared = (Counter(said) & Counter(right)).total()
    return 2 * shared / (len(said) + len(right))


def qa_exact_match(
    *, field: str = "answer", name: str = "qa_exact_match"
) -> FunctionReward[..., bool]:
    """Score 1 if the response is a right answer after SQuAD's normalization, and else 0.

    >>> qa_exact_match()("the Beatles.", Task(id="a", messages=(), fields={"answer": "Beatles"}))
    True

    Args:
        field: The task's field with the right answer, or with a list of alternatives.
        name: Name in parts and metrics.
    """

    @reward(name=name, range=(0, 1))
    def score(final_response: str, task: Task) -> bool:
        said = normalize_answer(final_response)
        return any(said == normalize_answer(gold) for gold in _answers(task, field))

    score.reads = (field,)
    return score


def qa_f1(*, field: str = "answer", name: str = "qa_f1") -> FunctionReward[..., float]:
    """Score the overlap in words with the best right answer, from 0 to 1.

    >>> qa_f1()("John Lennon", Task(id="a", messages=(), fields={"answer": ["Lennon", "Paul"]}))
    0.6666666666666666

    Args:
        field: The task's field with the right answer, or with a list of alternatives.
        name: Name in parts and metrics.
    """

    @reward(name=name, range=(0, 1))
    def score(final_response: str, task: Task) -> float:
        return max(token_f1(final_response, gold) for gold in _answers(task, field))

    score.reads = (field,)
    return score


def _answers(task: Task, field: str) -> list[str]:
    """Return the answers that do not normalize to nothing, as the official script does."""
    return [gold for gold in listed_answers(task, field) if normalize_answer(gold)] or [""]
