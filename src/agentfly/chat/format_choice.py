r"""The call format of a chat template, chosen by reading back the calls that the template writes.

The template renders a probe call with arguments of every type. A format is a candidate only if it
reads the same name and the same arguments out of that text. Candidates are the formats that have a
name, and a layout derived from the template's own text (see `formats.derived_layout`). Of several,
the one that also reads strings with quotes and line breaks is chosen, then the one that leaves the
least text unread, then the one that writes the call as the template does. Where a format writes
every value as bare text, types are compared as the tool's schema recovers them (see
`CallFormat.typed`), and an argument that is null may be missing.

Some templates don't render calls, but describe tools and how to call them (Granite 3: "respond with
<|tool_call|> followed by a JSON list"). There a format is chosen if all its marks are in that text,
and calls of earlier turns are written into the content.

If neither finds a format, calls are plain JSON with instructions in the system prompt, and
`FormatChoice.reason` is the cause.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from agentfly.chat.capabilities import PROBE_TOOL, Capabilities
from agentfly.chat.formats import FORMATS, CallFormat, layout_format
from agentfly.chat.formats.catalog import LAYOUTS
from agentfly.chat.formats.derived_layout import DERIVED, derive_layouts
from agentfly.chat.formats.json_text import dump
from agentfly.chat.formats.marks import common_suffix
from agentfly.chat.turn_probe import TurnProbe
from agentfly.errors import ConfigError
from agentfly.types import Message, ToolCall, ToolSpec

Source = Literal["read back", "tool prompt", "given", "fallback"]

_LONGEST_LEAD = 32
"""Characters of a prompt that may be the beginning of a call."""
_EXCERPT = 200
"""Maximum characters of an unreadable call that are quoted in the reason."""

_TOOL = ToolSpec(
    name=PROBE_TOOL.name,
    description=PROBE_TOOL.description,
    parameters={
        "type": "object",
        "properties": {
            "zqtext": {"type": "string", "description": "text"},
            "zqdigits": {"type": "string", "description": "digits"},
            "zqblank": {"type": "string", "description": "blank"},
            "zqcount": {"type": "integer", "description": "count"},
            "zqratio": {"type": "number", "description": "ratio"},
            "zqflag": {"type": "boolean", "description": "flag"},
            "zqnothing": {"type": ["integer", "null"], "description": "nothing"},
            "zqitems": {"type": "array", "items": {"type": "string"}, "description": "items"},
            "zqoptions": {"type": "object", "description": "options"},
        },
        "required": ["zqtext"],
    },
)
_TYPED: dict[str, Any] = {
    "zqtext": "Größe 好",
    "zqdigits": "0042",
    "zqblank": "",
    "zqcount": 3,
    "zqratio": -1.5,
    "zqflag": True,
    "zqnothing": None,
    "zqitems": ["a", "b c"],
    "zqoptions": {"deep": {"list": ["x", "y"], "name": "z"}},
}
_QUOTED: dict[str, Any] = {"zqtext": 'He said: "no",\nit\'s <b>fine</b> & {x}\\'}
_SECOND: dict[str, Any] = {"zqtext": "zqsecondqz", "zqdigits": "42"}
_ONE_CALL: tuple[tuple[dict[str, Any], ...], ...] = ((_TYPED,), (_SECOND,), ({},))
_TWO_CALLS: tuple[dict[str, Any], ...] = (_TYPED, _SECOND)


@dataclass(frozen=True, slots=True, kw_only=True)
class FormatChoice:
    """The call format with which a template's turns are read, and how it was found."""

    format: CallFormat
    source: Source
    """Read back from the template's own rendering, named by the template's description of tools,
    given by the user, or the fall-back that the system prompt teaches."""
    one_call: bool | None = None
    """Whether the template's own rendering of one call is parsed back; None if it renders none."""
    two_calls: bool | None = None
    """The same of two calls in one turn."""
    quoted_text: bool | None = None
    """The same of a string with quotes, line breaks and tags, which some templates don't escape."""
    reason: str = ""
    """Reason why no native format was chosen; empty if one was."""
    lead: str = ""
    """The beginning of a call that the generation prompt writes; the model goes on behind it."""

    def __str__(self) -> str:
        if self.source == "fallback":
            return f"{self.format.name} (fall-back: {self.reason})"
        shown = {"one call": self.one_call, "two calls": self.two_calls}
        parts = [
            f"{what} {'read back' if held else 'NOT READ BACK'}"
            for what, held in shown.items()
            if held is not None
        ]
        return f"{self.format.name} ({', '.join(parts) or self.source})"


@dataclass(frozen=True, slots=True)
class _Rendering:
    """A turn's text as the template writes it, and the calls in it."""

    text: str
    calls: tuple[ToolCall, ...]

    def read_back_by(self, call_format: CallFormat) -> bool:
        """Return whether a format reads the same names and arguments out of the text."""
        read = call_format.typed(call_format.read(self.text).calls, [_TOOL])
        return len(read) == len(self.calls) and all(map(_same, read, self.calls))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Renderings:
    """A template's own text of calls; empty where it doesn't show them."""

    one: tuple[_Rendering, ...] = ()
    two: tuple[_Rendering, ...] = ()
    quoted: tuple[_Rendering, ...] = ()
    refusal: str = ""
    """The template's error message if it refuses a call."""


def choose_format(probe: TurnProbe) -> FormatChoice:
    """Choose the format that reads back what a template writes; plain JSON if none does."""
    renderings = _render_calls(probe)
    if not renderings.one:
        described = None if renderings.refusal else _described(probe)
        if described:
            return FormatChoice(format=described, source="tool prompt")
        return _fallback(
            renderings.refusal or "the template doesn't show an assistant's tool calls"
        )
    texts = probe.texts()
    derived = [layout_format(layout) for layout in derive_layouts(texts)] if texts else []
    chosen = _best([*_candidates(), *derived], renderings)
    if chosen is None:
        written = renderings.one[0].text.strip()
        shown = written if len(written) <= _EXCERPT else f"{written[:_EXCERPT]}…"
        return _fallback(f"no known format reads back the call that the template writes: {shown!r}")
    return replace(
        _judged(chosen, "read back", renderings), lead=_lead(probe.prompt(), chosen, renderings)
    )


def judge_format(probe: TurnProbe, call_format: CallFormat) -> FormatChoice:
    """Return a given format, with whether it parses the template's own calls back."""
    return _judged(call_format, "given", _render_calls(probe))


def _described(probe: TurnProbe) -> CallFormat | None:
    """Return the format whose marks are all in what the template says about tools."""
    if not probe.capabilities.tools:
        return None
    with_tool, without = probe.tool_prompts()
    named = [
        layout
        for layout in LAYOUTS
        if layout.signs and all(mark in with_tool for mark in layout.signs)
        if layout.signs[0] not in without
    ]
    best = max(named, key=lambda layout: sum(map(len, layout.signs)), default=None)
    return FORMATS[best.name] if best else None


def _lead(prompt: str, chosen: CallFormat, renderings: _Renderings) -> str:
    """Return the beginning of a call that the prompt already contains, such as `>>>`."""
    rendering = renderings.one[0]
    if not rendering.text.startswith(prompt):
        return ""
    sampled = rendering.text[len(prompt) :]
    for length in range(_LONGEST_LEAD):
        lead = prompt[len(prompt) - length :]
        if replace(rendering, text=lead + sampled).read_back_by(chosen):
            return lead
    return ""


def _fallback(reason: str) -> FormatChoice:
    return FormatChoice(format=FORMATS["json"], source="fallback", reason=reason)


def _judged(call_format: CallFormat, source: Source, renderings: _Renderings) -> FormatChoice:
    def held(texts: Sequence[_Rendering]) -> bool | None:
        return all(text.read_back_by(call_format) for text in texts) if texts else None

    return FormatChoice(
        format=call_format,
        source=source,
        one_call=held(renderings.one),
        two_calls=held(renderings.two),
        quoted_text=held(renderings.quoted),
    )


def _candidates() -> list[CallFormat]:
    """Return the formats that a template may have of its own."""
    return [known for known in FORMATS.values() if known.instructions([_TOOL]) is None]


def _best(candidates: Sequence[CallFormat], renderings: _Renderings) -> CallFormat | None:
    """Return the format that reads every call back, and does it best; the first of equals."""
    needed = (*renderings.one, *renderings.two)
    fitting = [
        candidate
        for candidate in candidates
        if all(rendering.read_back_by(candidate) for rendering in needed)
    ]

    def rank(candidate: CallFormat) -> tuple[bool, int, bool, int]:
        fails_quoted = not all(text.read_back_by(candidate) for text in renderings.quoted)
        unread = sum(_unread(candidate, rendering.text) for rendering in needed)
        likeness = sum(_likeness(candidate, rendering) for rendering in needed)
        return fails_quoted, unread, candidate.name == DERIVED, -likeness

    return min(fitting, key=rank, default=None)


def _unread(candidate: CallFormat, text: str) -> int:
    """Return how much text before the last call's end a format leaves, as it would a mark."""
    spans = candidate.read(text).call_spans
    return len(candidate.read(text[: spans[-1][1]]).content) if spans else 0


def _likeness(candidate: CallFormat, rendering: _Rendering) -> int:
    """Return 1 if a format begins a call as the template does, 2 if it also writes all of it so."""
    written = "".join(candidate.write(rendering.calls).split())
    text = "".join(rendering.text.split())
    return (f"{written.partition(_TOOL.name)[0]}{_TOOL.name}" in text) + (written in text)


def _render_calls(probe: TurnProbe) -> _Renderings:
    if not probe.capabilities.calls:
        return _Renderings(refusal=_refusal(probe))

    def shown(*turns: tuple[dict[str, Any], ...]) -> tuple[_Rendering, ...]:
        return tuple(filter(None, (_render(probe, calls) for calls in turns)))

    return _Renderings(one=shown(*_ONE_CALL), two=shown(_TWO_CALLS), quoted=shown((_QUOTED,)))


def _refusal(probe: TurnProbe) -> str:
    """Return a template's error message for a call; empty if it just omits the call."""
    calls = _calls((_SECOND,), probe.capabilities)
    try:
        probe.render(Message(role="assistant", tool_calls=calls))
    except ConfigError as error:
        return str(error)
    return ""


def _render(probe: TurnProbe, arguments: tuple[dict[str, Any], ...]) -> _Rendering | None:
    """Return what follows the question, without the turn's end; None if calls don't show."""
    calls = _calls(arguments, probe.capabilities)
    turn = probe.turn(*calls)
    if turn is None:
        return None
    turn = turn[: len(turn) - len(common_suffix(turn, probe.end()))]
    keys = [next(iter(given), _TOOL.name) for given in arguments]
    last = str(arguments[-1].get("zqtext", ""))
    shows_all = all(turn.count(key) >= len(calls) for key in [_TOOL.name, *keys])
    return _Rendering(turn, calls) if shows_all and (len(calls) == 1 or last in turn) else None


def _calls(
    arguments: tuple[dict[str, Any], ...], capabilities: Capabilities
) -> tuple[ToolCall, ...]:
    # Kimi's templates write nothing but the id, in which its models put the name.
    form = "callid00{}" if capabilities.short_ids else f"functions.{_TOOL.name}:{{}}"
    return tuple(
        ToolCall(id=form.format(index), name=_TOOL.name, arguments=dump(given))
        for index, given in enumerate(arguments)
    )


def _same(read: ToolCall, written: ToolCall) -> bool:
    if read.problem or read.repaired or read.name != written.name:
        return False
    return _without_nulls(read) == _without_nulls(written)


def _without_nulls(call: ToolCall) -> dict[str, Any]:
    arguments = json.loads(call.arguments)
    return {key: value for key, value in arguments.items() if value is not None}
