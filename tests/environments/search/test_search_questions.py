"""Loaders for the usual question files, in the forms in which their authors publish them."""

import gzip
import json
from pathlib import Path
from random import Random

import pytest

from agentfly import Agent
from agentfly.environments import PlayerModel
from agentfly.environments.search import SEARCH, SearchOptions
from agentfly.environments.search.questions import load_questions, split_rows
from agentfly.errors import ConfigError, FormatError
from agentfly.rewards.text_match import normalize_answer
from agentfly.types import Task

SQUAD = {
    "version": "v2.0",
    "data": [
        {
            "title": "Big_Cats",
            "paragraphs": [
                {
                    "context": "Lions roar.",
                    "qas": [
                        {
                            "id": "1",
                            "question": " Who roars?",
                            "is_impossible": False,
                            "answers": [
                                {"text": "Lions", "answer_start": 0},
                                {"text": "Lions", "answer_start": 0},
                            ],
                        },
                        {"id": "2", "question": "Who?", "is_impossible": True, "answers": []},
                    ],
                },
                {"context": "Tigers swim.", "qas": []},
            ],
        }
    ],
}
HOTPOT = [
    {
        "_id": "h1",
        "question": "Where was the author of X born?",
        "answer": "Paris",
        "type": "bridge",
        "level": "easy",
        "supporting_facts": [["X", 0], ["Ann", 1], ["Ann", 0]],
        "context": [["X", ["X is by Ann. "]], ["Ann", ["Ann writes.", " Ann is from Paris."]]],
    }
]
TRIVIA = {
    "Data": [
        {
            "Question": "Who?",
            "QuestionId": "tc_1",
            "Answer": {"Value": "Ann", "Aliases": ["Anne", "Ann"], "NormalizedAliases": ["ann"]},
        }
    ],
    "Domain": "unfiltered-web",
}
NQ: list[dict[str, object]] = [{"question": "who sang it", "answer": ["Ann", "Bob"]}]
MUSIQUE: list[dict[str, object]] = [
    {
        "id": "2hop__1",
        "question": "Where?",
        "answer": "Paris",
        "answer_aliases": ["City of Light"],
        "answerable": True,
        "question_decomposition": [],
        "paragraphs": [
            {"idx": 0, "title": "Ann", "paragraph_text": "Ann is here.", "is_supporting": True},
            {"idx": 1, "title": "Ann", "paragraph_text": "Another Ann.", "is_supporting": True},
            {"idx": 2, "title": "Bob", "paragraph_text": "Bob.", "is_supporting": False},
        ],
    },
    {"id": "2hop__2", "question": "?", "answer": "", "answerable": False, "paragraphs": []},
]


def write(path: Path, value: object) -> str:
    path.write_text(json.dumps(value))
    return str(path)


def write_lines(path: Path, rows: list[dict[str, object]]) -> str:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return str(path)


def test_squad(tmp_path: Path) -> None:
    path = tmp_path / "dev.json.gz"
    path.write_bytes(gzip.compress(json.dumps(SQUAD).encode()))
    found = load_questions(str(path), "squad")
    assert found.rows == (
        {"id": "1", "question": "Who roars?", "answer": ["Lions"], "support": ["Big Cats"]},
    )
    assert [(p.id, p.title, p.text) for p in found.passages] == [
        ("Big Cats", "Big Cats", "Lions roar."),
        ("Big Cats#1", "Big Cats", "Tigers swim."),
    ]


@pytest.mark.parametrize("form", ["hotpotqa", "2wiki"])
def test_hotpotqa_and_2wiki(tmp_path: Path, form: str) -> None:
    found = load_questions(write(tmp_path / f"{form}.json", HOTPOT), form)
    (row,) = found.rows
    assert (row["id"], row["answer"], row["support"]) == ("h1", ["Paris"], ["X", "Ann"])
    assert found.passages[1].text == "Ann writes. Ann is from Paris."


def test_triviaqa_and_nq_open_bring_no_passages(tmp_path: Path) -> None:
    trivia = load_questions(write(tmp_path / "t.json", TRIVIA), "triviaqa")
    assert trivia.rows[0]["answer"] == ["Ann", "Anne"]
    path = write_lines(tmp_path / "nq.jsonl", NQ)
    assert load_questions(path, "nq-open").rows[0] == {
        "id": "nq:1",
        "question": "who sang it",
        "answer": ["Ann", "Bob"],
        "support": [],
    }
    kit = SEARCH.make(SearchOptions(questions=Path(path), form="nq-open"))
    with pytest.raises(ConfigError, match="bring no passages to search in: name an `index`"):
        kit.tools[0].environments[0].make()


def test_musique_distinguishes_paragraphs_of_one_title(tmp_path: Path) -> None:
    found = load_questions(write_lines(tmp_path / "m.jsonl", MUSIQUE), "musique")
    (row,) = found.rows
    assert row["answer"] == ["Paris", "City of Light"]
    assert row["support"] == ["Ann", "Ann#1"]
    assert len(found.passages) == 3


def test_a_question_of_four_hops_leaves_turns_for_a_second_search_at_each(tmp_path: Path) -> None:
    hops = {"Ann": "alpha", "Bob": "beta", "Cat": "gamma", "Dan": "delta"}
    shown: list[dict[str, object]] = []
    for title, word in hops.items():
        # Found by its title alone is only the first of them.
        texts = [f"{title} {title} {n}" for n in range(3)] + [f"{title} knows {word} words."]
        shown += [
            {"title": title, "paragraph_text": text, "is_supporting": word in text}
            for text in texts
        ]
    question = f"Who knows {' '.join(hops.values())}?"
    row = {"id": "4hop__1", "question": question, "answer": "Eve"}
    path = write_lines(tmp_path / "m.jsonl", [{**row, "paragraphs": shown}])
    kit = SEARCH.make(SearchOptions(questions=Path(path), form="musique", k=1))
    (task,) = load_questions(path, "musique").rows
    model = PlayerModel(
        player=kit.gold or pytest.fail("no gold player"),
        task=Task(id="t", messages=(), fields=task),
        random=Random(0),
    )
    agent = Agent(model, tools=kit.tools, reward=kit.reward, max_turns=kit.max_turns)
    (played,) = agent.run_sync([task]).trajectories
    assert (played.reward, len(played.turns)) == (1.0, 9)


@pytest.mark.parametrize(
    ("form", "text", "message"),
    [
        ("squad", '{"data": [\n{]}', r"x\.json:2 is not JSON"),
        ("squad", '{"data": [{"title": "A"}]}', r"x\.json: data\.0\.paragraphs: Field required"),
        ("hotpotqa", '{"a": 1}', "must hold a list of questions, got a dict"),
        ("2wiki", '[{"_id": "1"}]', r"x\.json, question 1: question: Field required"),
        ("triviaqa", "[]", r"x\.json: the whole: "),
        ("nq-open", '{"question": "a", "answer": ["b"]}\n{"question": 5}', r"x\.json:2: "),
        ("nq-open", '{"question": "a", "answer": [" "]}', r"x\.json:1 has no answer"),
        ("musique", "\n\nnope", r"x\.json:3 is not JSON"),
        ("squad", "[" * 100_000, r"x\.json can't be read: it is nested too deeply"),
        ("squad", "1" * 5000, r"x\.json can't be read: .*digits"),
        ("squad", '{"data": []}', "holds no question that has an answer"),
    ],
)
def test_a_broken_file_is_named_with_its_place(
    tmp_path: Path, form: str, text: str, message: str
) -> None:
    path = tmp_path / "x.json"
    path.write_text(text)
    with pytest.raises(FormatError, match=message):
        load_questions(str(path), form)


def test_a_file_of_another_form_names_the_forms_and_the_place_of_ones_own(tmp_path: Path) -> None:
    path = tmp_path / "mine.jsonl"
    path.write_text('{"question": "Who barks?", "answer": "dogs"}\n')
    with pytest.raises(FormatError) as refused:
        load_questions(str(path), "nq-open")
    first, _, rest = str(refused.value).partition(". It was read as the form 'nq-open': ")
    assert first.startswith(f"{path}:1")
    assert "one of squad, nq-open, hotpotqa, triviaqa, 2wiki, musique, name it in `form`" in rest
    assert rest.endswith("are no `questions`, but `tasks` of a [[source]]")


def test_an_unknown_form_and_a_missing_file() -> None:
    with pytest.raises(ConfigError, match="Did you mean 'squad'"):
        load_questions("x.json", "sqaud")
    with pytest.raises(ConfigError, match="there is no file"):
        load_questions("nowhere.json", "squad")


def test_no_answer_is_in_both_halves_whatever_the_order() -> None:
    rows = [
        {"id": str(n), "question": "?", "answer": [f"the A{n % 97}", f"b{n % 997}"], "support": []}
        for n in range(2000)
    ]
    train, held_out = split_rows(rows)
    answers = [
        {normalize_answer(a) for row in half for a in row["answer"]} for half in (train, held_out)
    ]
    assert train
    assert 50 < len(held_out) < 600
    assert not answers[0] & answers[1]
    again, _ = split_rows(reversed(rows))
    assert {row["id"] for row in again} == {row["id"] for row in train}
