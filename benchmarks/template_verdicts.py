"""Results of `chat` with a template, compared with what the template itself writes."""

import itertools
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from benchmarks.template_renderings import (
    ANSWERING,
    NOW,
    ONE,
    TWO,
    Form,
    RefusedError,
    Said,
    Script,
    TemplateRenderings,
    length_of_shared,
)
from benchmarks.template_truth import CALL_END_OF, DESCRIBED, END_OF, FORMAT_OF, NAME, TOOL

from agentfly.chat import TemplateRenderer
from agentfly.chat.template_check.bare_template import bare_renderer
from agentfly.types import Completion, FinishReason, Message, ToolCall, ToolSpec

SPEC = ToolSpec(
    name=NAME,
    description=TOOL["function"]["description"],
    parameters=TOOL["function"]["parameters"],
)
_EXCERPT = 60


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """The results of one template; None where there is nothing to compare with."""

    right_format: bool | None
    one_call: bool | None
    two_calls: bool | None
    answer: bool | None
    reasoning: bool | None
    right_end: bool | None
    stream: bool | None
    """Whether the streams of all conversations that aren't rewritten are what is rendered."""
    stops_at_end: bool
    """Whether no turn has a stop token before its last word, behind which sampling doesn't go on.
    """
    rewrites: bool
    differences: tuple[str, ...]
    """Descriptions of what is not as it should be."""


def judge(name: str, source: str, renderer: TemplateRenderer) -> Outcome:
    """Compare a renderer with what transformers renders, and with the table."""
    truth = TemplateRenderings(source)
    reads = _Reads(truth, renderer)
    streams = [_Stream(truth, renderer, script) for script in _comparable(truth, renderer)]
    exact = [stream.difference() for stream in streams if not stream.rewritten]
    one = reads.back(ONE) if truth.one_call else None
    two = reads.back(TWO) if truth.two_calls else None
    thinking = truth.thinking_turn
    shown = ((ONE, truth.one_call), (TWO, truth.two_calls))
    turns = [turn for turn, is_shown in shown if is_shown] + ([thinking] if thinking else [])
    return Outcome(
        right_format=_right_format(name, renderer, accepted=one),
        one_call=one,
        two_calls=two,
        answer=reads.back(ANSWERING) if truth.continues(ANSWERING) else None,
        reasoning=reads.back(thinking) if thinking else None,
        right_end=_right_end(name, renderer),
        stream=not any(exact) if exact else None,
        stops_at_end=all(map(reads.to_its_end, turns)),
        rewrites=_rewrites(truth),
        differences=(*reads.differences, *filter(None, exact)),
    )


def is_known(name: str) -> bool:
    """Return whether the table written by hand has a template."""
    return name in FORMAT_OF


def usable_renderer(source: str) -> TemplateRenderer:
    """Make the renderer that `agentfly check` makes for a template alone, at the tests' time."""
    return bare_renderer(source, date=NOW)


def _right_format(name: str, renderer: TemplateRenderer, *, accepted: bool | None) -> bool | None:
    choice = renderer.format_choice
    if is_known(name):
        return choice.format.name == (FORMAT_OF[name] or DESCRIBED.get(name) or "json")
    return accepted if choice.source == "read back" else None if accepted is None else False


def _right_end(name: str, renderer: TemplateRenderer) -> bool | None:
    ends = [end for end, names in END_OF.items() if name in names]
    ends += [CALL_END_OF[name]] if name in CALL_END_OF else []
    stops = [renderer.decode([token]) for token in renderer.stop_token_ids]
    return set(ends) <= set(stops) if ends else None


def _rewrites(truth: TemplateRenderings) -> bool:
    return any(step.rewritten for script in truth.scripts() for step in truth.steps(script))


def _comparable(truth: TemplateRenderings, renderer: TemplateRenderer) -> Iterator[Script]:
    """Yield the conversations that both render alike: not those with calls in the system prompt."""
    taught = renderer.format_choice.source == "fallback"
    return (script for script in truth.scripts() if not (script.tools and taught))


class _Reads:
    """Parses back what a template writes."""

    def __init__(self, truth: TemplateRenderings, renderer: TemplateRenderer) -> None:
        self._truth = truth
        self._renderer = renderer
        self.differences: list[str] = []

    def back(self, turn: Said) -> bool:
        """Return whether a turn's calls, reasoning and words come back, and nothing else."""
        text = self._truth.turn_text(turn)
        sampled = sampled_ids(self._renderer, text, turn)
        message = self._renderer.parse(completion(sampled), [SPEC]).message
        calls = [(call.name, _arguments(call)) for call in message.tool_calls]
        read = (calls, message.content.strip(), (message.reasoning or "").strip())
        wanted = ([(NAME, call) for call in turn.calls], turn.content, turn.thought)
        if read != wanted:
            self.differences.append(f"read {read!r} out of {text!r}")
        return read == wanted

    def to_its_end(self, turn: Said) -> bool:
        """Return whether sampling that stops at the stop tokens gets to a turn's last word."""
        text = self._truth.turn_text(turn)
        whole = sampled_ids(self._renderer, text, turn)
        stops = [i for i, token in enumerate(whole[:-1]) if token in self._renderer.stop_token_ids]
        early = [i for i in stops if not self._renderer.goes_on(completion(whole[: i + 1]))]
        if early:
            said = self._renderer.decode(whole[: early[0] + 1])
            self.differences.append(f"sampling stops behind {said!r} of {text!r}")
        return not early


class _Stream:
    """A conversation as the stream of tokens that a chain would record."""

    def __init__(
        self, truth: TemplateRenderings, renderer: TemplateRenderer, script: Script
    ) -> None:
        self._renderer = renderer
        self._form = truth.form
        self._script = script
        self._steps = list(truth.steps(script))
        self._tools = [SPEC] if script.tools and truth.tools else []
        self.rewritten = any(step.rewritten for step in self._steps)

    def difference(self) -> str:
        """Return where the stream and the rendering part; empty if nowhere."""
        ids, wanted = self._ids(), self._steps[-1].answered
        text = self._renderer.decode(ids)
        if text != wanted:
            return f"{self._script.name}: {_first_difference(text, wanted)}"
        encoded = self._renderer.tokenizer.encode(wanted)
        same = self._special(ids) == self._special(encoded)
        return "" if same else f"{self._script.name}: other special tokens than the rendering"

    def _ids(self) -> list[int]:
        history = [_message(said, self._form) for said in self._script.opening]
        ids = list(self._renderer.open(history, self._tools))
        for step, (turn, answers) in zip(self._steps, self._script.steps, strict=True):
            sampled = sampled_ids(self._renderer, step.sampled, turn)
            replies = [_message(said, self._form) for said in answers]
            history.append(_message(turn, self._form))
            extended = self._renderer.extend(history, completion(sampled), replies, self._tools)
            ids += [*sampled, *extended.token_ids]
            history += replies
        return ids

    def _special(self, ids: Sequence[int]) -> list[int]:
        special = set(self._renderer.encoder.special_ids.values())
        return [token for token in ids if token in special]


def sampled_ids(renderer: TemplateRenderer, text: str, turn: Said) -> list[int]:
    """Encode a turn as a model samples it: up to the first stop token behind its words."""
    ids = list(renderer.tokenizer.encode(text))
    words = max((text.rfind(word) + len(word) for word in turn.words if word in text), default=0)
    for index, token in enumerate(ids):
        if token in renderer.stop_token_ids and len(renderer.decode(ids[:index])) >= words:
            return ids[: index + 1]
    return ids


def completion(ids: Sequence[int]) -> Completion:
    """Make the completion in which these tokens were sampled."""
    return Completion(
        token_ids=tuple(ids),
        logprobs=(0.0,) * len(ids),
        versions=((0, len(ids)),),
        finish_reason=FinishReason.STOP,
    )


def _message(said: Said, form: Form) -> Message:
    numbers = itertools.count(said.first_call)
    calls = tuple(
        ToolCall(id=form.call_id.format(number), name=NAME, arguments=json.dumps(arguments))
        for number, arguments in zip(numbers, said.calls, strict=False)
    )
    is_result = said.role == "tool"
    return Message(
        role=said.role,  # type: ignore[arg-type]  # one of the four roles
        content=said.content,
        reasoning=said.thought or None,
        tool_calls=calls,
        tool_call_id=form.call_id.format(said.first_call) if is_result else None,
        name=NAME if is_result else None,
    )


def _arguments(call: ToolCall) -> object:
    return call.problem or json.loads(call.arguments)


def _first_difference(text: str, wanted: str) -> str:
    at = length_of_shared(text, wanted)
    got, expected = (part[max(0, at - _EXCERPT // 2) : at + _EXCERPT] for part in (text, wanted))
    return f"at character {at}, got {got!r}, the template writes {expected!r}"


def renders(source: str) -> str:
    """Return why transformers itself can't use a template for chat; empty if it can."""
    truth = TemplateRenderings(source)
    if truth.loads:
        return ""
    try:
        truth.render([Said(role="user", content="?")], tools=False, prompt=True)
    except RefusedError as refusal:
        return str(refusal)
    return "a question and an answer don't show"
