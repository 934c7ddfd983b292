"""Filters of chains: each condition alone, and together."""

from typing import Any

import pytest
from tests.observe.finished_groups import chain, group, turn

from agentfly.errors import ConfigError
from agentfly.observe.chain_filter import ChainFilter, ChainRow, sort_rows
from agentfly.types import StopReason, ToolStatus, Trajectory

CHAINS = group(
    "6*7",
    [
        chain(0.0, turn(ToolStatus.OK, text="Let me SEE"), stop=StopReason.TURN_LIMIT),
        chain(0.5, turn(text="said")),
        chain(1.0, turn(ToolStatus.UNKNOWN_TOOL), turn(index=1, text="forty-two")),
        chain(None, stop=StopReason.ENV_CRASHED, error="EnvError: the disk burned"),
    ],
).members


@pytest.mark.parametrize(
    ("conditions", "expected"),
    [
        ({}, [0, 1, 2, 3]),
        ({"min_reward": 0.5}, [1, 2]),
        ({"max_reward": 0.5}, [0, 1]),
        ({"min_reward": 0.25, "max_reward": 0.75}, [1]),
        ({"stop": "turn_limit"}, [0]),
        ({"tool": "calculator"}, [0, 2]),
        ({"tool": "calc"}, []),
        ({"text": "let me see"}, [0]),
        ({"text": "WHAT IS 6*7"}, [0, 1, 2, 3]),
        ({"text": '"expression": "6*7"'}, [0, 2]),
        ({"text": "burned"}, [3]),
        ({"text": "forty", "max_reward": 0.5}, []),
    ],
)
def test_conditions(conditions: dict[str, object], expected: list[int]) -> None:
    wanted = ChainFilter.read(**conditions)  # type: ignore[arg-type]
    assert [index for index, one in enumerate(CHAINS) if wanted.matches(one)] == expected


def test_an_unknown_stop_reason_is_answered_with_the_nearest() -> None:
    with pytest.raises(ConfigError, match="Did you mean 'turn_limit'"):
        ChainFilter.read(stop="turn_limits")


def test_a_row_counts_turns_calls_and_sampled_tokens() -> None:
    one: Trajectory = CHAINS[2]
    row = ChainRow.of(3, one, question="What is 6*7?")
    assert (row.turns, row.calls, row.tokens, row.reward) == (2, 1, 8, 1.0)


def test_the_filters_of_the_page_are_there_too() -> None:
    failed = chain(None, stop=StopReason.ENV_CRASHED, error="EnvError: gone")
    wrong = chain(0.5, turn(ToolStatus.ERROR))
    chains = group("6*7", [chain(1.0, turn(ToolStatus.OK)), wrong, failed]).members

    def found(**conditions: Any) -> list[int]:
        wanted = ChainFilter.read(**conditions)
        return [index for index, one in enumerate(chains) if wanted.matches(one)]

    assert found(unscored=True) == found(cause="EnvError") == [2]
    assert found(failing=True) == found(failing=True, tool="calculator") == [1]
    assert found(failing=True, tool="other") == found(cause="EngineError") == found(task="8") == []
    assert found(task="WHAT IS 6") == found(group="6*7/0") == [0, 1, 2]


def test_rows_are_sorted_with_unscored_ones_last() -> None:
    chains = group("t", [chain(None, stop=StopReason.CANCELLED), chain(0.5), chain(1.0)]).members
    rows = [ChainRow.of(n, one, question="") for n, one in enumerate(chains)]
    assert [row.number for row in sort_rows(rows, "reward")] == [1, 2, 0]
    assert [row.number for row in sort_rows(rows, "-reward")] == [2, 1, 0]
    with pytest.raises(ConfigError, match="Did you mean 'reward'"):
        sort_rows(rows, "rewards")
