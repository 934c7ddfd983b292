"""Boundary objects can't be built wrong."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

from agentfly.errors import ConfigError
from agentfly.types import (
    Completion,
    FinishReason,
    Group,
    Message,
    Sample,
    SamplingParams,
    Score,
    Seed,
    Step,
    StopReason,
    Task,
    TokenStream,
    ToolCall,
    ToolResult,
    Trajectory,
    Turn,
)

TASK = Task.from_row({"question": "Why?"})


def completion(ids: tuple[int, ...], **changes: object) -> Completion:
    fields: dict[str, object] = {
        "token_ids": ids,
        "logprobs": (-1.0,) * len(ids),
        "versions": ((0, len(ids)),) if ids else (),
        "finish_reason": FinishReason.STOP,
    }
    return Completion(**(fields | changes))  # type: ignore[arg-type]


def turn(index: int, context: tuple[int, ...], sampled: tuple[int, ...]) -> Turn:
    said = Message(role="assistant", content="so")
    return Turn(
        index=index,
        context_ids=context,
        completion=completion(sampled),
        message=said,
        temperature=1.0,
    )


def trajectory(**changes: object) -> Trajectory:
    fields: dict[str, object] = {
        "task": TASK,
        "group_id": "g",
        "chain_id": "g/0",
        "messages": TASK.messages,
        "stop": StopReason.ANSWERED,
    }
    return Trajectory(**(fields | changes))  # type: ignore[arg-type]


def sample(**changes: object) -> Sample:
    fields: dict[str, object] = {
        "token_ids": (1, 2),
        "mask": (False, True),
        "logprobs": (0.0, -1.0),
        "versions": (-1, 0),
        "turn_index": (0, 0),
        "temperature": 1.0,
        "chain_id": "g/0",
        "group_id": "g",
    }
    return Sample(**(fields | changes))  # type: ignore[arg-type]


FLAGS = [(Step, "done"), (Step, "invalid"), (ToolResult, "ends_chain")]


@pytest.mark.parametrize(
    ("build", "words"),
    [
        (lambda: completion((1, 2), logprobs=(-1.0,)), "2 tokens and 1 logprobs"),
        (lambda: completion((1, 2), versions=((0, 1),)), "2 tokens and versions for 1"),
        (lambda: completion((1,), versions=((0, 2), (1, -1))), "at least one token"),
        (lambda: completion((1,), logprobs=(-math.inf,)), "finite"),
        (lambda: Score(value=math.nan), "finite: got nan for value"),
        (lambda: Score(value=1.0, parts={"style": math.inf}), "finite: got inf for style"),
        (lambda: Score(value=1.0, per_turn=(0.0, math.nan)), r"nan for per_turn\[1\]"),
        (lambda: SamplingParams(temperature=-1), "temperature must be at least 0, got -1"),
        (lambda: SamplingParams(top_p=0.0), "top_p must be in"),
        (lambda: SamplingParams(stop=("",)), "stop must be a tuple of non-empty strings"),
        (lambda: SamplingParams(stop="ok"), "stop must be a tuple"),  # type: ignore[arg-type]
        (lambda: Step(observation="", reward=math.nan), "reward of a step must be a finite"),
        (lambda: Step(observation="", reward="1"), "got '1'"),  # type: ignore[arg-type]
        (lambda: ToolResult(observation="", reward=math.inf), "reward of a tool's result"),
        (lambda: Message(role="robot"), "unknown role 'robot'"),  # type: ignore[arg-type]
        (lambda: Message(role="user", tool_call_id="x"), "only tool messages"),
        (
            lambda: Message(role="user", tool_calls=(ToolCall(id="", name="f", arguments=""),)),
            "only assistant messages",
        ),
        (lambda: Seed(-1), "64 bits"),
        (lambda: Task(id="", messages=()), "non-empty id"),
        (lambda: TokenStream(turns=()), "at least one turn"),
        (lambda: trajectory(error="boom"), "carries no error"),
        (lambda: trajectory(stop=StopReason.ENGINE_FAILED), "must say what failed"),
        (
            lambda: trajectory(stop=StopReason.REWARD_FAILED, error="boom", score=Score(value=0.0)),
            "unscored",
        ),
        (lambda: Group(id="g", task=TASK, members=(trajectory(),) * 2), "distinct"),
        (lambda: Group(id="h", task=TASK, members=(trajectory(),)), "don't belong"),
        (lambda: sample(mask=(True,)), "one length"),
        (lambda: sample(logprobs=(-0.5, -1.0)), "0 where the mask is off"),
        (
            lambda: Turn(
                index=0,
                context_ids=(1,),
                completion=None,
                message=Message(role="assistant"),
                temperature=1.0,
            ),
            "no context ids",
        ),
    ],
)
def test_what_is_wrong_can_not_be_built(build: Callable[[], object], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        build()


@pytest.mark.parametrize(("kind", "flag"), FLAGS)
def test_flags_of_numpy_and_torch_are_bools(kind: Callable[..., object], flag: str) -> None:
    for given in (True, np.bool_(True), np.array(True), torch.tensor(True)):
        assert getattr(kind(observation="", **{flag: given}), flag) is True


@pytest.mark.parametrize(("kind", "flag"), FLAGS)
@pytest.mark.parametrize("given", [1, 0.0, None, "no", np.int64(1), np.array([True])])
def test_a_flag_that_is_only_truthy_is_refused(
    kind: Callable[..., object], flag: str, given: Any
) -> None:
    whose = "a step" if kind is Step else "a tool's result"
    with pytest.raises(TypeError, match=f"'{flag}' of {whose} must be True or False, got"):
        kind(observation="", **{flag: given})


def test_a_stream_is_its_turns_end_to_end() -> None:
    stream = TokenStream(turns=(turn(0, (1, 2), (40, 41)), turn(1, (9,), (50,))))
    assert stream.token_ids == (1, 2, 40, 41, 9, 50)
    assert stream.sampled == (False, False, True, True, False, True)
    assert stream.prompt_ids(0) == (1, 2)
    assert stream.prompt_ids(1) == (1, 2, 40, 41, 9)


def test_each_token_has_its_own_version() -> None:
    spanning = completion((5, 6, 7), versions=((3, 2), (4, 1)))
    assert list(spanning.version_of_each()) == [3, 3, 4]


def test_turns_come_in_the_order_they_were_taken_whatever_their_stream() -> None:
    streams = (
        TokenStream(turns=(turn(0, (1,), (2,)), turn(2, (3,), (4,)))),
        TokenStream(turns=(turn(1, (5,), (6,)),)),
    )
    assert [t.index for t in trajectory(streams=streams).turns] == [0, 1, 2]


def test_unscored_is_not_zero_and_is_not_trained() -> None:
    streams = (TokenStream(turns=(turn(0, (1,), (2,)),)),)
    assert trajectory(streams=streams).reward is None
    assert not trajectory(streams=streams).trainable
    assert trajectory(streams=streams, score=Score(value=0.0)).trainable


def test_the_table_of_stop_reasons_covers_all_and_never_trains_what_it_does_not_score() -> None:
    for reason in StopReason:
        verdict = reason.verdict
        assert not (verdict.failure and verdict.scored)
        assert verdict.scored or not verdict.trained
        assert verdict.failure or not verdict.infrastructure
    infrastructure = {reason for reason in StopReason if reason.verdict.infrastructure}
    assert infrastructure == {
        StopReason.ENV_CRASHED,
        StopReason.ENGINE_FAILED,
        StopReason.LEASE_TIMEOUT,
        StopReason.REWARD_FAILED,
        StopReason.STALLED,
    }


def test_a_task_is_known_by_its_contents_not_by_its_place_or_key_order() -> None:
    one = Task.from_row({"question": "Why?", "answer": 1})
    other = Task.from_row({"answer": 1, "question": "Why?"})
    assert one.id == other.id
    assert one.id != Task.from_row({"question": "Why?", "answer": 2}).id
    assert Task.from_row({"id": 17, "question": "Why?"}).id == "17"


@pytest.mark.parametrize(
    ("row", "words"),
    [
        ({"question": 3}, "`question` must be a string, got int"),
        ({"messages": "hello"}, "`messages` must be a list, got str"),
        ({"messages": [{"content": "hello"}]}, "a message is a dict such as"),
        ({"messages": [{"role": "user", "text": "hello"}]}, "unknown keys in a message: text"),
        ({"question": "Why?", "image": object()}, "must be JSON values"),
    ],
)
def test_a_bad_row_says_what_was_expected(row: dict[str, object], words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        Task.from_row(row)


def test_messages_pass_through_their_plain_form() -> None:
    call = ToolCall(id="call_0", name="add", arguments='{"a": 1}')
    said = Message(role="assistant", content="so", reasoning="hm", tool_calls=(call,))
    assert Message.from_dict(said.to_dict()) == said
    broken = Message(
        role="assistant", tool_calls=(ToolCall(id="c", name="add", arguments='{"a": '),)
    )
    assert Message.from_dict(broken.to_dict()) == broken


def test_the_seed_tree_depends_on_the_path_alone() -> None:
    root = Seed(7)
    assert root.child("task", "a", 3) == root.child("task").child("a").child(3)
    paths: list[tuple[str | int, ...]] = [
        ("task", 1),
        ("task", "1"),
        ("task", 2),
        ("chain", 1),
        (1, "task"),
    ]
    assert len({root.child(*path) for path in paths}) == len(paths)
    assert root.child("x").random().random() == root.child("x").random().random()
    draws = [root.child(i).uniform() for i in range(2000)]
    assert all(0 <= draw < 1 for draw in draws)
    assert abs(sum(draws) / len(draws) - 0.5) < 0.03
