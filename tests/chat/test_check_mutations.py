"""A renderer broken in one way fails the line of the report that is about it, and no other."""

import json
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from agentfly.chat import CHATML, TemplateRenderer, check_template
from agentfly.chat import chat_template as template_module
from agentfly.chat.template_check.bare_template import bare_renderer
from agentfly.chat.template_check.check import TemplateReport
from agentfly.chat.template_check.reference_renderer import ReferenceRenderer
from agentfly.errors import ConfigError
from agentfly.types import Completion, Extension, FinishReason, Message, Parsed, ToolSpec

TRL = find_spec("trl")
FOLDER = Path(TRL.submodule_search_locations[0] if TRL and TRL.submodule_search_locations else "")
APPENDING, THINKING = "qwen2_5", "qwen3"
"""A template that only appends, and one that shows reasoning and drops it later."""

CALL_FORMAT, ONE_CALL, TWO_CALLS = "call format", "one call", "two calls"
WORDS, END, STOPS = "answers and reasoning", "end of a turn", "no stop inside a turn"
FALL_BACKS, HISTORY, FORGERY = "fallbacks", "history", "special tokens"
SYSTEM = "conversation with a system prompt"
CALL, PARALLEL = "conversation with a tool call", "conversation with two calls at once"
ROUNDS, CUT = (
    "conversation with two rounds of tools",
    "conversation with a turn cut at the length limit",
)
QUESTION = "conversation with another question"
THOUGHT_CALL = "conversation with reasoning, then a call"
THOUGHT = "conversation with reasoning, then another question"
THOUGHTS = "conversation with reasoning, a call, then another question"
DOT, NEWLINE = (
    "conversation with an answer that ends in '.'",
    r"conversation with an answer that ends in '\n'",
)
TOOLS = {CALL, PARALLEL, ROUNDS, THOUGHT_CALL, THOUGHTS}
ANSWERS = {QUESTION, SYSTEM, ROUNDS, THOUGHT, DOT, NEWLINE}
STREAMS = {*TOOLS, *ANSWERS, CUT}


@lru_cache(maxsize=4)
def sound(name: str) -> TemplateRenderer:
    return bare_renderer((FOLDER / "chat_templates" / f"{name}.jinja").read_text())


def made(kind: type[TemplateRenderer], name: str = APPENDING, **settings: Any) -> TemplateRenderer:
    """Make a broken renderer for the same template and tokenizer as a sound one."""
    return kind(sound(name).tokenizer, sound(name).template, **settings)


class Extended(TemplateRenderer):
    """Breaks what follows a turn."""

    def extend(
        self,
        history: Sequence[Message],
        completion: Completion,
        replies: Sequence[Message],
        tools: Sequence[ToolSpec],
    ) -> Extension:
        right = super().extend(history, completion, replies, tools)
        return replace(right, token_ids=self.broken(right.token_ids, completion))

    def broken(self, ids: tuple[int, ...], completion: Completion) -> tuple[int, ...]:
        raise NotImplementedError

    def ended(self, completion: Completion) -> bool:
        return completion.finish_reason is FinishReason.STOP


class RandomOpenConstantFollow(TemplateRenderer):
    def open(self, messages: Sequence[Message], tools: Sequence[ToolSpec]) -> tuple[int, ...]:
        del messages, tools
        return tuple(random.Random(0).sample(range(200), 50))

    def follow(self, *_: object, **__: object) -> tuple[int, ...]:
        return (1, 2, 3)


class RandomOpen(TemplateRenderer):
    def open(self, messages: Sequence[Message], tools: Sequence[ToolSpec]) -> tuple[int, ...]:
        right = super().open(messages, tools)
        return tuple(random.Random(0).sample(right, len(right)))


class OpenLosesItsLastToken(TemplateRenderer):
    def open(self, messages: Sequence[Message], tools: Sequence[ToolSpec]) -> tuple[int, ...]:
        return super().open(messages, tools)[:-1]


class OpenWithoutSystem(TemplateRenderer):
    def open(self, messages: Sequence[Message], tools: Sequence[ToolSpec]) -> tuple[int, ...]:
        return super().open([m for m in messages if m.role != "system"], tools)


class OpenWithoutTools(TemplateRenderer):
    def open(self, messages: Sequence[Message], tools: Sequence[ToolSpec]) -> tuple[int, ...]:
        return super().open(messages, tools[:0])


class LosesANewline(Extended):
    def broken(self, ids: tuple[int, ...], completion: Completion) -> tuple[int, ...]:
        return ids[1:] if self.ended(completion) else ids


class EndsTwice(Extended):
    def broken(self, ids: tuple[int, ...], completion: Completion) -> tuple[int, ...]:
        return (self.stop_token_ids[0], *ids) if self.ended(completion) else ids


class LeavesCutTurnsOpen(Extended):
    def broken(self, ids: tuple[int, ...], completion: Completion) -> tuple[int, ...]:
        return ids if self.ended(completion) else ids[ids.index(self.stop_token_ids[0]) + 1 :]


class TripsOverMergedEnds(Extended):
    def broken(self, ids: tuple[int, ...], completion: Completion) -> tuple[int, ...]:
        before = self.decode(completion.token_ids[:-1])
        return (*self.tokenizer.encode("\n"), *ids) if before.endswith("\n") else ids


class RefusesResults(TemplateRenderer):
    def extend(
        self,
        history: Sequence[Message],
        completion: Completion,
        replies: Sequence[Message],
        tools: Sequence[ToolSpec],
    ) -> Extension:
        if replies[0].role == "tool":
            raise ConfigError("no")
        return super().extend(history, completion, replies, tools)


class DropsParallelResults(TemplateRenderer):
    def extend(
        self,
        history: Sequence[Message],
        completion: Completion,
        replies: Sequence[Message],
        tools: Sequence[ToolSpec],
    ) -> Extension:
        return super().extend(history, completion, replies[:1], tools)


class Parsing(TemplateRenderer):
    """Breaks what is read."""

    def parse(self, completion: Completion, tools: Sequence[ToolSpec] = ()) -> Parsed:
        right = super().parse(completion, tools)
        return replace(right, message=self.broken(right.message))

    def broken(self, message: Message) -> Message:
        raise NotImplementedError


class DropsCalls(Parsing):
    def broken(self, message: Message) -> Message:
        return replace(message, tool_calls=())


class DropsSecondCall(Parsing):
    def broken(self, message: Message) -> Message:
        return replace(message, tool_calls=message.tool_calls[:1])


class WritesArgumentsAsText(Parsing):
    def broken(self, message: Message) -> Message:
        return replace(message, tool_calls=tuple(map(_textual, message.tool_calls)))


def _textual(call: Any) -> Any:
    arguments = {key: str(value) for key, value in json.loads(call.arguments).items()}
    return replace(call, arguments=json.dumps(arguments))


class LeavesReasoningInContent(Parsing):
    def broken(self, message: Message) -> Message:
        if not message.reasoning:
            return message
        return replace(message, content=f"{message.reasoning}\n{message.content}", reasoning=None)


class LosesReasoning(Parsing):
    def broken(self, message: Message) -> Message:
        return replace(message, reasoning=None)


class StopsAtEosAlone(TemplateRenderer):
    @property
    def stop_token_ids(self) -> tuple[int, ...]:
        return super().stop_token_ids[1:]


class StopsAtCalls(TemplateRenderer):
    @property
    def stop_token_ids(self) -> tuple[int, ...]:
        return (*super().stop_token_ids, self.tokenizer.special_ids["<tool_call>"])


class StopsInsideThoughts(TemplateRenderer):
    @property
    def stop_strings(self) -> tuple[str, ...]:
        return ("look it",)


class BelievesDescriptions(TemplateRenderer):
    def open(self, messages: Sequence[Message], tools: Sequence[ToolSpec]) -> tuple[int, ...]:
        if "|>" not in tools[0].description:
            return super().open(messages, tools)
        return tuple(self.tokenizer.encode(self.writer.text(messages, tools)))


def needless_fallback() -> TemplateRenderer:
    renderer = made(TemplateRenderer, format="json")
    renderer.format_choice = replace(
        renderer.format_choice, source="fallback", reason="the template shows no calls"
    )
    return renderer


def system_put_into_the_question() -> TemplateRenderer:
    renderer = made(TemplateRenderer)
    renderer.capabilities = replace(renderer.capabilities, system=False)
    renderer.writer = replace(renderer.writer, capabilities=renderer.capabilities)
    return renderer


def trusting(role: str) -> TemplateRenderer:
    """Trust a role without saying so."""
    renderer = made(TemplateRenderer, THINKING, trusted_roles=[role])
    renderer.trusted_roles = ()
    return renderer


def judging_rewrites(*, judged: bool, name: str) -> TemplateRenderer:
    renderer = made(TemplateRenderer, name)

    class FixedDetector:
        def rewritten(self, *_: object) -> bool:
            return judged

    renderer.rewrite_detector = FixedDetector()  # type: ignore[assignment]
    return renderer


@dataclass(frozen=True)
class Mutation:
    broken: Callable[[], TemplateRenderer]
    caught_by: set[str]
    says: str = ""


MUTATIONS = {
    "a random open and a constant follow": Mutation(
        lambda: made(RandomOpenConstantFollow), STREAMS
    ),
    "a shuffled open": Mutation(lambda: made(RandomOpen), STREAMS),
    "open loses its last token": Mutation(lambda: made(OpenLosesItsLastToken), STREAMS),
    "open loses the system prompt": Mutation(lambda: made(OpenWithoutSystem), {SYSTEM, ROUNDS}),
    "open loses the tools": Mutation(lambda: made(OpenWithoutTools), STREAMS),
    "a newline is lost": Mutation(lambda: made(LosesANewline), STREAMS - {CUT}, "1 of"),
    "a turn ends twice": Mutation(lambda: made(EndsTwice), STREAMS - {CUT}, "1 of"),
    "a cut turn stays open": Mutation(lambda: made(LeavesCutTurnsOpen), {CUT}),
    "an end that merged": Mutation(lambda: made(TripsOverMergedEnds), {NEWLINE}),
    "a second result is lost": Mutation(lambda: made(DropsParallelResults), {PARALLEL}),
    "results are refused": Mutation(lambda: made(RefusesResults), TOOLS, "can't be rendered: no"),
    "calls are not read": Mutation(lambda: made(DropsCalls), {ONE_CALL, TWO_CALLS}),
    "a second call is not read": Mutation(lambda: made(DropsSecondCall), {TWO_CALLS}),
    "arguments lose their types": Mutation(
        lambda: made(WritesArgumentsAsText), {ONE_CALL, TWO_CALLS}, "expected look_up"
    ),
    "the wrong format": Mutation(
        lambda: made(TemplateRenderer, format="llama-json"), {ONE_CALL, TWO_CALLS}
    ),
    "reasoning comes back as content": Mutation(
        lambda: made(LeavesReasoningInContent, THINKING), {WORDS}
    ),
    "reasoning is lost": Mutation(lambda: made(LosesReasoning, THINKING), {WORDS}),
    "the template's end is unknown": Mutation(
        lambda: made(StopsAtEosAlone), {END}, "ends a turn with <|im_end|>, sampling stops at <|eos"
    ),
    "a stop token inside a turn": Mutation(lambda: made(StopsAtCalls), {STOPS}, "<tool_call>"),
    "a stop string inside a turn": Mutation(
        lambda: made(StopsInsideThoughts, THINKING), {STOPS}, "look it"
    ),
    "a needless fall-back format": Mutation(needless_fallback, {CALL_FORMAT}, "but hermes reads"),
    "a needless fall-back": Mutation(system_put_into_the_question, {FALL_BACKS}),
    "a rewriting is overlooked": Mutation(
        lambda: judging_rewrites(judged=False, name=THINKING), {HISTORY}, "overlooks"
    ),
    "a rewriting is imagined": Mutation(
        lambda: judging_rewrites(judged=True, name=APPENDING), {HISTORY}, "which it doesn't"
    ),
    "system text is believed": Mutation(lambda: trusting("system"), {FORGERY}, "system prompt"),
    "user text is believed": Mutation(lambda: trusting("user"), {FORGERY}, "user's text"),
    "tool text is believed": Mutation(lambda: trusting("tool"), {FORGERY}, "tool's result"),
    "assistant text is believed": Mutation(
        lambda: trusting("assistant"), {FORGERY}, "assistant's text, reasoning, arguments"
    ),
    "descriptions are believed": Mutation(
        lambda: made(BelievesDescriptions), {FORGERY}, "tool's description"
    ),
}


def failed(report: TemplateReport) -> dict[str, str]:
    return {f.name: f.detail for f in report.findings if f.passed is False}


@pytest.mark.parametrize("name", MUTATIONS)
def test_a_broken_renderer_is_caught_by_its_line(name: str) -> None:
    mutation = MUTATIONS[name]
    report = check_template(mutation.broken())
    assert report.verdict == "NO"
    assert str(report).startswith("sampled tokens are kept: NO")
    assert set(failed(report)) == mutation.caught_by
    assert mutation.says in " ".join(failed(report).values())


@pytest.mark.parametrize("name", [APPENDING, THINKING])
def test_a_sound_renderer_holds_every_line(name: str) -> None:
    report = check_template(sound(name))
    assert report.verdict == "yes"
    assert all(finding.passed for finding in report.findings)


def test_every_line_has_a_mutation() -> None:
    lines = {finding.name for finding in check_template(sound(APPENDING)).findings}
    assert lines == set().union(*(mutation.caught_by for mutation in MUTATIONS.values()))


def test_a_difference_is_shown_with_both_sides_and_its_tokens() -> None:
    detail = failed(check_template(made(LosesANewline)))[QUESTION]
    ours, theirs = detail.split(": ", 1)[1].split(" vs. ")
    assert "<|im_end|><|im_start|>user" in ours
    assert r"<|im_end|>\n<|im_start|>user" in theirs
    assert detail.startswith("1 of ")


def test_without_transformers_nothing_is_claimed(monkeypatch: pytest.MonkeyPatch) -> None:
    missing = staticmethod(lambda: "transformers is not installed")
    monkeypatch.setattr(ReferenceRenderer, "missing", missing)
    report = check_template(sound(APPENDING))
    assert (report.verdict, report.ok) == ("not checked", False)
    assert "every line: not checked; transformers is not installed" in report.lines()


def test_a_template_that_hangs_over_some_conversations_is_not_vouched_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(template_module, "RENDER_SECONDS", 0.1)
    monkeypatch.setattr(template_module, "_LEAST_SECONDS", 0.01)
    loops = "{% for i in range(99999) %}{% for j in range(99999) %}{% endfor %}{% endfor %}"
    report = check_template(
        bare_renderer(f"{{% if messages|length > 3 %}}{loops}{{% endif %}}{CHATML}")
    )
    assert report.verdict == "NO"
    assert "stopped after" in failed(report)[ROUNDS]
