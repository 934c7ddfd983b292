"""Options that have no effect are refused where they were changed."""

from typing import Any

import pytest
from pydantic import Field, ValidationError

from agentfly.environments import find_definition
from agentfly.environments.kit import EnvironmentOptions


class Drinks(EnvironmentOptions):
    hot: bool = False
    milk: str = "none"
    spices: tuple[str, ...] = Field(default_factory=lambda: ("salt",))


def test_options_that_were_changed_and_have_no_effect_are_named_together() -> None:
    rules = (
        (False, ("milk", "spices"), "for hot drinks, with hot = true"),
        (True, ("hot",), "for everything"),
    )
    Drinks(hot=True, milk="none", spices=("salt",)).refuse_without_effect(*rules)
    with pytest.raises(ValueError, match="milk has no effect") as refused:
        Drinks(milk="oat", spices=("mace",)).refuse_without_effect(*rules)
    assert str(refused.value) == (
        "milk has no effect here: it is for hot drinks, with hot = true; "
        "spices has no effect here: it is for hot drinks, with hot = true"
    )


FILE = {"tasks": "mbpp", "file": "x.jsonl"}
QUESTIONS = {"questions": "x.json"}


@pytest.mark.parametrize(
    ("name", "where", "key", "value", "words"),
    [
        ("code", FILE, "levels", 2, "for generated tasks: math and programs"),
        ("code", {}, "partial", False, "for tasks with hidden tests"),
        ("code", {"tasks": "gsm8k", "file": "x"}, "partial", False, "gsm8k is a number"),
        ("search", QUESTIONS, "people", 30, "for the generated world, without `questions`"),
        ("search", {"index": "notes"}, "hops", 1, "for the generated world"),
        ("search", QUESTIONS, "num_tasks", 5, "for the generated world"),
        ("search", {"eval_questions": "x"}, "num_eval_tasks", 5, "without `eval_questions`"),
        ("search", {"eval_questions": "x"}, "new_wordings", False, "without `eval_questions`"),
        ("search", {}, "cache", "a", "for the web, with an index such as web:serper"),
        ("search", {"index": "http://here"}, "allow_private", True, "for the web"),
        ("search", {}, "form", "musique", "for a file of `questions` or `eval_questions`"),
        ("search", {"index": "web:serper"}, "by", "dense", "for passages on this machine"),
        ("search", {"index": "http://here"}, "by", "hybrid", "a server or the web has its own"),
        ("search", {"tools": "retrieve"}, "k", 9, "for the tool `search`"),
        ("search", {"tools": "open_page"}, "snippet", 40, "for the tool `search`"),
        ("webshop", {}, "full", True, "for the official files, with `data`"),
        ("webshop", {}, "goals", "human", "for the official files, with `data`"),
        ("webshop", {"data": "x"}, "level", "easy", "for the generated catalog, without `data`"),
        ("alfworld", {}, "eval_split", "valid_unseen", "for the benchmark's own games"),
        ("alfworld", {}, "goal_text", "human", "for the benchmark's own games, with `data`"),
        ("alfworld", {"data": "x"}, "games", 5, "for generated games, without `data`"),
        ("alfworld", {"data": "x"}, "rooms", "floor_plans", "for generated games"),
        ("alfworld", {}, "penalty", 0.1, "for rewards of turns, with subgoals = true"),
        ("browser", {}, "rows", "x.jsonl", 'for site = "own"'),
        ("browser", {"site": "own"}, "level", "hard", 'for site = "office" or "webshop"'),
        ("scienceworld", {"actions": "text"}, "helpers", False, "for calls of tools"),
    ],
)
def test_an_option_without_effect_is_refused_and_its_default_is_not(
    name: str, where: dict[str, Any], key: str, value: object, words: str
) -> None:
    options: Any = find_definition(name).options
    with pytest.raises(ValidationError, match=f"{key} has no effect here: it is .*{words}"):
        options(**where, **{key: value})
    default = getattr(options(**where), key)
    assert options(**where, **{key: default}) == options(**where)


@pytest.mark.parametrize(
    ("name", "given"),
    [
        ("code", FILE | {"partial": False}),
        ("code", {"tasks": "programs", "levels": 3, "partial": False}),
        ("search", {"people": 30, "hops": 1, "num_tasks": 5, "by": "dense"}),
        ("search", {"eval_questions": "x", "form": "musique", "num_tasks": 5}),
        ("search", {"index": "web:serper", "cache": "a", "questions": "x", "form": "nq-open"}),
        ("search", {"index": "notes", "by": "hybrid"}),
        ("webshop", {"data": "x", "full": True, "goals": "human"}),
        ("webshop", {"level": "hard", "products": 50}),
        ("alfworld", {"data": "x", "eval_split": "valid_unseen", "goal_text": "human"}),
        ("scienceworld", {"actions": "text", "helpers": True}),
        ("scienceworld", {"helpers": False}),
        ("alfworld", {"games": 5, "size": "small", "subgoals": True, "penalty": 0.1}),
    ],
)
def test_options_with_an_effect_are_taken(name: str, given: dict[str, Any]) -> None:
    options: Any = find_definition(name).options
    made = options(**given)
    assert made == options(**made.model_dump()), "defaults that are written out are no mistake"
