"""Readers of the usual question files, as their authors publish them.

A reader returns the rows of a file and the passages that come with it. The formats are SQuAD 1.1
and 2.0 (arXiv:1806.03822), NQ-open, HotpotQA (arXiv:1809.09600), 2WikiMultihopQA (arXiv:2011.01060,
in HotpotQA's format), TriviaQA (arXiv:1705.03551) and MuSiQue (arXiv:2108.00573).
"""

from collections.abc import Callable, Mapping
from functools import lru_cache
from pathlib import Path
from types import MappingProxyType
from typing import Literal

from pydantic import BaseModel, Field

from agentfly.environments.search.input_files import read_json, read_json_lines
from agentfly.environments.search.questions.question_set import (
    PassageCollector,
    QuestionSet,
    question_row,
    validate_record,
)
from agentfly.errors import ConfigError, FormatError
from agentfly.runtime.names import look_up

QuestionFormat = Literal["squad", "nq-open", "hotpotqa", "triviaqa", "2wiki", "musique"]

MAX_HOPS: Mapping[QuestionFormat, int] = MappingProxyType(
    {"squad": 1, "nq-open": 1, "hotpotqa": 2, "triviaqa": 1, "2wiki": 4, "musique": 4}
)
"""Number of facts that the longest questions of each format go through."""

PUBLISHED: Mapping[str, str] = MappingProxyType(
    {
        "squad": "https://rajpurkar.github.io/SQuAD-explorer",
        "nq-open": "https://github.com/google-research-datasets/natural-questions",
        "hotpotqa": "https://hotpotqa.github.io",
        "triviaqa": "https://nlp.cs.washington.edu/triviaqa",
        "2wiki": "https://github.com/Alab-NII/2wikimultihop",
        "musique": "https://github.com/StonyBrookNLP/musique",
    }
)
"""Where the authors of each data set publish it."""


@lru_cache(maxsize=4)
def load_questions(path: str, form: str) -> QuestionSet:
    """Read a file of questions; .gz and .bz2 files are decompressed.

    Args:
        path: The file.
        form: `squad`, `nq-open`, `hotpotqa`, `triviaqa`, `2wiki` or `musique`.
    """
    read = look_up(form, READERS, "form of questions")
    if not Path(path).is_file():
        raise ConfigError(
            f"there is no file {path!r} of questions: get one of the form {form!r} from "
            f"{PUBLISHED[form]}, or name another in `questions` or `eval_questions`"
        )
    try:
        found = read(Path(path))
    except FormatError as error:
        raise FormatError(
            f"{error}. It was read as the form {form!r}: if the file has another one of "
            f"{', '.join(READERS)}, name it in `form`. Rows of a `question` and its `answer` are "
            "no `questions`, but `tasks` of a [[source]]"
        ) from error
    if not found.rows:
        raise FormatError(f"{path} holds no question that has an answer")
    return found


class _SquadAnswer(BaseModel):
    text: str


class _SquadQuestion(BaseModel):
    id: str
    question: str
    answers: list[_SquadAnswer]
    is_impossible: bool = False


class _SquadParagraph(BaseModel):
    context: str
    qas: list[_SquadQuestion]


class _SquadArticle(BaseModel):
    title: str
    paragraphs: list[_SquadParagraph]


class _SquadFile(BaseModel):
    data: list[_SquadArticle]


def read_squad(path: Path) -> QuestionSet:
    """Read the questions that have an answer, and all paragraphs."""
    collector, rows = PassageCollector(), []
    for article in validate_record(_SquadFile, read_json(path), str(path)).data:
        for paragraph in article.paragraphs:
            place = collector.add(article.title.replace("_", " "), paragraph.context)
            rows += [
                question_row(
                    id=one.id,
                    question=one.question.strip(),
                    answers=[answer.text for answer in one.answers],
                    support=[place],
                    where=f"{path}, question {one.id}",
                )
                for one in paragraph.qas
                if not one.is_impossible
            ]
    return QuestionSet(rows=tuple(rows), passages=collector.passages)


class _NqLine(BaseModel):
    question: str
    answer: list[str]


def read_nq_open(path: Path) -> QuestionSet:
    """Read questions with short answers, one JSON object per line; they bring no passages."""
    rows = []
    for where, raw in read_json_lines(path):
        line = validate_record(_NqLine, raw, where)
        own_id = f"nq:{where.rpartition(':')[2]}"
        rows.append(
            question_row(id=own_id, question=line.question, answers=line.answer, where=where)
        )
    return QuestionSet(rows=tuple(rows))


class _HotpotQuestion(BaseModel):
    id: str = Field(alias="_id")
    question: str
    answer: str
    supporting_facts: list[tuple[str, int]]
    """Title and sentence."""
    context: list[tuple[str, list[str]]]
    """Title and sentences."""


def read_hotpotqa(path: Path) -> QuestionSet:
    """Read the questions, and the paragraphs of all of them."""
    listed = read_json(path)
    if not isinstance(listed, list):
        raise FormatError(f"{path} must hold a list of questions, got a {type(listed).__name__}")
    collector, rows = PassageCollector(), []
    for number, raw in enumerate(listed, start=1):
        where = f"{path}, question {number}"
        one = validate_record(_HotpotQuestion, raw, where)
        places = {
            title: collector.add(title, " ".join(sentence.strip() for sentence in sentences))
            for title, sentences in one.context
        }
        titles = dict.fromkeys(title for title, _ in one.supporting_facts)
        rows.append(
            question_row(
                id=one.id,
                question=one.question,
                answers=[one.answer],
                support=[places[title] for title in titles if title in places],
                where=where,
            )
        )
    return QuestionSet(rows=tuple(rows), passages=collector.passages)


class _TriviaAnswer(BaseModel):
    value: str = Field(alias="Value")
    aliases: list[str] = Field(default=[], alias="Aliases")


class _TriviaQuestion(BaseModel):
    id: str = Field(alias="QuestionId")
    question: str = Field(alias="Question")
    answer: _TriviaAnswer = Field(alias="Answer")


class _TriviaFile(BaseModel):
    data: list[_TriviaQuestion] = Field(alias="Data")


def read_triviaqa(path: Path) -> QuestionSet:
    """Read the questions; their evidence is in other files and is not read."""
    rows = [
        question_row(
            id=one.id,
            question=one.question,
            answers=[one.answer.value, *one.answer.aliases],
            where=f"{path}, question {one.id}",
        )
        for one in validate_record(_TriviaFile, read_json(path), str(path)).data
    ]
    return QuestionSet(rows=tuple(rows))


class _MusiqueParagraph(BaseModel):
    title: str
    paragraph_text: str
    is_supporting: bool = False


class _MusiqueQuestion(BaseModel):
    id: str
    question: str
    answer: str
    answer_aliases: list[str] = []
    answerable: bool = True
    paragraphs: list[_MusiqueParagraph]


def read_musique(path: Path) -> QuestionSet:
    """Read the questions that can be answered, and the paragraphs of all."""
    collector, rows = PassageCollector(), []
    for where, raw in read_json_lines(path):
        one = validate_record(_MusiqueQuestion, raw, where)
        places = [(collector.add(p.title, p.paragraph_text), p) for p in one.paragraphs]
        if one.answerable:
            rows.append(
                question_row(
                    id=one.id,
                    question=one.question,
                    answers=[one.answer, *one.answer_aliases],
                    support=[place for place, p in places if p.is_supporting],
                    where=where,
                )
            )
    return QuestionSet(rows=tuple(rows), passages=collector.passages)


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
