r"""Inferring a tool-call layout from a chat template, by the text that it renders for probe calls.

A template renders calls whose names, keys and values occur nowhere else. Their positions in its
text show what kind of calls it writes; the text around them is the layout:

    one call     …<calls><call name="zqfirst"><p k="zqa">zqva</p><p k="zqb">zqvb</p></call></calls>…
    two calls    …                                                            </call><call name="…

The text between two calls, compared with the text before and behind one call, distinguishes a
call's own marks from those around all calls. A derived layout is only a guess: it is used if it
parses the template's calls back.
"""

import json
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from agentfly.chat.formats.call_layout import Layout
from agentfly.chat.formats.json_text import dump, scan_object
from agentfly.chat.formats.marks import common_prefix, common_suffix, first_token
from agentfly.types import ToolCall

FIRST = ToolCall(
    id="zqidone00", name="zqfirstqz", arguments='{"zqaqz": "zqvaqz", "zqbqz": "zqvbqz"}'
)
SECOND = ToolCall(
    id="zqidtwo00", name="zqothrqz", arguments='{"zqaqz": "zqvcqz", "zqbqz": "zqvdqz"}'
)
NUMBER = ToolCall(id="zqidone00", name="zqfirstqz", arguments='{"zqaqz": 7777, "zqbqz": 8888}')
SAID = "zqsaidqz"
DERIVED = "derived"
"""The name of every format that is derived."""

_NUMBER = re.compile(r"\d+")
_DEEPEST = 8
"""Maximum number of braces before a name that are tried as the start of its object."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProbeTexts:
    """A template's text after a user message, for each probe turn; None where it raises."""

    one: str
    """A turn with the call FIRST."""
    two: str | None
    """A turn with the calls FIRST and SECOND."""
    number: str | None
    """A turn with the call NUMBER."""
    said: str | None
    """A turn that says SAID, without calls."""
    prompt: str
    """The generation prompt."""


@dataclass(frozen=True, slots=True)
class _Core:
    """The part of a text that a call's name and arguments take up."""

    start: int
    end: int
    text: str
    """The same with placeholders."""
    parameter: str = ""
    quote: str = ""


def derive_layouts(probe: ProbeTexts) -> Iterator[Layout]:
    """Yield layouts that may be the template's own, the likeliest first."""
    for find in (_json_core, _named_core, _python_core, _quoted_core, _tagged_core):
        core = find(probe.one, FIRST)
        if core is None:
            continue
        layout = _layout(probe, core, _both_cores(probe, find))
        if layout.opening or layout.is_json or layout.is_python:
            yield layout


_Finder = Callable[[str, ToolCall], _Core | None]


def _both_cores(probe: ProbeTexts, find: _Finder) -> tuple[_Core, _Core] | None:
    """Find both calls in the text with two calls."""
    if probe.two is None:
        return None
    first, second = find(probe.two, FIRST), find(probe.two, SECOND)
    return (first, second) if first and second and first.end <= second.start else None


def _layout(probe: ProbeTexts, core: _Core, pair: tuple[_Core, _Core] | None) -> Layout:
    before, behind = _without_ids(probe.one[: core.start]), _without_ids(probe.one[core.end :])
    behind = behind[: len(behind) - _shared_tail(behind, probe)]
    header, before = _split_header(before, probe)
    layout = Layout(
        name=DERIVED,
        call=core.text,
        parameter=_with_type_placeholder(core.parameter, probe),
        quote=core.quote,
        header=header,
        nested="<{key}>" in core.parameter and "</{key}>" in core.parameter,
    )
    if pair is None or probe.two is None:
        before = before[_shared_head(before, probe) :]
        return replace(layout, call=f"{before.lstrip()}{core.text}{behind.rstrip()}")
    first, second = pair
    middle = _without_ids(probe.two[first.end : second.start])
    opening = common_suffix(before, middle)
    closing = common_prefix(behind, middle[: len(middle) - len(opening)])
    between = middle[len(closing) : len(middle) - len(opening)]
    margin = opening[: len(opening) - len(opening.lstrip())]
    around = before[: len(before) - len(opening)]
    counted, first_index = _with_index(core.text, second.text)
    return replace(
        layout,
        first_index=first_index,
        section=(around[_shared_head(around, probe) :].lstrip(), behind[len(closing) :].rstrip()),
        call=f"{opening.lstrip()}{counted}{closing}",
        between=_without_header(between, header) + margin,
    )


def _split_header(before: str, probe: ProbeTexts) -> tuple[str, str]:
    """Split the text before a call behind the mark that follows the call's name, if it is there."""
    own = before[len(common_prefix(before, probe.prompt)) :]
    head, name, rest = own.rpartition(FIRST.name)
    if not name:
        return "", before
    close = first_token(rest)
    return f"{head}{{name}}{close}", rest[len(close) :]


def _without_header(between: str, header: str) -> str:
    return between.removesuffix(header.replace("{name}", SECOND.name)) if header else between


def _shared_head(before: str, probe: ProbeTexts) -> int:
    """Return how much of the text before a call is the turn's own beginning.

    White space doesn't count: templates that indent their text write it here and not there.
    """
    heads = [probe.prompt]
    if probe.said is not None and SAID in probe.said:
        heads.append(probe.said.partition(SAID)[0])
    squeezed = "".join(before.split())
    shared = max(len(common_prefix(squeezed, "".join(head.split()))) for head in heads)
    ends = [place for place, letter in enumerate(before, 1) if not letter.isspace()]
    return ends[shared - 1] if shared else 0


def _shared_tail(behind: str, probe: ProbeTexts) -> int:
    """Return how much of the text behind a call is the turn's own end."""
    if probe.said is None or SAID not in probe.said:
        return 0
    return len(common_suffix(behind, probe.said.rpartition(SAID)[2]))


# --- Where a call is -------------------------------------------------------------------------


def _values(call: ToolCall) -> dict[str, str]:
    values: dict[str, str] = json.loads(call.arguments)
    return values


def _json_core(text: str, call: ToolCall) -> _Core | None:
    """Find `{"name": "f", "arguments": {}}`, or `{"f": {}}`, with any keys."""
    at = text.find(dump(call.name))
    for _ in range(_DEEPEST):
        at = text.rfind("{", 0, at)
        if at < 0:
            return None
        members, end = scan_object(text, at)
        if end is None or text.find(dump(call.name), at, end) < 0:
            continue
        for raw in _parts(members):
            if _is_arguments(raw, call):
                written = text[at:end].replace(raw, "{arguments}", 1)
                written = written.replace(dump(call.name), '"{name}"', 1)
                return _Core(at, end, written.replace(dump(call.id), '"{id}"', 1))
    return None


def _parts(members: dict[str, str]) -> Iterator[str]:
    """Yield the members' texts, and those of an inner object, as OpenAI wraps its calls."""
    for raw in members.values():
        yield raw
        yield from scan_object(raw, 0)[0].values()


def _is_arguments(raw: str, call: ToolCall) -> bool:
    members, end = scan_object(raw, 0)
    return end == len(raw) and set(members) == set(_values(call))


def _named_core(text: str, call: ToolCall) -> _Core | None:
    """Find a name with a JSON object somewhere behind it."""
    begin = text.rfind("{", 0, min(text.find(value) for value in _values(call).values()))
    while begin >= 0:
        members, end = scan_object(text, begin)
        if end is not None and set(members) == set(_values(call)):
            start = text.rfind(call.name, 0, begin)
            head = text[start + len(call.name) : begin]
            written = f"{{name}}{_without_ids(head)}{{arguments}}"
            return _Core(start, end, written) if start >= 0 else None
        begin = text.rfind("{", 0, begin)
    return None


def _python_core(text: str, call: ToolCall) -> _Core | None:
    """Find `f(key="value")`."""
    pairs = r"\s*,\s*".join(rf"{key}\s*=\s*(['\"]){v}['\"]" for key, v in _values(call).items())
    found = re.search(rf"{call.name}\(\s*{pairs}\s*\)", text)
    if found is None:
        return None
    return _Core(found.start(), found.end(), "{name}({parameters})", parameter="{key}={value}")


def _quoted_core(text: str, call: ToolCall) -> _Core | None:
    """Find `f{key:<quote>value<quote>}`."""
    (key, value), (other, last) = _values(call).items()
    found = re.search(
        rf"{call.name}\s*(\{{\s*{key}\s*:\s*(\S+?){value}\2\s*,\s*{other}\s*:\s*\2{last}\2\s*\}})",
        text,
    )
    if found is None:
        return None
    return _Core(found.start(), found.end(), "{name}{arguments}", quote=found[2])


def _tagged_core(text: str, call: ToolCall) -> _Core | None:
    """Find a name with keys and values between tags behind it."""
    (key, value), (other, last) = _values(call).items()
    places = [text.find(value), text.find(last)]
    if min(places) < 0:
        return None
    first_key = text.rfind(key, 0, places[0])
    second_key = text.rfind(other, 0, places[1])
    start = text.rfind(call.name, 0, first_key)
    if min(first_key, start) < 0 or second_key < places[0]:
        return None
    inside = text[first_key + len(key) : places[0]]
    if inside != text[second_key + len(other) : places[1]]:
        return None
    head = text[start + len(call.name) : first_key]
    between = text[places[0] + len(value) : second_key].replace(key, "{key}")
    behind = text[places[1] + len(last) :]
    closing = _closing_of_value(head, between, behind.replace(other, "{key}"))
    opening = between[len(closing) :]
    shown = closing.replace("{key}", other)
    if not opening or not closing.strip() or not behind.startswith(shown):
        return None
    end = places[1] + len(last) + len(shown)
    name_close = head[: len(head) - len(opening)]
    parameter = f"{opening}{{key}}{inside}{{value}}{closing}"
    return _Core(start, end, f"{{name}}{name_close}{{parameters}}", parameter=parameter)


def _closing_of_value(head: str, between: str, behind: str) -> str:
    """Return what closes a value: the text that follows both the first and the last value.

    It contains no part of what opens a parameter, which precedes both of them.
    """
    closing = common_prefix(between, behind)
    opening = between[len(closing) :]
    if opening.strip() and head.endswith(opening):
        return closing
    return between[: len(between) - len(common_suffix(head, between).lstrip())]


# --- Placeholders found by comparing texts ------------------------------------------------------


def _without_ids(text: str) -> str:
    return text.replace(FIRST.id, "{id}").replace(SECOND.id, "{id}")


def _with_index(first: str, second: str) -> tuple[str, int]:
    """Make a placeholder of the number with which calls are counted, as in `functions.f:0`.

    Return the text and the number of the first call.
    """
    numbers, others = list(_NUMBER.finditer(first)), list(_NUMBER.finditer(second))
    for number, other in zip(numbers, others, strict=False):
        if int(other[0]) != int(number[0]) + 1:
            continue
        counted = f"{first[: number.start()]}{{index}}{first[number.end() :]}"
        if counted == f"{second[: other.start()]}{{index}}{second[other.end() :]}":
            return counted, int(number[0])
    return first, 0


def _with_type_placeholder(parameter: str, probe: ProbeTexts) -> str:
    """Make a placeholder of what says a value's type, as in `string="true"` or `type="string"`."""
    if not parameter or probe.number is None:
        return parameter
    numbers = _tagged_core(probe.number.replace("7777", "zqvaqz").replace("8888", "zqvbqz"), FIRST)
    opened = parameter.partition("{value}")[0]
    if numbers is None or numbers.parameter.partition("{value}")[0] == opened:
        return parameter
    placeholder = "{type}" if '"string"' in opened else "{string}"
    return parameter.replace(
        '"string"' if placeholder == "{type}" else '"true"', f'"{placeholder}"', 1
    )
