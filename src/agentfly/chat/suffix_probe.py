"""The suffix that follows a sampled turn, found on a short probe conversation.

A probe is one user message, one assistant turn and the replies. Rendered once with marks in place
of the replies it gives a *skeleton*: the template's own text around them, and the end of the turn.
Rendered again with the real replies it gives the suffix. The real history is never rendered again.
Tools and names are rendered with stand-ins (see `taint`): a template that searches them for special
tokens finds none.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from typing import Any

from agentfly.chat.capabilities import Capabilities, mark, text_view
from agentfly.chat.chat_template import ChatTemplate
from agentfly.chat.conversation_writer import as_one_user, results_as_user
from agentfly.chat.formats.marks import text_around
from agentfly.chat.safe_encode import Piece, SafeEncoder, splice
from agentfly.chat.suffix import (
    Suffix,
    TurnEnd,
    find_turn_end,
    length_of_call_close,
    without_generation_prompt,
)
from agentfly.chat.taint import Swap, Taint, pieces_behind, rare_letters
from agentfly.errors import ConfigError
from agentfly.types import Message, ToolCall, ToolSpec

_SKELETONS = 512
"""Maximum number of cached skeletons: one for each order of replies with their names and ids."""

_TOOLS = 64
"""Maximum number of sets of tools whose form with stand-ins is cached."""

_QUESTION = Message(role="user", content="zquestionqz")
_SAID = "zqsaidqz"
_THOUGHT = "zqthoughtqz"

Arrange = Callable[[Sequence[Message]], list[Message]]
Shape = tuple[tuple[Any, str | None, str | None], ...]
"""Role, name and call id of each reply."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Skeleton:
    """A template's own text around replies of one shape."""

    arrange: Arrange
    """Function that arranges replies as this template accepts them."""
    messages: tuple[dict[str, Any], ...]
    """The probe's question (or the history) and turn, as the template reads them."""
    tools: tuple[dict[str, Any], ...]
    """As the template reads them; none where they don't change the suffix."""
    before: str
    """The probe up to the end of the assistant's turn and what closes it."""
    fixed: tuple[str, ...]
    """Behind that, around the replies: one more than there are messages."""
    end: TurnEnd


@dataclass(frozen=True, slots=True, kw_only=True)
class ReasoningClose:
    """Text around the reasoning of a turn."""

    opening: str
    """Text between the prompt and the reasoning."""
    between: str
    """Text between the reasoning and the answer."""


class _WordedOtherwiseError(Exception):
    """The template renders the probe differently, or refuses it, because of the replies' text."""


class _SameTools:
    """Tools as a cache key: compared by identity, and kept alive so that ids stay unique."""

    def __init__(self, tools: Sequence[ToolSpec]) -> None:
        self.tools = tuple(tools)
        self._key = tuple(map(id, self.tools))

    def __hash__(self) -> int:
        return hash(self._key)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _SameTools) and self._key == other._key


class SuffixProbe:
    """Finds suffixes, and caches skeletons."""

    def __init__(
        self, template: ChatTemplate, capabilities: Capabilities, encoder: SafeEncoder, taint: Taint
    ) -> None:
        self._template = template
        self._capabilities = capabilities
        self._encoder = encoder
        self._taint = taint
        self._cached = lru_cache(maxsize=_SKELETONS)(self._make)
        self._last_tools = _SameTools(())
        self._inert = lru_cache(maxsize=_TOOLS)(self._make_inert)

    def suffix(
        self,
        replies: Sequence[Message],
        tools: Sequence[ToolSpec],
        before: Sequence[Message] = (),
    ) -> Suffix:
        """Return what follows a turn that these replies answer.

        `before` is what came before the turn, for templates that need it (`needs_history`).
        """
        said = "".join(map(_all_text, (*replies, *before)))
        swap, inert_tools = self._inert(self._same(tools), rare_letters(said))
        named = [_with_name(swap, reply) for reply in replies]
        skeleton = self._skeleton(named, inert_tools, tuple(map(swap.message, before)))
        pieces = pieces_behind(swap, self._fill(skeleton, named))
        return Suffix(end=skeleton.end, pieces=tuple(pieces))

    def skeleton(self, replies: Sequence[Message], tools: Sequence[ToolSpec]) -> Skeleton:
        """Return the template's own text around replies of this shape."""
        return self._skeleton(replies, self._inert(self._same(tools), frozenset())[1])

    def _skeleton(
        self,
        replies: Sequence[Message],
        tools: _SameTools,
        lead: tuple[Message, ...] = (),
    ) -> Skeleton:
        shape = tuple([(reply.role, reply.name, reply.tool_call_id) for reply in replies])
        if not lead:
            return self._cached(shape, tools)
        try:
            return self._make(shape, tools, lead)
        except ConfigError:
            return self._cached(shape, tools)

    def reasoning_close(self) -> ReasoningClose | None:
        """Find how the last turn's reasoning is closed; None if it isn't rendered."""
        turn = Message(role="assistant", content=_SAID, reasoning=_THOUGHT)
        try:
            prompt = self._render([_QUESTION], ())
            text = self._render([_QUESTION, turn], (), add_generation_prompt=False)
        except ConfigError:
            return None
        opening, thought, rest = text.removeprefix(prompt).partition(_THOUGHT)
        between, said, _ = rest.partition(_SAID)
        shown = text.startswith(prompt) and thought and said
        return ReasoningClose(opening=opening, between=between) if shown else None

    @cached_property
    def needs_history(self) -> bool:
        """True if a suffix depends on what came before the turn.

        Some templates number the calls of a conversation, or move the system prompt along. Their
        suffixes are found on the whole history, which costs more the longer it gets.
        """
        said = Message(role="assistant", content=_SAID)
        answer = Message(role="tool", content="x", name="zqtoolqz", tool_call_id="call_9")
        leads: list[tuple[Message, ...]] = [(_QUESTION, said, _QUESTION)]
        if self._capabilities.calls and self._capabilities.tool_messages:
            leads.append((_QUESTION, _calling([answer]), answer))
        if self._capabilities.system:
            system = Message(role="system", content="zqsystemqz")
            # Bielik counts messages without the system prompt, and looks them up with it.
            leads += [(system, _QUESTION), *((system, *lead) for lead in leads)]
        shapes: list[Shape] = [(("user", None, None),), (("tool", "zqtoolqz", "call_0"),)]
        return any(self._differs(shape, lead) for lead in leads for shape in shapes)

    def _differs(self, shape: Shape, lead: tuple[Message, ...]) -> bool:
        try:
            plain = self._cached(shape, _SameTools(()))
            led = self._make(shape, _SameTools(()), lead)
        except ConfigError:
            return False
        return (plain.fixed, plain.end) != (led.fixed, led.end)

    def _same(self, tools: Sequence[ToolSpec]) -> _SameTools:
        # Chains that were read from a file have equal tools, but each its own.
        same = self._last_tools
        if same.tools != tuple(tools):
            same = self._last_tools = _SameTools(tools)
        return same

    def _make_inert(self, same: _SameTools, avoid: frozenset[str]) -> tuple[Swap, _SameTools]:
        swap = self._taint.inert("".join([*avoid, *map(repr, same.tools)]))
        return swap, _SameTools(tuple(map(swap.tool, same.tools)))

    def _fill(self, skeleton: Skeleton, replies: Sequence[Message]) -> list[Piece]:
        def render(swap: Swap) -> str:
            return self._rest(skeleton, skeleton.arrange(list(map(swap.message, replies))))

        try:
            return self._taint.pieces(render)
        except _WordedOtherwiseError:
            return splice(skeleton.fixed, list(map(text_view, skeleton.arrange(replies))))

    def _rest(self, skeleton: Skeleton, replies: Sequence[Message]) -> str:
        """Render the probe with the real replies."""
        written = map(self._capabilities.write, replies)
        try:
            text = self._template.render(
                [*skeleton.messages, *written], skeleton.tools, add_generation_prompt=True
            )
        except ConfigError as error:
            raise _WordedOtherwiseError from error
        if not text.startswith(skeleton.before):
            raise _WordedOtherwiseError
        return text[len(skeleton.before) :]

    def _make(
        self, shape: Shape, same: _SameTools, lead: tuple[Message, ...] = (_QUESTION,)
    ) -> Skeleton:
        replies = [
            Message(role=role, name=name, tool_call_id=call_id) for role, name, call_id in shape
        ]
        tools = same.tools if self._capabilities.tools else ()
        refusals: list[str] = []
        for arrange in self._arrangements():
            arranged = [replace(m, content=mark(i)) for i, m in enumerate(arrange(replies))]
            for turn in self._turns(arranged):
                try:
                    # With a history, a skeleton is used once.
                    find = self._cheapest if lead == (_QUESTION,) else self._measure
                    return find(arrange, (*lead, turn), arranged, tools)
                except ConfigError as error:
                    refusals.append(str(error))
        roles = ", ".join(reply.role for reply in replies)
        raise ConfigError(f"the chat template can't answer a turn with ({roles}): {refusals[0]}")

    def _arrangements(self) -> Iterator[Arrange]:
        if self._capabilities.tool_messages:
            yield list
        yield results_as_user
        yield as_one_user

    def _turns(self, replies: Sequence[Message]) -> Iterator[Message]:
        """Yield turns that such replies could answer, the most fitting first."""
        answers = [reply for reply in replies if reply.role == "tool"]
        if answers and self._capabilities.calls:
            yield _calling(answers)
            if len(answers) > 1:
                yield _calling(answers[:1])
        yield Message(role="assistant", content=_SAID)

    def _cheapest(
        self,
        arrange: Arrange,
        asked: tuple[Message, ...],
        replies: Sequence[Message],
        tools: tuple[ToolSpec, ...],
    ) -> Skeleton:
        """Leave the tools and the calls out of the probe where they don't change the suffix."""
        full = self._measure(arrange, asked, replies, tools)
        said = (*asked[:-1], Message(role="assistant", content=_SAID))
        for turns in dict.fromkeys((said, asked)):
            try:
                bare = self._measure(arrange, turns, replies, ())
            except ConfigError:
                continue
            same = (bare.fixed, bare.end) == (full.fixed, full.end)
            if same and self._emptied(bare, replies) == self._emptied(full, replies):
                return bare
        return full

    def _emptied(self, skeleton: Skeleton, replies: Sequence[Message]) -> str | None:
        """Return what replies without text give; None if the template words the probe otherwise."""
        try:
            return self._rest(skeleton, [replace(reply, content="") for reply in replies])
        except _WordedOtherwiseError:
            return None

    def _measure(
        self,
        arrange: Arrange,
        asked: tuple[Message, ...],
        replies: Sequence[Message],
        tools: tuple[ToolSpec, ...],
    ) -> Skeleton:
        text = self._render([*asked, *replies], tools)
        start, last = self._end_of(asked, text, tools)
        fixed = text_around(text[start:], [reply.content for reply in replies])
        if fixed is None:
            raise ConfigError("it doesn't show each reply exactly once, in order")
        end = find_turn_end(last, fixed[0], self._encoder.pattern)
        if end.opens_reply and replies and replies[0].role == "user":
            # A token that opens user messages also precedes the first of them.
            opens = end.tokens[0] in text.partition(_QUESTION.content)[0]
            end = replace(end, opens_reply=opens)
        closed = start + len(end.closing)
        return Skeleton(
            arrange=arrange,
            messages=tuple(map(self._capabilities.write, asked)),
            tools=tuple(tool.to_openai() for tool in tools),
            before=text[:closed],
            fixed=(fixed[0][len(end.closing) :], *fixed[1:]),
            end=end,
        )

    def _end_of(
        self, asked: tuple[Message, ...], text: str, tools: tuple[ToolSpec, ...]
    ) -> tuple[int, str]:
        """Return where the turn's own text ends, and what follows it in a last message."""
        *lead, turn = asked
        plain = self._behind(_SAID, [*lead, Message(role="assistant", content=_SAID)], tools)
        if not turn.tool_calls:
            return _position_behind(_SAID, text), plain
        shown = [i for i in range(len(turn.tool_calls)) if _argument(i) in text]
        if not shown:
            raise ConfigError("it doesn't show the calls of a turn")
        last = self._behind(_argument(shown[-1]), asked, tools)
        length = length_of_call_close(
            last, self._between_calls(turn, tools), plain, self._encoder.pattern
        )
        start = _position_behind(_argument(shown[-1]), text)
        if not text.startswith(last[:length], start):
            raise ConfigError("it words a turn otherwise once replies follow")
        return start + length, last[length:]

    def _behind(self, words: str, messages: Sequence[Message], tools: tuple[ToolSpec, ...]) -> str:
        """Return what follows the text of a conversation's last message."""
        text = self._render(messages, tools, add_generation_prompt=False)
        last = text[_position_behind(words, text) :]
        if self._always_prompts:
            return without_generation_prompt(last, self._always_prompts, self._encoder.pattern)
        return self._up_to_other_message(last)

    def _up_to_other_message(self, last: str) -> str:
        """Leave out a message that a template (Command R+) puts behind every conversation."""
        pattern, opener = self._encoder.pattern, self._opener
        before, opened, message = last.partition(opener) if opener else (last, "", "")
        # An assistant message without text (DeepSeek R1 writes one) is a part of the turn.
        return before if pattern and opened and pattern.sub("", message).strip() else last

    @cached_property
    def _opener(self) -> str:
        """The special token with which the generation prompt opens a message; empty if none."""
        try:
            asked, prompted = (
                self._render([_QUESTION], (), add_generation_prompt=prompt)
                for prompt in (False, True)
            )
        except ConfigError:
            return ""
        pattern = self._encoder.pattern
        found = pattern.search(prompted.removeprefix(asked)) if pattern else None
        return found.group() if found and prompted.startswith(asked) else ""

    @cached_property
    def _always_prompts(self) -> tuple[str, ...]:
        """Renderings that end with a generation prompt although none was asked for, if so."""
        said = Message(role="assistant", content=_SAID)
        try:
            texts = [
                [self._render(messages, (), add_generation_prompt=asked) for asked in (True, False)]
                for messages in ([_QUESTION], [_QUESTION, said], [_QUESTION, said, _QUESTION])
            ]
        except ConfigError:
            return ()
        same = all(prompted == unprompted for prompted, unprompted in texts)
        return tuple(text for text, _ in texts) if same else ()

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
            [self._capabilities.write(message) for message in messages],
            [tool.to_openai() for tool in tools],
            add_generation_prompt=add_generation_prompt,
        )


def _all_text(message: Message) -> str:
    said = (message.content, message.reasoning, message.name, message.tool_call_id)
    text = "".join(filter(None, said))
    for image in message.images:
        text += image.media_type
    for call in message.tool_calls:
        text += f"{call.id}{call.name}{call.arguments}"
    return text


def _with_name(swap: Swap, reply: Message) -> Message:
    """Put stand-ins into the name and the call's id: the model may have made them up."""
    name = None if reply.name is None else swap.text(reply.name)
    call_id = None if reply.tool_call_id is None else swap.text(reply.tool_call_id)
    if (name, call_id) == (reply.name, reply.tool_call_id):
        return reply
    return replace(reply, name=name, tool_call_id=call_id)


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
