import itertools
import json
import math
import time
from types import MappingProxyType
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentfly.errors import ConfigError, FormatError
from agentfly.observe.trajectory_file import decode_trajectory, encode_trajectory
from agentfly.runtime.journal import plain
from agentfly.types import (
    Completion,
    FinishReason,
    Image,
    Message,
    Score,
    Span,
    SpanKind,
    StopReason,
    Task,
    TokenStream,
    ToolCall,
    ToolResult,
    ToolSpec,
    ToolStatus,
    Trajectory,
    Turn,
)


def is_sayable(text: str) -> bool:
    """JSON can't say a high surrogate right before a low one: that is how it spells a character."""
    return not any(
        "\ud800" <= a <= "\udbff" and "\udc00" <= b <= "\udfff" for a, b in itertools.pairwise(text)
    )


texts = st.text(st.characters(), max_size=8).filter(is_sayable)
names = st.text(min_size=1, max_size=4)
floats = st.floats(allow_nan=False, allow_infinity=False)
maybe_float = st.none() | floats
json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=5,
)
json_objects = st.dictionaries(texts, json_values, max_size=3)
images = st.lists(st.builds(Image, data=st.binary(max_size=9), media_type=texts), max_size=2)
image_tuples = images.map(tuple)
calls = st.builds(
    ToolCall,
    id=texts,
    name=texts,
    arguments=texts,
    problem=st.none() | texts,
    repaired=st.booleans(),
)
spoken = st.builds(
    Message,
    role=st.just("assistant"),
    content=texts,
    reasoning=st.none() | texts,
    tool_calls=st.lists(calls, max_size=2).map(tuple),
)
replies = st.builds(
    Message,
    role=st.just("tool"),
    content=texts,
    tool_call_id=st.none() | texts,
    name=st.none() | texts,
    images=image_tuples,
)
results = st.builds(
    ToolResult,
    observation=texts,
    status=st.sampled_from(ToolStatus),
    info=json_objects,
    images=image_tuples,
    reward=maybe_float,
    ends_chain=st.booleans(),
    repaired=st.booleans(),
)


@st.composite
def completions(draw: st.DrawFn) -> Completion:
    runs = draw(st.lists(st.tuples(st.integers(0, 9), st.integers(1, 3)), max_size=3))
    count = sum(length for _, length in runs)
    return Completion(
        token_ids=tuple(draw(st.lists(st.integers(0), min_size=count, max_size=count))),
        logprobs=tuple(draw(st.lists(floats, min_size=count, max_size=count))),
        versions=tuple(runs),
        finish_reason=draw(st.sampled_from(FinishReason)),
    )


@st.composite
def turns(draw: st.DrawFn) -> Turn:
    completion = draw(st.none() | completions())
    return Turn(
        index=draw(st.integers(0, 9)),
        context_ids=tuple(draw(st.lists(st.integers(0), max_size=3))) if completion else (),
        completion=completion,
        message=draw(spoken),
        temperature=draw(floats),
        results=tuple(draw(st.lists(results, max_size=2))),
        replies=tuple(draw(st.lists(replies, max_size=2))),
        reasoning_spans=tuple(draw(st.lists(st.tuples(st.integers(), st.integers()), max_size=2))),
        reward=draw(maybe_float),
        state_key=draw(st.none() | texts),
        info=draw(json_objects),
        invalid=draw(st.booleans()),
    )


@st.composite
def trajectories(draw: st.DrawFn) -> Trajectory:
    stop = draw(st.sampled_from(StopReason))
    spans = st.builds(
        Span,
        kind=st.sampled_from(SpanKind),
        name=texts,
        turn=st.none() | st.integers(0, 9),
        start=floats,
        end=floats,
    )
    streams = st.lists(turns(), min_size=1, max_size=2).map(
        lambda some: TokenStream(turns=tuple(some))
    )
    talk = tuple(draw(st.lists(streams, max_size=2)))
    length = sum(len(stream.turns) for stream in talk)
    scores = st.builds(
        Score,
        value=floats,
        parts=st.dictionaries(texts, floats, max_size=2),
        per_turn=st.none() | st.lists(floats, min_size=length, max_size=length).map(tuple),
    )
    specs = st.builds(ToolSpec, name=texts, description=texts, parameters=json_objects)
    return Trajectory(
        task=draw(
            st.builds(
                Task,
                id=names,
                messages=st.lists(replies, max_size=2).map(tuple),
                fields=json_objects,
                source=texts,
            )
        ),
        group_id=draw(texts),
        chain_id=draw(texts),
        messages=tuple(draw(st.lists(replies, max_size=2))),
        tools=tuple(draw(st.lists(specs, max_size=2))),
        streams=talk,
        stop=stop,
        score=None if stop is StopReason.REWARD_FAILED else draw(st.none() | scores),
        error=draw(texts) if stop.verdict.failure else None,
        spans=tuple(draw(st.lists(spans, max_size=2))),
        attempt=draw(st.integers(0, 3)),
        metadata=draw(json_objects),
    )


def as_json(trajectory: Trajectory) -> dict[str, Any]:
    encoded: dict[str, Any] = json.loads(json.dumps(encode_trajectory(trajectory), default=plain))
    return encoded


def through_text(trajectory: Trajectory) -> Trajectory:
    return decode_trajectory(as_json(trajectory), where="here")


@settings(max_examples=60)
@given(trajectories())
def test_what_is_read_equals_what_was_written(trajectory: Trajectory) -> None:
    read = through_text(trajectory)
    assert read == trajectory
    # Enums equal their text, and 1 equals 1.0 and True: their spelling tells them apart.
    assert repr(read) == repr(trajectory)


def chain(**changes: Any) -> Trajectory:
    defaults: dict[str, Any] = {
        "task": Task(id="sum", messages=()),
        "group_id": "sum/0",
        "chain_id": "sum/0/1",
        "messages": (),
        "stop": StopReason.ANSWERED,
    }
    return Trajectory(**{**defaults, **changes})


def test_the_form_on_disk() -> None:
    turn = Turn(
        index=0,
        context_ids=(1, 15),
        completion=Completion(
            token_ids=(40, 2),
            logprobs=(-0.1, -2.5),
            versions=((3, 2),),
            finish_reason=FinishReason.STOP,
        ),
        message=Message(role="assistant", content="4"),
        temperature=0.7,
        results=(ToolResult(observation="a picture", images=(Image(data=b"\x00\xff"),)),),
    )
    encoded = as_json(chain(streams=(TokenStream(turns=(turn,)),)))
    assert encoded["stop"] == "answered"
    [on_disk] = encoded["streams"][0]["turns"]
    assert on_disk["completion"] == {
        "token_ids": [40, 2],
        "logprobs": [-0.1, -2.5],
        "versions": [[3, 2]],
        "finish_reason": "stop",
    }
    assert on_disk["results"][0]["images"] == [{"data": "AP8=", "media_type": "image/png"}]


def test_nan_and_infinity_survive() -> None:
    read = through_text(chain(metadata={"values": [math.inf, -math.inf, math.nan]}))
    assert repr(read.metadata) == "{'values': [inf, -inf, nan]}"


def test_tuples_among_a_users_values_become_lists() -> None:
    assert through_text(chain(metadata={"pair": (1, 2)})).metadata == {"pair": [1, 2]}


@pytest.mark.parametrize(
    ("value", "where"),
    [
        ({1, 2}, r"chain 'sum/0/1', metadata\['a'\]\[0\] can't be saved: got a set"),
        ({"b": {3: "x"}}, r"a key of chain 'sum/0/1', metadata\['a'\]\[0\]\['b'\] .* got a int"),
        (object(), r"metadata\['a'\]\[0\] can't be saved: got a object, expected a JSON value"),
    ],
)
def test_what_json_cannot_hold_is_refused_by_name(value: object, where: str) -> None:
    with pytest.raises(ConfigError, match=where):
        encode_trajectory(chain(metadata={"a": [value]}))


def test_values_of_tasks_tools_and_results_are_looked_at() -> None:
    def turn(result: ToolResult) -> Turn:
        message = Message(role="assistant")
        return Turn(
            index=2,
            context_ids=(),
            completion=None,
            message=message,
            temperature=1.0,
            results=(result,),
        )

    foreign: Any = {"x": b"bytes"}
    result = ToolResult(observation="", info=foreign)
    wrong = {
        "task.fields": chain(task=Task(id="a", messages=(), fields=foreign)),
        "tool 'look' parameters": chain(
            tools=(ToolSpec(name="look", description="", parameters=foreign),)
        ),
        "turn 2 results.0..info": chain(streams=(TokenStream(turns=(turn(result),)),)),
    }
    for where, trajectory in wrong.items():
        with pytest.raises(ConfigError, match=rf"{where}\['x'\] can't be saved: got a bytes"):
            encode_trajectory(trajectory)


def test_a_field_of_the_wrong_type_is_refused_before_it_is_written() -> None:
    lies: Any = object()
    with pytest.raises(ConfigError, match="a object can't be saved: expected text, a number"):
        as_json(chain(attempt=lies))


def test_any_mapping_may_hold_a_users_values() -> None:
    frozen = MappingProxyType({"a": MappingProxyType({"b": 1})})
    assert through_text(chain(metadata=frozen)).metadata == {"a": {"b": 1}}


def test_broken_fields_are_named() -> None:
    encoded = as_json(chain(spans=()))
    encoded["attempt"] = "many"
    encoded["color"] = "red"
    del encoded["chain_id"]
    with pytest.raises(FormatError) as caught:
        decode_trajectory(encoded, where="step_3.jsonl:7")
    said = str(caught.value)
    assert said.startswith("step_3.jsonl:7: ")
    assert all(field in said for field in ("attempt: ", "color: ", "chain_id: "))


def test_impossible_contents_are_a_format_error() -> None:
    encoded = as_json(chain())
    encoded["error"] = "EnvError: but it answered"
    with pytest.raises(FormatError, match="carries no error"):
        decode_trajectory(encoded, where="step_3.jsonl:7")


def test_thousands_of_turns_a_second() -> None:
    ids = tuple(range(100_000, 100_200))
    completion = Completion(
        token_ids=ids,
        logprobs=tuple(-1 / n for n in ids),
        versions=((0, len(ids)),),
        finish_reason=FinishReason.STOP,
    )
    some = tuple(
        Turn(
            index=index,
            context_ids=ids[:60],
            completion=completion,
            message=Message(role="assistant", content="word " * 40),
            temperature=1.0,
            results=(ToolResult(observation="seen " * 40),),
        )
        for index in range(8)
    )
    trajectory = chain(streams=(TokenStream(turns=some),))
    through_text(trajectory)
    started = time.process_time()
    for _ in range(40):
        through_text(trajectory)
    seconds = time.process_time() - started
    assert 40 * 8 / seconds > 300, "about 2,000 turns a second, both ways, on one core"
