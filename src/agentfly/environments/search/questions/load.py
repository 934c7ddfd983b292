"""Question sets by the name of their form."""

from collections.abc import Callable, Mapping
from functools import lru_cache
from pathlib import Path
from types import MappingProxyType
from typing import Literal

from agentfly.environments.search.questions.hotpotqa import read_hotpotqa
from agentfly.environments.search.questions.musique import read_musique
from agentfly.environments.search.questions.nq_open import read_nq_open
from agentfly.environments.search.questions.question_set import QuestionSet
from agentfly.environments.search.questions.squad import read_squad
from agentfly.environments.search.questions.triviaqa import read_triviaqa
from agentfly.errors import FormatError
from agentfly.runtime.names import look_up

QuestionFormat = Literal["squad", "nq-open", "hotpotqa", "triviaqa", "2wiki", "musique"]

READERS: Mapping[str, Callable[[Path], QuestionSet]] = MappingProxyType(
    {
        "squad": read_squad,
        "nq-open": read_nq_open,
        "hotpotqa": read_hotpotqa,
        "triviaqa": read_triviaqa,
        "2wiki": read_hotpotqa,
        "musique": read_musique,
    }
)

MAX_HOPS: Mapping[QuestionFormat, int] = MappingProxyType(
    {"squad": 1, "nq-open": 1, "hotpotqa": 2, "triviaqa": 1, "2wiki": 4, "musique": 4}
)
"""How many facts the longest questions of each form go through."""


@lru_cache(maxsize=4)
def load_questions(path: str, form: str) -> QuestionSet:
    """Read a file of questions, as its authors publish it; .gz and .bz2 are unpacked.

    Args:
        path: The file.
        form: `squad`, `nq-open`, `hotpotqa`, `triviaqa`, `2wiki` or `musique`.
    """
    found = look_up(form, READERS, "form of questions")(Path(path))
    if not found.rows:
        raise FormatError(f"{path} holds no question that has an answer")
    return found
