"""Filters of chains: each condition alone, and together."""

import pytest
from tests.observe.finished_groups import chain, group, turn

from agentfly.errors import ConfigError
from agentfly.observe.chain_filter import ChainFilter, ChainRow
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
