"""Rendering a whole conversation: the first prompt, and a fresh one where a stream is cut."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from agentfly.chat.capabilities import Capabilities, text_view
from agentfly.chat.chat_template import ChatTemplate
from agentfly.chat.fallback import adapt, add_tool_instructions, results_as_user
from agentfly.chat.formats import CallFormat
from agentfly.chat.safe_encode import Piece
from agentfly.chat.taint import Swap, Taint
from agentfly.errors import ConfigError
from agentfly.types import Message, ToolSpec


@dataclass(frozen=True, slots=True, kw_only=True)
class ConversationWriter:
    """Renders whole conversations with one template."""

    template: ChatTemplate
    capabilities: Capabilities
    taint: Taint
    call_format: CallFormat

    def text(
        self,
        messages: Sequence[Message],
        tools: Sequence[ToolSpec],
        *,
        add_generation_prompt: bool = True,
    ) -> str:
        """Render a conversation as plain text, in the first wording that the template takes."""
        refusals: list[ConfigError] = []
        for worded in self.wordings(messages, tools):
            try:
                return self._render(worded, tools, add_generation_prompt=add_generation_prompt)
            except ConfigError as error:
                refusals.append(error)
        raise refusals[0]

    def pieces(self, messages: Sequence[Message], tools: Sequence[ToolSpec]) -> list[Piece]:
        """Render a conversation and the next generation prompt, knowing whose words are whose."""

        def render(swap: Swap) -> str:
            return self.text(list(map(swap.message, messages)), list(map(swap.tool, tools)))

        return self.taint.pieces(render)

    def wordings(
        self, messages: Sequence[Message], tools: Sequence[ToolSpec]
    ) -> Iterator[list[Message]]:
        """Yield the conversation as this template should like it, then with alternating turns."""
        if tools and not self.capabilities.tools:
            messages = add_tool_instructions(messages, tools, self.call_format)
        worded = adapt(messages, self.capabilities, self.call_format)
        plain = [replace(m, content=text_view(m), images=()) for m in worded]
        yield plain
        yield results_as_user(plain)

    def _render(
        self,
        messages: Sequence[Message],
        tools: Sequence[ToolSpec],
        *,
        add_generation_prompt: bool = True,
    ) -> str:
        return self.template.render(
            [self.capabilities.write(message) for message in messages],
            [tool.to_openai() for tool in tools] if self.capabilities.tools else [],
            add_generation_prompt=add_generation_prompt,
        )
