"""Rendering a whole conversation: the first prompt, and a fresh one where a stream is cut."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from agentfly.chat.align import align, around
from agentfly.chat.dialect import Dialect, mark, text_view
from agentfly.chat.fallback import adapt, results_as_user, teach_tools
from agentfly.chat.formats import CallFormat
from agentfly.chat.safe_encode import Piece, SafeEncoder
from agentfly.chat.template import ChatTemplate
from agentfly.errors import ConfigError
from agentfly.types import Message, ToolSpec

_OTHERS = ("user", "tool")
"""Roles whose words are not to be trusted. A system prompt and an assistant's earlier turns may
hold special tokens on purpose, such as an example of a tool call."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ConversationWriter:
    """Renders whole conversations with one template."""

    template: ChatTemplate
    dialect: Dialect
    encoder: SafeEncoder
    call_format: CallFormat

    def text(
        self,
        messages: Sequence[Message],
        tools: Sequence[ToolSpec],
        *,
        add_generation_prompt: bool = True,
    ) -> str:
        """Render a conversation as plain text."""
        return self._settle(messages, tools, add_generation_prompt=add_generation_prompt)[0]

    def pieces(self, messages: Sequence[Message], tools: Sequence[ToolSpec]) -> list[Piece]:
        """Render a conversation and the next generation prompt, knowing whose words are whose."""
        text, worded, shown = self._settle(messages, tools, add_generation_prompt=True)
        pieces = self._align(text, worded, shown)
        if pieces is not None:
            return pieces
        if any(m.role in _OTHERS and self.encoder.forges(m.content) for m in worded):
            text = self._render([self._harmless(message) for message in worded], shown)
        return [Piece(text, trusted=True)]

    def _settle(
        self, messages: Sequence[Message], tools: Sequence[ToolSpec], *, add_generation_prompt: bool
    ) -> tuple[str, list[Message], Sequence[ToolSpec]]:
        """Render the first wording that the template takes; return it with the text."""
        shown = tools if self.dialect.tools else ()
        refusals: list[ConfigError] = []
        for worded in self._wordings(messages, tools):
            try:
                text = self._render(worded, shown, add_generation_prompt=add_generation_prompt)
            except ConfigError as error:
                refusals.append(error)
            else:
                return text, worded, shown
        raise refusals[0]

    def _wordings(
        self, messages: Sequence[Message], tools: Sequence[ToolSpec]
    ) -> Iterator[list[Message]]:
        """Yield the conversation as this template should like it, then with alternating turns."""
        if tools and not self.dialect.tools:
            messages = teach_tools(messages, tools, self.call_format)
        worded = adapt(messages, self.dialect, self.call_format)
        plain = [replace(m, content=text_view(m), images=()) for m in worded]
        yield plain
        yield results_as_user(plain)

    def _align(
        self, text: str, messages: Sequence[Message], tools: Sequence[ToolSpec]
    ) -> list[Piece] | None:
        places = [i for i, message in enumerate(messages) if message.role in _OTHERS]
        marked = [replace(m, content=mark(i)) if i in places else m for i, m in enumerate(messages)]
        try:
            fixed = around(self._render(marked, tools), [mark(i) for i in places])
        except ConfigError:
            return None
        return align(text, fixed, [messages[i].content for i in places]) if fixed else None

    def _harmless(self, message: Message) -> Message:
        if message.role not in _OTHERS:
            return message
        return replace(message, content=self.encoder.neutralise(message.content))

    def _render(
        self,
        messages: Sequence[Message],
        tools: Sequence[ToolSpec],
        *,
        add_generation_prompt: bool = True,
    ) -> str:
        return self.template.render(
            [self.dialect.write(message) for message in messages],
            [tool.to_openai() for tool in tools],
            add_generation_prompt=add_generation_prompt,
        )
