"""Reading a completion back into a message. Total: whatever the tokens, a message comes out."""

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from agentfly.chat.formats import CallFormat, Reading
from agentfly.chat.reasoning import Opened, split_reasoning, token_span
from agentfly.types import Message, Parsed

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class CompletionReader:
    """Takes a completion apart: end token, stop strings, reasoning, calls, what is said."""

    decode: Callable[[Sequence[int]], str]
    call_format: CallFormat
    ends: tuple[tuple[int, ...], ...]
    """Tokens with which a turn ends, the longest sequence first."""
    spelled_ends: tuple[str, ...]
    opened: Opened

    def read(self, ids: Sequence[int]) -> Parsed:
        """Read a completion's tokens."""
        ids = self.without_end(ids)
        text = self._up_to_stop(self.decode(ids))
        thought = split_reasoning(text, opened=self.opened)
        rest = text[thought.end :].lstrip("\n") if thought.end else text
        message, spans = self._message(rest, thought.text)
        ranges = [(0, thought.end)] if thought.end else spans
        return Parsed(message=message, reasoning_spans=self._token_spans(ids, ranges))

    def without_end(self, ids: Sequence[int]) -> Sequence[int]:
        """Take off the end token, if it was sampled, and what belongs to it."""
        for end in self.ends:
            if tuple(ids[-len(end) :]) == end:
                return ids[: -len(end)]
        return ids

    def _up_to_stop(self, text: str) -> str:
        """Cut the text behind the format's first stop string, and before a spelled-out end."""
        stops = [(text.find(stop), len(stop)) for stop in self.call_format.stop_strings]
        stops += [(text.find(end), 0) for end in self.spelled_ends]
        found = [(position, length) for position, length in stops if position >= 0]
        return text[: sum(min(found))] if found else text

    def _message(
        self, text: str, reasoning: str | None
    ) -> tuple[Message, Sequence[tuple[int, int]]]:
        try:
            reading = self.call_format.read(text)
            message = Message(
                role="assistant",
                content=reading.content,
                reasoning=_together(reasoning, reading),
                tool_calls=reading.calls,
            )
        except Exception:  # noqa: BLE001 - a user's own reader may do anything
            _log.exception("the call format %r failed to read a completion", self.call_format.name)
            return Message(role="assistant", content=text, reasoning=reasoning), ()
        return message, reading.reasoning_spans

    def _token_spans(
        self, ids: Sequence[int], ranges: Sequence[tuple[int, int]]
    ) -> tuple[tuple[int, int], ...]:
        spans = (token_span(self.decode, ids, start, end) for start, end in ranges)
        return tuple(span for span in spans if span[0] < span[1])


def _together(reasoning: str | None, reading: Reading) -> str | None:
    parts = [part for part in (reasoning, reading.reasoning) if part is not None]
    return "\n".join(parts) if parts else None
