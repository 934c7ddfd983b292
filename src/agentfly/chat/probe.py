"""The suffix that follows a sampled turn, found on a short probe conversation.

A probe is one user's message, one assistant's turn and the replies. Rendered once with marks in the
replies' places it gives a *skeleton*: the template's own text around them. Rendered again with the
real replies it must give the same text around the real words, which proves which characters are the
template's and which are not. The real history is never rendered again.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

from agentfly.chat.align import align, around, splice
from agentfly.chat.dialect import Dialect, mark, text_view
from agentfly.chat.fallback import as_one_user, results_as_user
from agentfly.chat.safe_encode import Piece, SafeEncoder
from agentfly.chat.template import ChatTemplate
from agentfly.chat.turn_end import TurnEnd, find_turn_end, length_of_call_close
from agentfly.errors import ConfigError
from agentfly.types import Message, ToolCall, ToolSpec

_SKELETONS = 512
"""Kept per renderer: one for each order of replies, with their tools' names and ids."""

_QUESTION = Message(role="user", content="zquestionqz")
_SAID = "zqsaidqz"

Arrange = Callable[[Sequence[Message]], list[Message]]
Shape = tuple[tuple[Any, str | None, str | None], ...]
"""Role, name and call id of each reply."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Suffix:
    """What follows a sampled turn."""

    end: TurnEnd
    pieces: tuple[Piece, ...]
    """All text behind `end.closing`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Skeleton:
    """A template's own text around replies of one shape."""

    arrange: Arrange
    """How replies must be worded for this template."""
    asked: tuple[dict[str, Any], ...]
    """The probe's question and turn, as the template reads them."""
    tools: tuple[dict[str, Any], ...]
    """As the template reads them; none where they don't change the suffix."""
    before: str
    """The probe up to the end of the assistant's turn and what closes it."""
    fixed: tuple[str, ...]
    """Behind that, around the replies: one more than there are messages."""
    end: TurnEnd


class _SameTools:
    """Tools as a key: the very same objects, kept alive so that their identity stays theirs."""

    def __init__(self, tools: Sequence[ToolSpec]) -> None:
        self.tools = tuple(tools)
        self._key = tuple(map(id, self.tools))

    def __hash__(self) -> int:
        return hash(self._key)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _SameTools) and self._key == other._key


class SuffixProbe:
    """Finds suffixes, and keeps the skeletons it has made."""

    def __init__(self, template: ChatTemplate, dialect: Dialect, encoder: SafeEncoder) -> None:
        self._template = template
        self._dialect = dialect
        self._encoder = encoder
        self._cached = lru_cache(maxsize=_SKELETONS)(self._make)
        self._last_tools: tuple[ToolSpec, ...] = ()

    def suffix(self, replies: Sequence[Message], tools: Sequence[ToolSpec]) -> Suffix:
        """Return what follows a turn that these replies answer."""
        named = [self._harmless(reply) for reply in replies]
        skeleton = self.skeleton(named, tools)
        pieces = self._fill(skeleton, skeleton.arrange(named))
        return Suffix(end=skeleton.end, pieces=tuple(pieces))

    def skeleton(self, replies: Sequence[Message], tools: Sequence[ToolSpec]) -> Skeleton:
        """Return the template's own text around replies of this shape."""
        shape = tuple((reply.role, reply.name, reply.tool_call_id) for reply in replies)
        # Chains that were read from a file have equal tools, but each its own.
        if self._last_tools != tuple(tools):
            self._last_tools = tuple(tools)
        return self._cached(shape, _SameTools(self._last_tools))

    def _harmless(self, reply: Message) -> Message:
        """Names and ids may be the model's inventions, and land in the template's own text."""
        name, call_id = reply.name, reply.tool_call_id
        if not any(map(self._encoder.forges, (name or "", call_id or ""))):
            return reply
        clean = self._encoder.neutralise
        return replace(reply, name=name and clean(name), tool_call_id=call_id and clean(call_id))

    def _fill(self, skeleton: Skeleton, replies: Sequence[Message]) -> list[Piece]:
        words = [text_view(reply) for reply in replies]
        rest = self._rest(skeleton, replies)
        pieces = align(rest, skeleton.fixed, words) if rest is not None else None
        return pieces or self._fill_oddly(skeleton, replies, rest)

    def _fill_oddly(
        self, skeleton: Skeleton, replies: Sequence[Message], rest: str | None
    ) -> list[Piece]:
        """Go on where the template treats these very words in a way of its own."""
        if any(self._encoder.forges(text_view(reply)) for reply in replies):
            replies = [
                replace(reply, content=self._encoder.neutralise(text_view(reply)), images=())
                for reply in replies
            ]
            rest = self._rest(skeleton, replies)
        if rest is None:
            return splice(skeleton.fixed, [text_view(reply) for reply in replies])
        return [Piece(rest, trusted=True)]

    def _rest(self, skeleton: Skeleton, replies: Sequence[Message]) -> str | None:
        """Render the probe with real words; None if they change what comes before them."""
        spoken = map(self._dialect.write, replies)
        try:
            text = self._template.render(
                [*skeleton.asked, *spoken], skeleton.tools, add_generation_prompt=True
            )
        except ConfigError:
            return None
        return text[len(skeleton.before) :] if text.startswith(skeleton.before) else None

    def _make(self, shape: Shape, same: _SameTools) -> Skeleton:
        replies = [
            Message(role=role, name=name, tool_call_id=call_id) for role, name, call_id in shape
        ]
        tools = same.tools if self._dialect.tools else ()
        refusals: list[str] = []
        for arrange in self._arrangements():
            arranged = [replace(m, content=mark(i)) for i, m in enumerate(arrange(replies))]
            for turn in self._turns(arranged):
                try:
                    return self._cheapest(arrange, turn, arranged, tools)
                except ConfigError as error:
                    refusals.append(str(error))
        roles = ", ".join(reply.role for reply in replies)
        raise ConfigError(f"the chat template can't answer a turn with ({roles}): {refusals[0]}")

    def _arrangements(self) -> Iterator[Arrange]:
        if self._dialect.tool_messages:
            yield list
        yield results_as_user
        yield as_one_user

    def _turns(self, replies: Sequence[Message]) -> Iterator[Message]:
        """Yield turns that such replies could answer, the most fitting first."""
        answers = [reply for reply in replies if reply.role == "tool"]
        if answers and self._dialect.calls:
            yield _calling(answers)
            if len(answers) > 1:
                yield _calling(answers[:1])
        yield Message(role="assistant", content=_SAID)

    def _cheapest(
        self,
        arrange: Arrange,
        turn: Message,
        replies: Sequence[Message],
        tools: tuple[ToolSpec, ...],
    ) -> Skeleton:
        """Leave the tools out of the probe where they make no difference to the suffix."""
        full = self._measure(arrange, turn, replies, tools)
        try:
            bare = self._measure(arrange, turn, replies, ())
        except ConfigError:
            return full
        return bare if (bare.fixed, bare.end) == (full.fixed, full.end) else full

    def _measure(
        self,
        arrange: Arrange,
        turn: Message,
        replies: Sequence[Message],
        tools: tuple[ToolSpec, ...],
    ) -> Skeleton:
        text = self._render([_QUESTION, turn, *replies], tools)
        start, last = self._end_of(turn, text, tools)
        fixed = around(text[start:], [reply.content for reply in replies])
        if fixed is None:
            raise ConfigError("it doesn't show each reply exactly once, in order")
        end = find_turn_end(last, fixed[0], self._encoder.pattern)
        closed = start + len(end.closing)
        return Skeleton(
            arrange=arrange,
            asked=(self._dialect.write(_QUESTION), self._dialect.write(turn)),
            tools=tuple(tool.to_openai() for tool in tools),
            before=text[:closed],
            fixed=(fixed[0][len(end.closing) :], *fixed[1:]),
            end=end,
        )

    def _end_of(self, turn: Message, text: str, tools: tuple[ToolSpec, ...]) -> tuple[int, str]:
        """Return where the turn's own words end, and what follows them in a last message."""
        plain = self._behind(_SAID, Message(role="assistant", content=_SAID), tools)
        if not turn.tool_calls:
            return _position_behind(_SAID, text), plain
        shown = [i for i in range(len(turn.tool_calls)) if _argument(i) in text]
        if not shown:
            raise ConfigError("it doesn't show the calls of a turn")
        last = self._behind(_argument(shown[-1]), turn, tools)
        length = length_of_call_close(
            last, self._between_calls(turn, tools), plain, self._encoder.pattern
        )
        start = _position_behind(_argument(shown[-1]), text)
        if not text.startswith(last[:length], start):
            raise ConfigError("it words a turn otherwise once replies follow")
        return start + length, last[length:]

    def _behind(self, words: str, turn: Message, tools: tuple[ToolSpec, ...]) -> str:
        text = self._render([_QUESTION, turn], tools, add_generation_prompt=False)
        return text[_position_behind(words, text) :]

    def _between_calls(self, turn: Message, tools: tuple[ToolSpec, ...]) -> str:
        name = turn.tool_calls[0].name
        twice = _calling(
            [Message(role="tool", name=name, tool_call_id=f"call_{i}") for i in (0, 1)]
        )
        try:
            text = self._render([_QUESTION, twice], tools, add_generation_prompt=False)
        except ConfigError:
            return ""
        others = text.partition(_argument(0))[2]
        return others.partition(_argument(1))[0] if _argument(1) in others else ""

    def _render(
        self,
        messages: Sequence[Message],
        tools: Sequence[ToolSpec],
        *,
        add_generation_prompt: bool = True,
    ) -> str:
        return self._template.render(
            [self._dialect.write(message) for message in messages],
            [tool.to_openai() for tool in tools],
            add_generation_prompt=add_generation_prompt,
        )


def _argument(index: int) -> str:
    return f"zqarg{index}qz"


def _calling(answers: Sequence[Message]) -> Message:
    """Make the turn that these tool messages answer."""
    calls = tuple(
        ToolCall(
            id=answer.tool_call_id or f"call_{index}",
            name=answer.name or "tool",
            arguments=f'{{"zqkey": "{_argument(index)}"}}',
        )
        for index, answer in enumerate(answers)
    )
    return Message(role="assistant", tool_calls=calls)


def _position_behind(words: str, text: str) -> int:
    position = text.rfind(words)
    if position < 0:
        raise ConfigError("it doesn't show what an assistant said")
    return position + len(words)
