"""A chat server that is spoken to in a textual format, of which the server itself knows nothing."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from agentfly.agents.kind import with_system_prompt
from agentfly.chat.formats import CallFormat
from agentfly.types import ChatModel, Message, SamplingParams, ToolSpec


@dataclass(frozen=True, slots=True)
class TextualChatModel:
    """Teaches the format in the system prompt, and finds the calls in what the model says."""

    inner: ChatModel
    call_format: CallFormat

    async def reply(
        self,
        messages: Sequence[Message],
        tools: Sequence[ToolSpec],
        params: SamplingParams,
        *,
        deadline: float,
    ) -> Message:
        """Answer the conversation."""
        stopping = replace(params, stop=(*params.stop, *self.call_format.stop_strings))
        shown = [self._as_text(message) for message in messages]
        taught = self.call_format.instructions(tools) if tools else None
        if taught is not None:
            shown = with_system_prompt(shown, taught)
        declared = tools if taught is None else ()
        said = await self.inner.reply(shown, declared, stopping, deadline=deadline)
        reading = self.call_format.read(said.content)
        calls = self.call_format.typed(reading.calls, tools)
        return replace(said, content=reading.content, tool_calls=calls)

    def _as_text(self, message: Message) -> Message:
        if not message.tool_calls:
            return message
        text = self.call_format.write(message.tool_calls, message.content)
        return replace(message, content=text, tool_calls=())
