"""The event log: events of chains, written to a file as they happen."""

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import TracebackType
from typing import Any, Self, get_args

from agentfly.errors import FormatError
from agentfly.observe.trajectory_file import FORMAT_VERSION, Decoder
from agentfly.runtime.journal import Journal, read_records
from agentfly.types import Event, TokenSampled

KIND = "event"


@dataclass(frozen=True, slots=True, kw_only=True)
class LoggedEvent:
    """An event with the time at which it was logged."""

    time: float
    """Unix time in seconds."""
    event: Event


class EventLog:
    """Appends events to a file; pass it to a run as `on_event`.

    Single tokens are left out unless `tokens` is true: the trajectories contain them. Each
    line reaches the operating system before the call returns.

        with EventLog("runs/demo/events.jsonl") as log:
            await agent.run(rows, on_event=log)
    """

    def __init__(
        self, path: str | Path, *, tokens: bool = False, now: Callable[[], float] = time.time
    ) -> None:
        self._journal = Journal(path, kind=KIND, version=FORMAT_VERSION)
        self._tokens = tokens
        self._now = now

    def __call__(self, event: Event) -> None:
        """Append one event."""
        if isinstance(event, TokenSampled) and not self._tokens:
            return
        name = type(event).__name__
        self._journal.append({"time": self._now(), "type": name, "event": event})

    def close(self) -> None:
        """Sync the file and release its lock. Closing twice does nothing."""
        self._journal.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()


def read_events(path: str | Path) -> Iterator[LoggedEvent]:
    """Yield the events of a file in logged order."""
    for number, record in read_records(path, kind=KIND, version=FORMAT_VERSION):
        where = f"{path}:{number}"
        name = record.get("type")
        if name not in _TYPES:
            raise FormatError(f"{where}: unknown event {name!r}. Known: {', '.join(_TYPES)}")
        event = _decoder(name).decode(record["event"], where=where)
        yield LoggedEvent(time=record["time"], event=event)


_TYPES: dict[str, type[Any]] = {of.__name__: of for of in get_args(Event)}


@cache
def _decoder(name: str) -> Decoder[Any]:
    return Decoder(_TYPES[name])
