"""Worked examples whose call is copied from the question, found without a model."""

from typing import Any, Literal

import pytest

from agentfly import Agent, ToolError, reward, tool
from agentfly.agents.copied_call import MAX_CALLS, copied_arguments, find_copied_call
from agentfly.rewards import exact_match
from agentfly.types import Task, Trajectory

PRICES = {"red desk": 866, "blue lamp": 41}
called: list[str] = []


@tool
def price(product: str) -> int:
    """Look up a price."""
    called.append(product)
    if product not in PRICES:
        raise ToolError(f"There is no product {product!r}.")
    return PRICES[product]


@tool
def convert(amount: float, unit: Literal["cm", "inch"]) -> float:
    """Convert."""
    return amount * (2.5 if unit == "inch" else 0.4)


@tool
def total(amounts: list[int]) -> int:
    """Add."""
    return sum(amounts)


@reward
def right(final_response: str, answer: str) -> bool:
    """Return whether the answer is in the sentence."""
    return final_response == f"The answer is {answer}."


def task(question: str, answer: object) -> Task:
    return Task.from_row({"question": question, "answer": str(answer)})


async def found(used: Any, scored: Any, *tasks: Task) -> Trajectory | None:
    agent = Agent(tools=[used], reward=scored)
    return await find_copied_call(agent, tasks, used.spec, seed=0)


async def test_the_call_that_the_reward_accepts_is_found_in_the_first_task_that_has_one() -> None:
    unsolvable = task("How much is a sofa?", 1)
    chain = await found(price, right, unsolvable, task("How much is the red desk, please?", 866))
    assert chain is not None
    assert [call.arguments for turn in chain.turns for call in turn.message.tool_calls] == [
        '{"product": "red desk"}'
    ]
    assert chain.final_response == "The answer is 866."


async def test_a_reward_that_compares_the_whole_answer_gets_the_result_alone() -> None:
    chain = await found(price, exact_match(), task("How much is the blue lamp?", 41))
    assert chain is not None
    assert chain.final_response == "41"


async def test_numbers_and_choices_are_combined() -> None:
    chain = await found(convert, right, task("How many cm are 4.5 inch, or 2 lines?", 11.25))
    assert chain is not None
    (call,) = chain.turns[0].message.tool_calls
    assert call.arguments == '{"amount": 4.5, "unit": "inch"}'


async def test_none_is_found_where_no_piece_is_the_argument_and_calls_are_bounded() -> None:
    called.clear()
    question = " ".join(f"word{n}" for n in range(100))
    assert await found(price, right, task(question, 866)) is None
    assert len(called) == MAX_CALLS
    assert await found(total, right, task("What is 1 and 2?", 3)) is None


@pytest.mark.parametrize(
    ("question", "values"),
    [
        ("Is (part 7) here?", ["part 7", "7", "Is", "part", "here"]),
        ("", []),
    ],
)
def test_pieces_are_words_without_punctuation_those_with_digits_first(
    question: str, values: list[str]
) -> None:
    pieces = [arguments["product"] for arguments in copied_arguments(question, price.spec)]
    assert set(values) <= set(pieces)
    digits = [any(map(str.isdigit, piece)) for piece in pieces]
    assert digits == sorted(digits, reverse=True)
    assert not [piece for piece in pieces if piece.strip("?() ") != piece]
