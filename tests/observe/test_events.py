from pathlib import Path
from typing import get_args

import pytest

from agentfly.errors import FormatError
from agentfly.observe import EventLog, read_events
from agentfly.types import (
    ChainStarted,
    EnvObserved,
    Event,
    Image,
    Message,
    Observed,
    Rewarded,
    Score,
    Stopped,
    StopReason,
    TokenSampled,
    ToolCall,
    ToolCalled,
    ToolResult,
    ToolStatus,
    TurnRead,
)

CALL = ToolCall(id="1", name="look", arguments='{"at": "\ud800"}', repaired=True)
RESULT = ToolResult(
    observation="a cat",
    status=ToolStatus.BAD_ARGUMENTS,
    info={"tries": [1, 2.5, None]},
    images=(Image(data=b"\x00\xff"),),
)
TOKEN = TokenSampled(chain_id="t/0/0", turn=0, token_id=5, logprob=-0.1, text="a")
EVENTS: list[Event] = [
    ChainStarted(chain_id="t/0/0", turn=0, messages=(Message(role="user", content="hi"),)),
    TOKEN,
    TurnRead(chain_id="t/0/0", turn=0, message=Message(role="assistant", tool_calls=(CALL,))),
    ToolCalled(chain_id="t/0/0", turn=0, call=CALL),
    Observed(chain_id="t/0/0", turn=0, call=CALL, result=RESULT),
    EnvObserved(chain_id="t/0/0", turn=1, observation="a door"),
    Rewarded(chain_id="t/0/0", turn=1, score=Score(value=0.1, parts={"style": 0.5})),
    Stopped(chain_id="t/0/0", turn=1, stop=StopReason.TIME_LIMIT, error="too slow"),
]


def log_all(path: Path, *, tokens: bool) -> list[Event]:
    times = iter(range(100))
    with EventLog(path, tokens=tokens, now=lambda: float(next(times))) as log:
        for event in EVENTS:
            log(event)
    logged = list(read_events(path))
    assert [entry.time for entry in logged] == [float(n) for n in range(len(logged))]
    return [entry.event for entry in logged]


def test_every_kind_of_event_is_here() -> None:
    assert {type(event) for event in EVENTS} == set(get_args(Event))


def test_events_come_back_as_they_were(tmp_path: Path) -> None:
    read = log_all(tmp_path / "events.jsonl", tokens=True)
    assert repr(read) == repr(EVENTS)


def test_tokens_are_left_out_by_default(tmp_path: Path) -> None:
    read = log_all(tmp_path / "events.jsonl", tokens=False)
    assert read == [event for event in EVENTS if event is not TOKEN]


def test_an_unknown_event_is_named(tmp_path: Path) -> None:
    path = tmp_path / "events.jsonl"
    log_all(path, tokens=False)
    path.write_text(path.read_text().replace('"TurnRead"', '"TurnSung"'))
    with pytest.raises(FormatError, match=r"events\.jsonl:2: unknown event 'TurnSung'"):
        list(read_events(path))
