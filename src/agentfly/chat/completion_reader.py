"""Parsing a completion's tokens into a message; never raises, for any tokens."""

import logging
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from agentfly.chat.formats import CallFormat, Reading
from agentfly.chat.reasoning import (
    OpensReasoning,
    Thought,
    mark_at_head,
    split_reasoning,
    token_spans,
)
from agentfly.chat.turn_probe import TurnMarks
from agentfly.types import Message, Parsed, ToolSpec

_log = logging.getLogger(__name__)

_MARKUP = re.compile(r"(?:\s|<[^<>]*+>|[\]}])*+")
_USUAL_MARKS = TurnMarks()
_NO_THOUGHT = Thought(text=None, end=0)


@dataclass(frozen=True, slots=True, kw_only=True)
class CompletionReader:
    """Takes a completion apart: end token, stop strings, reasoning, calls, what is said."""

    decode: Callable[[Sequence[int]], str]
    call_format: CallFormat
    ends: frozenset[int]
    """Tokens with which a turn ends."""
    spelled_ends: tuple[str, ...]
    opened: OpensReasoning
    marks: TurnMarks = _USUAL_MARKS
    lead: str = ""
    """The beginning of a call that the generation prompt has written already."""
    closings: tuple[str, ...] = ()
    """Texts that belong to the end token behind them, the longest first."""
    call_ends: Mapping[int, str] = field(default_factory=dict)
    """End tokens that close a call too, as `<|tools_suffix|>` does in Apertus, and their text."""
    _mark_at_head: re.Pattern[str] = field(init=False, repr=False, compare=False)
    """Matches completions that begin with a mark of reasoning."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "_mark_at_head", mark_at_head(self.marks.reasoning))

    def read(self, ids: Sequence[int], tools: Sequence[ToolSpec] = ()) -> Parsed:
        """Read a completion's tokens; the tools give types to arguments written as bare text."""
        sampled = self.without_end(ids)
        text = self.text(ids)
        thought = self._thought(text)
        answer = text[thought.end :].lstrip("\n") if thought.end else text
        reading = self._reading(answer, self.call_ends.get(ids[-1], "") if ids else "")
        message = Message(
            role="assistant",
            content=reading.content,
            reasoning=_together(thought.text, reading),
            tool_calls=self.call_format.typed(reading.calls, tools),
        )
        ranges = [(0, thought.end)] if thought.end else reading.reasoning_spans
        return Parsed(message=message, reasoning_spans=token_spans(self.decode, sampled, ranges))

    def text(self, ids: Sequence[int]) -> str:
        """Return what was sampled as text, without what ends the turn."""
        sampled = self.without_end(ids)
        text = self._up_to_stop(self.decode(sampled))
        if len(sampled) == len(ids):
            return text
        for closing in self.closings:
            if text.endswith(closing):
                return text.removesuffix(closing)
        return text

    def without_end(self, ids: Sequence[int]) -> Sequence[int]:
        """Take off the end token, if it was sampled."""
        return ids[:-1] if ids and ids[-1] in self.ends else ids

    def _up_to_stop(self, text: str) -> str:
        """Cut the text behind the format's first stop string, and before a spelled-out end."""
        if not self.call_format.stop_strings and not self.spelled_ends:
            return text
        stops = [(text.find(stop), len(stop)) for stop in self.call_format.stop_strings]
        stops += [(text.find(end), 0) for end in self.spelled_ends]
        found = [(position, length) for position, length in stops if position >= 0]
        return text[: sum(min(found))] if found else text

    def _thought(self, text: str) -> Thought:
        """Find the reasoning; a turn that ends with whole calls has closed it by calling."""
        if self.call_format.reads_reasoning:
            return _NO_THOUGHT
        if self.opened is OpensReasoning.NEVER and not self._mark_at_head.match(text):
            return _NO_THOUGHT
        thought = split_reasoning(text, opened=self.opened, marks=self.marks.reasoning)
        if thought.closed or not thought.text:
            return thought
        end = _start_of_last_calls(text, self._read(text))
        if end is None:
            return thought
        before = split_reasoning(text[:end], opened=self.opened, marks=self.marks.reasoning)
        return replace(before, text=before.text or None)

    def _reading(self, text: str, call_end: str) -> Reading:
        if call_end and (reading := self._reading(text + call_end, "")).calls:
            return reading
        opening, closing = self.marks.answer
        head = text.lstrip()
        if not opening or self.call_format.reads_reasoning or not head.startswith(opening):
            return self._read(self.lead + text if self.lead and text else text)
        said = head.removeprefix(opening)
        return self._read(said.rstrip().removesuffix(closing) if closing else said)

    def _read(self, text: str) -> Reading:
        try:
            reading = self.call_format.read(text)
            if type(reading.calls) is tuple:
                return reading
            return replace(reading, calls=tuple(reading.calls))
        except Exception:  # noqa: BLE001 - a user's own reader may do anything
            _log.exception("the call format %r failed to read a completion", self.call_format.name)
            return Reading(content=text)


def _start_of_last_calls(text: str, reading: Reading) -> int | None:
    """Return where the calls begin with which a text ends; None if it doesn't end with any."""
    if any(call.problem for call in reading.calls):
        return None
    start, end = None, len(text)
    for span in reversed(reading.call_spans):
        if not _MARKUP.fullmatch(text, span[1], end):
            break
        start = end = span[0]
    return start


def _together(reasoning: str | None, reading: Reading) -> str | None:
    if reasoning is None or reading.reasoning is None:
        return reading.reasoning if reasoning is None else reasoning
    return f"{reasoning}\n{reading.reasoning}"
