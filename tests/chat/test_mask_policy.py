"""A mask policy switches sampled tokens off, and can do nothing else."""

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentfly.chat import MASK_POLICIES, apply_mask, mask_policy, per_turn
from agentfly.errors import ConfigError
from agentfly.types import Completion, FinishReason, Message, ToolResult, ToolStatus, Turn


def turn(
    index: int,
    tokens: int = 3,
    *,
    thought: tuple[tuple[int, int], ...] = (),
    statuses: Sequence[ToolStatus] = (),
    invalid: bool = False,
) -> Turn:
    return Turn(
        index=index,
        context_ids=(7, 7, 7, 7),
        completion=Completion(
            token_ids=tuple(range(tokens)),
            logprobs=(-1.0,) * tokens,
            versions=((0, tokens),) if tokens else (),
            finish_reason=FinishReason.STOP,
        ),
        message=Message(role="assistant"),
        temperature=1.0,
        results=tuple(ToolResult(observation="", status=status) for status in statuses),
        reasoning_spans=thought,
        invalid=invalid,
    )


TURNS = (
    turn(0, 4, thought=((0, 2),), statuses=[ToolStatus.OK, ToolStatus.MALFORMED]),
    turn(1, 2, statuses=[ToolStatus.ERROR, ToolStatus.TIMEOUT]),
    turn(2, 3, thought=((0, 1), (2, 3))),
)
ON, OFF = True, False


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("all_sampled", ((ON,) * 4, (ON,) * 2, (ON,) * 3)),
        ("no_reasoning", ((OFF, OFF, ON, ON), (ON, ON), (OFF, ON, OFF))),
        ("last_turn_only", ((OFF,) * 4, (OFF,) * 2, (ON,) * 3)),
        # A tool that failed was still called well; the last turn has no call that is invalid.
        ("valid_calls_only", ((OFF,) * 4, (ON,) * 2, (ON,) * 3)),
    ],
)
def test_policies_by_hand(name: str, expected: tuple[tuple[bool, ...], ...]) -> None:
    assert mask_policy(name)(TURNS) == expected


def test_an_action_in_text_that_was_refused_is_no_valid_call() -> None:
    turns = [turn(0, 2), turn(1, 3, invalid=True)]
    assert mask_policy("valid_calls_only")(turns) == ((ON,) * 2, (OFF,) * 3)


def test_a_function_over_turns_or_over_one_turn() -> None:
    over_all = mask_policy(lambda turns: [turn.index != 1 for turn in turns])
    over_one = mask_policy(per_turn(lambda turn: [i > 0 for i in range(len(turn.results))] or True))
    assert over_all(TURNS) == ((ON,) * 4, (OFF,) * 2, (ON,) * 3)
    assert over_one(TURNS[1:]) == ((OFF, ON), (ON,) * 3)


def test_a_turn_without_token_ids_has_nothing_to_mask() -> None:
    spoken = Turn(
        index=0,
        context_ids=(),
        completion=None,
        message=Message(role="assistant", content="text"),
        temperature=1.0,
    )
    for name in MASK_POLICIES:
        assert mask_policy(name)([spoken]) == ((),)


@pytest.mark.parametrize(
    ("policy", "said"),
    [
        (lambda turns: [True], "one entry for each of the 3 turns, got list of 1"),
        (lambda turns: True, "one entry for each of the 3 turns, got bool"),
        (lambda turns: [[True] * 8] * 3, "turn 0 has 4 sampled tokens, but the mask policy gave 8"),
        (lambda turns: [1, 1, 1], "a bool, or a list of bools, for a turn; got int"),
        (lambda turns: [[1, 0, 1, 1], True, True], "got list of 4 for turn 0"),
        (lambda turns: ["1111", True, True], "got str of 4 for turn 0"),
    ],
)
def test_what_is_no_mask_is_refused(policy: object, said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        mask_policy(policy)(TURNS)  # type: ignore[arg-type]


def test_an_unknown_name_is_answered_with_the_nearest() -> None:
    with pytest.raises(ConfigError, match="Did you mean 'no_reasoning'"):
        mask_policy("no_reasonning")
    with pytest.raises(ConfigError, match="a name or a function over turns, got 3"):
        mask_policy(3)  # type: ignore[arg-type]


@given(st.lists(st.integers(min_value=0, max_value=5), max_size=5), st.data())
def test_no_policy_reaches_beyond_the_sampled_tokens(
    lengths: list[int], data: st.DataObject
) -> None:
    turns = [turn(i, length) for i, length in enumerate(lengths)]
    entry = st.one_of(st.booleans(), st.lists(st.booleans(), max_size=6))
    made = data.draw(st.lists(entry, max_size=6))
    try:
        kept = apply_mask(lambda _: made, turns)
    except ConfigError:
        return
    assert [len(mask) for mask in kept] == lengths
