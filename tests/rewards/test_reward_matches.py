"""exact_match and numeric_match."""

import pytest
from tests.rewards.reward_chains import chain_of, task_of, value_of

from agentfly.errors import ConfigError, RewardError
from agentfly.rewards import exact_match, numeric_match, qa_exact_match, qa_f1
from agentfly.rewards.reference_answers import marked_answer
from agentfly.testing import check_reward
from agentfly.types import Score


@pytest.mark.parametrize(
    ("said", "answer", "value"),
    [
        ("Paris", "Paris", 1.0),
        (" Paris\n", "Paris ", 1.0),
        ("paris", "Paris", 0.0),
        ("Paris.", "Paris", 0.0),
        ("42", 42, 1.0),
        ("Rome", ["Paris", "Rome"], 1.0),
        ("Oslo", ["Paris", "Rome"], 0.0),
        ("", "", 1.0),
    ],
)
async def test_exact_match(said: str, answer: object, value: float) -> None:
    assert await value_of(exact_match(), said, answer=answer) == value


async def test_built_in_rewards_keep_the_contract_of_rewards() -> None:
    chain = chain_of("42", task_of(answer=42))
    for made in (exact_match(), numeric_match(), qa_f1(), qa_exact_match()):
        assert await check_reward(made, chain) == Score(value=1.0)


async def test_the_field_and_the_name_can_be_chosen() -> None:
    capital = exact_match(field="capital", name="knows_capital")
    assert capital.name == "knows_capital"
    assert await value_of(capital, "Oslo", capital="Oslo", answer="no") == 1.0


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"anser": "4"}, "no field 'answer'. Did you mean 'anser'"),
        ({"answer": []}, "has no right answer: its field 'answer' is empty"),
        ({"answer": None}, "must hold a text, a number or a list of them, got NoneType"),
        ({"answer": {"text": "4"}}, "got dict"),
    ],
)
async def test_a_task_without_a_right_answer_is_an_error_not_a_zero(
    fields: dict[str, object], message: str
) -> None:
    for made in (exact_match(), numeric_match()):
        with pytest.raises(RewardError, match=message):
            await value_of(made, "4", **fields)


@pytest.mark.parametrize(
    ("said", "answer", "value"),
    [
        ("It is 42.", 42, 1.0),
        ("First 42, then 43.", 42, 0.0),
        (r"So \boxed{42}, as step 3 says.", 42, 1.0),
        (r"\boxed{1} or \boxed{\frac{1}{2}}", 0.5, 1.0),
        ("half of 84\n#### 42", 42, 1.0),
        ("#### 41 no, #### 42", 42, 1.0),
        ("$1,200", "24 * 50 = 1200. #### 1,200", 1.0),
        ("5", r"\boxed{5} by step 3", 1.0),
        ("50%", 0.5, 1.0),
        ("0.3333", "1/3", 0.0),
        ("0.33333333333", "1/3", 1.0),
        ("1,860,001", 1860000, 0.0),
        ("no number", 42, 0.0),
        ("", 42, 0.0),
        ("7", [6, "7"], 1.0),
    ],
)
async def test_numeric_match(said: str, answer: object, value: float) -> None:
    assert await value_of(numeric_match(), said, answer=answer) == value


async def test_tolerances() -> None:
    # |100 - 101| = 1: 1% of 100, a little less of 101.
    assert await value_of(numeric_match(abs_tol=1.0), "101", answer=100) == 1.0
    assert await value_of(numeric_match(abs_tol=0.99), "101", answer=100) == 0.0
    assert await value_of(numeric_match(rel_tol=0.01), "101", answer=100) == 1.0
    assert await value_of(numeric_match(rel_tol=0.0099), "101", answer=100) == 0.0
    assert await value_of(numeric_match(rel_tol=1e-3), "0.333", answer="1/3") == 1.0
    for wrong in (-1.0, float("nan"), float("inf")):
        with pytest.raises(ConfigError, match="tolerance"):
            numeric_match(rel_tol=wrong)


async def test_a_right_answer_without_a_number_is_an_error() -> None:
    with pytest.raises(RewardError, match="'answer' holds no number: 'many'"):
        await value_of(numeric_match(), "42", answer="many")


@pytest.mark.parametrize(
    ("text", "marked"),
    [
        ("plain", "plain"),
        ("a #### b", " b"),
        (r"\boxed{a{b}c} d", "a{b}c"),
        (r"\boxed{a} \boxed{b}", "b"),
        (r"\boxed{cut {off", "cut {off"),
        (r"\boxed{a} #### b", " b"),
    ],
)
def test_the_marked_part(text: str, marked: str) -> None:
    assert marked_answer(text) == marked
