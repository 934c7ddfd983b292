"""Reading calls that are written in JSON, with the usual mistakes of models repaired.

Valid JSON is kept as it was emitted: `arguments` is a slice of the text, never serialized again.
Invalid JSON is repaired where its meaning is clear, and otherwise becomes a call with a problem.
JSON is read before the marks around it are searched for, so a closing tag inside a string does no
harm.
"""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace

from agentfly.chat.formats.call_format import CUT_OFF, unreadable
from agentfly.chat.formats.json_text import balanced_end, dump, scan_object
from agentfly.runtime.repair_json import repair_object
from agentfly.types import ToolCall

EXCERPT_LENGTH = 80
"""Maximum characters of an unreadable call that are quoted to the model."""

_BETWEEN_CALLS = re.compile(r"(?:[\s\],;]|\[(?=\s*+\{)|```\w*)*+")
_SPACE_OR_FENCE = re.compile(r"(?:\s|```\w*)*+")
_USUAL = {"name": ("name", "tool_name"), "arguments": ("arguments", "parameters")}


@dataclass(frozen=True, slots=True, kw_only=True)
class CallKeys:
    """Keys under which a format has the parts of a call."""

    name: str = "name"
    """Empty where the name itself is the key of the arguments, as in `{"search": {}}`."""
    arguments: str = "arguments"
    id: str = "id"
    wrapped: bool = False
    """Whether the call is wrapped as OpenAI does it: `{"type": "function", "function": {...}}`."""

    @property
    def example(self) -> str:
        """A call, for people and models to look at."""
        return (
            f'{{"{self.name}": "...", "{self.arguments}": {{...}}}}'
            if self.name
            else '{"...": {...}}'
        )


DEFAULT_KEYS = CallKeys()
PARAMETERS = CallKeys(arguments="parameters")


def write_call(call: ToolCall, *, keys: CallKeys = DEFAULT_KEYS) -> str:
    """Write `{"name": ..., "arguments": ...}`, the arguments word for word."""
    return f'{{"{keys.name}": {dump(call.name)}, "{keys.arguments}": {call.arguments}}}'


def call_from(members: Mapping[str, str], *, keys: CallKeys = DEFAULT_KEYS) -> ToolCall:
    """Read a call from the raw members of a JSON object.

    `keys` are where this format keeps the parts. The other usual keys, arguments in a string, and
    OpenAI's wrapping in `function` are understood and count as repaired.

    >>> call_from({"name": '"f"', "parameters": '"{}"'})
    ToolCall(id='', name='f', arguments='{}', problem=None, repaired=True)
    """
    if not keys.name and len(members) == 1:
        ((name, raw),) = members.items()
        return ToolCall(id="", name=name, arguments=_unwrapped(raw), repaired=False)
    wrapped = _wrapped(members)
    members = {**members, **wrapped} if wrapped else members
    name_key = _key_in(members, keys.name, "name")
    name = _string(members.get(name_key, ""))
    key = _key_in(members, keys.arguments, "arguments")
    raw = members.get(key) or "{}"
    if not name:
        return unreadable(f'the call has no "{keys.name or "name"}"', raw)
    arguments = _unwrapped(raw)
    other_key = name_key != keys.name or (key in members and key != keys.arguments)
    return ToolCall(
        id=_string(members.get(keys.id, "")),
        name=name,
        arguments=arguments,
        repaired=arguments != raw or other_key or (bool(wrapped) and not keys.wrapped),
    )


def _key_in(members: Mapping[str, str], own: str, part: str) -> str:
    """Return the key under which a part is, the format's own before the usual ones."""
    if own in members:
        return own
    return next((key for key in _USUAL[part] if key in members), own)


def _string(raw: str) -> str:
    return str(json.loads(raw)) if raw.startswith('"') else ""


def _unwrapped(raw: str) -> str:
    if raw.startswith("{"):
        return raw
    if raw == "null":
        return "{}"
    inner = _out_of_string(raw).strip()
    return inner if scan_object(inner, 0)[1] == len(inner) else raw


def is_call(members: Mapping[str, str]) -> bool:
    """Return whether an object is a call, and not an answer that happens to be JSON."""
    has_arguments = any(key in members for key in _USUAL["arguments"])
    return has_arguments or list(members) == ["name"] or bool(_wrapped(members))


def _wrapped(members: Mapping[str, str]) -> Mapping[str, str]:
    """Return the members of `{"type": "function", "function": {...}}` that are the call."""
    if "function" not in members:
        return {}
    inner, _ = scan_object(members["function"], 0)
    return inner if "name" in inner else {}


def calls_at(
    text: str, start: int, ends: re.Pattern[str], *, keys: CallKeys = DEFAULT_KEYS
) -> tuple[list[ToolCall], int]:
    """Read the JSON calls from `start` up to a mark of `ends`, and return where the text goes on.

    A mark in the group `close` belongs to the calls; others, such as the next opening tag, don't.
    Several objects, a list of them, and a code fence around them are all understood.
    """
    calls, pos = _whole_calls(text, _skip(_BETWEEN_CALLS, text, start), keys)
    mark = _Mark.after(text, pos, ends)
    rest = text[pos : mark.start].strip()
    if rest.startswith("{") or (rest and not calls):
        return calls + malformed_calls(rest, keys=keys, cut=mark.is_end), mark.end
    if not calls:
        return _nothing_between(mark), mark.end
    if mark.missing or (rest and mark.closes):
        calls[-1] = replace(calls[-1], repaired=True)
    # What follows calls that were never closed isn't theirs.
    return calls, mark.end if mark.closes else pos


def starts_json(text: str, pos: int) -> bool:
    """Return whether an object, a list of objects, or a string that may contain one begins here."""
    return text[_skip(_BETWEEN_CALLS, text, pos) :][:1] in ("{", '"')


def _whole_calls(text: str, pos: int, keys: CallKeys) -> tuple[list[ToolCall], int]:
    calls: list[ToolCall] = []
    while True:
        members, end = scan_object(text, pos)
        if end is None:
            return calls, pos
        calls.append(call_from(members, keys=keys))
        pos = _skip(_BETWEEN_CALLS, text, end)


@dataclass(frozen=True, slots=True)
class _Mark:
    """The first mark after some place, or the end of the text."""

    start: int
    end: int
    closes: bool
    missing: bool
    """Whether a closing mark was expected here."""
    is_end: bool

    @classmethod
    def after(cls, text: str, pos: int, ends: re.Pattern[str]) -> "_Mark":
        match = ends.search(text, pos)
        closes = match is not None and match.lastgroup == "close"
        missing = "close" in ends.groupindex and not closes
        if match is None:
            return cls(len(text), len(text), closes, missing, is_end=True)
        end = match.end() if closes else match.start()
        return cls(match.start(), end, closes, missing, is_end=False)


def _nothing_between(mark: _Mark) -> list[ToolCall]:
    if mark.is_end:
        return [unreadable(CUT_OFF, "")]
    return [unreadable(expected_call(""), "")] if mark.closes else []


def malformed_calls(text: str, *, keys: CallKeys = DEFAULT_KEYS, cut: bool) -> list[ToolCall]:
    """Read invalid JSON: repaired, whole except for its end, or as a call with a problem.

    `cut` says that the text may end before the call does.
    """
    calls: list[ToolCall] = []
    end, start = 0, text.find("{")
    while start >= 0 and end < len(text):
        call, end = _malformed_call(text, start, keys, cut=cut)
        calls.append(call)
        start = text.find("{", end)
    problem = CUT_OFF if cut else expected_call(text, keys=keys)
    return calls or [unreadable(problem, text)]


def _malformed_call(text: str, start: int, keys: CallKeys, *, cut: bool) -> tuple[ToolCall, int]:
    """Read the one call that starts here, and return where it ends."""
    if cut and balanced_end(text, start) is None:
        return _cut_call(text[start:], keys), len(text)
    repaired = repair_object(text, start)
    if repaired is None:
        return unreadable(expected_call(text[start:], keys=keys), text[start:]), len(text)
    json_text, end = repaired
    call = call_from(scan_object(json_text, 0)[0], keys=keys)
    return replace(call, repaired=not call.problem), end


def _cut_call(text: str, keys: CallKeys) -> ToolCall:
    """Read an object without its end: a call if its name and arguments are whole."""
    members, _ = scan_object(text, 0)
    call = call_from(members, keys=keys)
    if call.problem or not {keys.arguments, *_USUAL["arguments"]} & members.keys():
        return unreadable(CUT_OFF, text, name=call.name)
    return replace(call, repaired=True)


def expected_call(got: str, *, keys: CallKeys = DEFAULT_KEYS) -> str:
    """Return the part of an error message that shows the model an example call."""
    return f"expected a call as one JSON object such as {keys.example}, got {excerpt(got)}"


def excerpt(text: str) -> str:
    """Quote the beginning of a text."""
    return repr(text if len(text) <= EXCERPT_LENGTH else text[:EXCERPT_LENGTH] + "…")


@dataclass(frozen=True, slots=True, kw_only=True)
class Arguments:
    """The JSON arguments of a call whose name is elsewhere in the text."""

    text: str
    problem: str | None = None
    repaired: bool = False
    end: int
    """Position where the text continues."""

    def call(self, name: str, *, id: str = "") -> ToolCall:
        """Make the call of `name` with these arguments."""
        problem = self.problem or (None if name else "the call has no name")
        return ToolCall(
            id=id, name=name, arguments=self.text, problem=problem, repaired=self.repaired
        )


def arguments_at(text: str, start: int, ends: re.Pattern[str]) -> Arguments:
    """Read one JSON object from `start` up to a mark of `ends` (see `calls_at`)."""
    begin = _skip(_SPACE_OR_FENCE, text, start)
    _, end = scan_object(text, begin)
    pos = begin if end is None else _skip(_SPACE_OR_FENCE, text, end)
    mark = _Mark.after(text, pos, ends)
    rest = text[pos : mark.start].strip()
    if end is None:
        return _malformed_arguments(rest, mark)
    return Arguments(
        text=text[begin:end],
        repaired=mark.missing or bool(rest and mark.closes),
        end=mark.end if mark.closes else pos,
    )


def _malformed_arguments(text: str, mark: _Mark) -> Arguments:
    unfinished = balanced_end(text, 0) is None if text.startswith("{") else mark.missing
    if mark.is_end and (unfinished or not text):
        return Arguments(text=text, problem=CUT_OFF, end=mark.end)
    repaired = repair_object(_out_of_string(text) or "{}", 0)
    if repaired is None:
        problem = f"expected the arguments as a JSON object, got {excerpt(text)}"
        return Arguments(text=text, problem=problem, end=mark.end)
    return Arguments(text=repaired[0], repaired=True, end=mark.end)


def _out_of_string(text: str) -> str:
    """Take out what a model encoded twice: an object inside a JSON string."""
    try:
        return _string(text.removesuffix("```")) or text
    except ValueError:
        return text


def _skip(pattern: re.Pattern[str], text: str, pos: int) -> int:
    match = pattern.match(text, pos)
    return match.end() if match else pos
