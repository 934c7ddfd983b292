"""Parsing back what a template writes: its calls, its text, its ends of turns."""

import json
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from agentfly.chat.formats import FORMATS
from agentfly.chat.template_check.expected_turn import expect_turn
from agentfly.chat.template_check.reference_renderer import TOOL, ReferenceRenderer
from agentfly.chat.template_check.scenarios import QUESTION, Sampled, sample
from agentfly.chat.template_renderer import TemplateRenderer
from agentfly.errors import ConfigError
from agentfly.types import Completion, FinishReason, Message, ToolCall, ToolSpec

_TYPED: dict[str, Any] = {"query": "Zürich, 好", "days": 3, "exact": True, "tags": ["a", "b c"]}
_TYPED_TOOL = ToolSpec(
    name=TOOL.name,
    description=TOOL.description,
    parameters={
        "type": "object",
        "properties": {
            "query": {"type": "string"},
            "days": {"type": "integer"},
            "exact": {"type": "boolean"},
            "tags": {"type": "array", "items": {"type": "string"}},
        },
        "required": ["query"],
    },
)
_PARIS, _ROME = {"query": "Paris"}, {"query": "Rome"}
ONE_CALL: tuple[tuple[dict[str, Any], ...], ...] = ((_PARIS,), (_TYPED,))
TWO_CALLS: tuple[tuple[dict[str, Any], ...], ...] = ((_PARIS, _ROME), (_TYPED, _ROME))

Read = Callable[[Completion], Sequence[ToolCall]]


class TemplateCalls:
    """A template's own text of calls, by transformers; nothing where it shows none."""

    def __init__(self, renderer: TemplateRenderer, reference: ReferenceRenderer) -> None:
        self._renderer = renderer
        self._reference = reference
        self.one = self._shown(ONE_CALL)
        self.two = self._shown(TWO_CALLS)

    def unread(self, turns: Sequence[tuple[Message, str]]) -> str | None:
        """Return how the renderer fails to parse calls back; None if it parses them all."""
        for message, text in turns:
            completion = sample(self._renderer, text, FinishReason.STOP)
            problem = calls_problem(self._renderer, message, completion)
            if problem:
                return problem
        return None

    def readers(self) -> list[str]:
        """Return the known formats that read all these calls."""
        turns = [*self.one, *self.two]
        native = (f for f in FORMATS.values() if f.instructions([TOOL]) is None)
        return [
            known.name
            for known in native
            if turns
            if all(
                _same(known.typed(known.read(text).calls, [_TYPED_TOOL]), message.tool_calls)
                for message, text in turns
            )
        ]

    def _shown(self, turns: Sequence[tuple[dict[str, Any], ...]]) -> list[tuple[Message, str]]:
        calling = [
            Message(role="assistant", tool_calls=self._reference.calls(*arguments))
            for arguments in turns
        ]
        texts = [(message, self._text(message)) for message in calling]
        return [(message, text) for message, text in texts if text]

    def _text(self, turn: Message) -> str:
        """Return a turn with its end; nothing if not every call shows."""
        reference = self._reference
        if not reference.capabilities.calls:
            return ""
        tools = [TOOL] if reference.capabilities.tools else []
        pattern = self._renderer.encoder.pattern

        def render(messages: Sequence[Message], *, prompt: bool) -> str:
            return reference.text(messages, tools, prompt=prompt)

        try:
            text = expect_turn(render, [QUESTION], turn, self._replies(turn), pattern).sampled
        except ConfigError:
            return ""
        words = [json.loads(call.arguments)["query"] for call in turn.tool_calls]
        return text if all(word in text for word in words) else ""

    def _replies(self, turn: Message) -> list[Message]:
        if not self._reference.capabilities.tool_messages:
            return [Message(role="user", content="Nobody answers.")]
        return [
            Message(role="tool", content=f"Answer {n}", name=call.name, tool_call_id=call.id)
            for n, call in enumerate(turn.tool_calls)
        ]


def calls_problem(
    renderer: TemplateRenderer, message: Message, completion: Completion
) -> str | None:
    """Return how parsed calls differ from the original ones; None if they are the same."""
    read = renderer.parse(completion, [_TYPED_TOOL]).message.tool_calls
    if _same(read, message.tool_calls):
        return None
    made = ", ".join(f"{call.name}{call.arguments}" for call in message.tool_calls)
    got = ", ".join(call.problem or f"{call.name}{call.arguments}" for call in read)
    text = renderer.decode(completion.token_ids)
    return f"{text!r} is read as {got or 'no call'}, expected {made}"


def content_problem(renderer: TemplateRenderer, turn: Sampled) -> str | None:
    """Return how a turn's parsed text differs from the original; None if they are the same."""
    if not turn.expected.as_prompted:
        return None
    read = renderer.parse(turn.completion, [_TYPED_TOOL]).message
    said = turn.message
    if not _same(read.tool_calls, said.tool_calls):
        return None  # the lines on calls say so
    if read.content.strip() != said.content.strip():
        return f"{turn.expected.sampled!r} is read as {read.content!r}, expected {said.content!r}"
    thought = said.reasoning
    if thought and thought in turn.expected.own and (read.reasoning or "").strip() != thought:
        return (
            f"the reasoning of {turn.expected.sampled!r} is read as {read.reasoning!r}, "
            f"expected {thought!r}"
        )
    return None


def sampled_until_stop(renderer: TemplateRenderer, completion: Completion) -> int | None:
    """Return how many tokens an engine samples of a turn; None if nothing stops it."""
    ids, stops = completion.token_ids, frozenset(renderer.stop_token_ids)
    for length, token in enumerate(ids, 1):
        if token in stops and not (length < len(ids) and renderer.goes_on(_head(ids, length))):
            return length
        text = renderer.decode(ids[:length]) if renderer.stop_strings else ""
        if any(string in text for string in renderer.stop_strings):
            return length
    return None


def _head(ids: tuple[int, ...], length: int) -> Completion:
    return Completion(
        token_ids=ids[:length],
        logprobs=(0.0,) * length,
        versions=((0, length),),
        finish_reason=FinishReason.STOP,
    )


def _same(read: Sequence[ToolCall], made: Sequence[ToolCall]) -> bool:
    if len(read) != len(made) or any(call.problem or call.repaired for call in read):
        return False
    return list(_meant(read)) == list(_meant(made))


def _meant(calls: Sequence[ToolCall]) -> Iterator[tuple[str, object]]:
    for call in calls:
        yield call.name, json.loads(call.arguments)
