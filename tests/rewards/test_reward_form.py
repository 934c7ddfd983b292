"""format_reward and length_reward."""

import re
from typing import Any

import pytest
from tests.rewards.reward_chains import score_of, turn_of, value_of

from agentfly.errors import ConfigError, RewardError
from agentfly.rewards import format_reward, length_reward
from agentfly.types import Message, ToolCall

THINK_ANSWER = format_reward(tags=["think", "answer"])


@pytest.mark.parametrize(
    ("said", "value"),
    [
        ("<think>a</think><answer>b</answer>", 1.0),
        ("so <think>a\nb</think> then <answer></answer>!", 1.0),
        ("<answer>b</answer><think>a</think>", 0.0),
        ("<think>a<answer>b</think></answer>", 0.0),
        ("<think>a</think><answer>b", 0.0),
        ("<think>a</think><answer>b</answer><answer>c</answer>", 0.0),
        ("<think>a</think></answer>b<answer>", 0.0),
        ("<Think>a</Think><answer>b</answer>", 0.0),
        ("", 0.0),
    ],
)
async def test_required_tags(said: str, value: float) -> None:
    assert await value_of(THINK_ANSWER, said) == value


@pytest.mark.parametrize(
    ("pattern", "said", "value"),
    [
        (r"Answer: \d+", " Answer: 42\n", 1.0),
        (r"Answer: \d+", "Answer: 42 or so", 0.0),
        (r"a.*z", "a\nz", 1.0),
        (re.compile(r"a.*z"), "a\nz", 0.0),
        (re.compile(r"YES|NO", re.IGNORECASE), "no", 1.0),
    ],
)
async def test_a_pattern_matches_the_whole(pattern: Any, said: str, value: float) -> None:
    assert await value_of(format_reward(pattern=pattern), said) == value


async def test_reasoning_that_was_set_apart_can_be_put_back() -> None:
    message = Message(role="assistant", content="<answer>4</answer>", reasoning="2+2")
    both = format_reward(tags=["think", "answer"], include_reasoning=True)
    assert (await score_of(both, [turn_of(0, message)])).value == 1.0
    assert (await score_of(THINK_ANSWER, [turn_of(0, message)])).value == 0.0


async def test_only_the_last_turn_is_looked_at() -> None:
    number = format_reward(pattern=r"\d+")
    assert (await score_of(number, ["words", "4"])).value == 1.0
    assert (await score_of(number, ["4", "words"])).value == 0.0
    assert (await score_of(number, [])).value == 0.0


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({}, "either a pattern or a list of tags"),
        ({"pattern": "a", "tags": ["a"]}, "either a pattern or a list of tags"),
        ({"tags": "answer"}, "list of different names, got 'answer'"),
        ({"tags": ["a", "a"]}, "list of different names"),
        ({"pattern": "(a"}, r"can't read the pattern '\(a'"),
    ],
)
def test_mistakes_of_format(wrong: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        format_reward(**wrong)


@pytest.mark.parametrize(
    ("tokens", "value"),
    [(0, 1.0), (100, 1.0), (101, 0.99), (150, 0.5), (175, 0.25), (200, 0.0), (500, 0.0)],
)
async def test_length_falls_in_a_straight_line(tokens: int, value: float) -> None:
    short = length_reward(full_until=100, zero_at=200)
    half, rest = tokens // 2, tokens - tokens // 2
    turns = [turn_of(i, "x", tokens=n) for i, n in enumerate((half, rest)) if n]
    assert (await score_of(short, turns)).value == pytest.approx(value)


async def test_characters_are_all_that_the_model_wrote() -> None:
    message = Message(
        role="assistant",
        content="abc",
        reasoning="defg",
        tool_calls=(ToolCall(id="1", name="add", arguments='{"a":1}'),),
    )
    by_characters = length_reward(full_until=0, zero_at=100, unit="characters")
    score = await score_of(by_characters, [turn_of(0, message), turn_of(1, "é")])
    assert score.value == pytest.approx(1 - (3 + 4 + 3 + 7 + 1) / 100)


async def test_tokens_that_are_not_there_can_not_be_counted() -> None:
    with pytest.raises(RewardError, match=r'turn 0 has no token ids.*unit="characters"'):
        await score_of(length_reward(full_until=1, zero_at=2), ["words"])


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"full_until": 5, "zero_at": 5}, "needs 0 <= full_until < zero_at"),
        ({"full_until": -1, "zero_at": 5}, "needs 0 <= full_until < zero_at"),
        ({"full_until": 1, "zero_at": 5, "unit": "words"}, "tokens, characters, got 'words'"),
    ],
)
def test_mistakes_of_length(wrong: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        length_reward(**wrong)
