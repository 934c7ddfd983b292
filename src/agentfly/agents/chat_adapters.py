"""Chat models made of other parts: of an engine, or of a server with a textual call format."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from agentfly.agents.kind import with_system_prompt
from agentfly.chat.formats import CallFormat
from agentfly.errors import EngineError, boundary
from agentfly.rollout.model_session import sample_turn, with_stops
from agentfly.types import (
    ChatModel,
    Engine,
    Message,
    Renderer,
    Request,
    SamplingParams,
    Seed,
    ToolSpec,
)


class EngineChat:
    """Engine as a chat model, for judges: `llm_judge(EngineChat(engine, renderer), rubric)`."""

    def __init__(self, engine: Engine, renderer: Renderer, *, seed: int = 0) -> None:
        self._engine = engine
        self._renderer = renderer
        self._seed = Seed(seed)
        self._asked = 0

    async def reply(
        self,
        messages: Sequence[Message],
        tools: Sequence[ToolSpec],
        params: SamplingParams,
        *,
        deadline: float,
    ) -> Message:
        """Answer the conversation."""
        self._asked += 1
        name = f"chat/{self._asked}"
        request = Request(chain_id=name, group_id=name, turn=0, seed=self._seed.child(self._asked))
        with boundary(EngineError, "answering a conversation"):
            completion = await sample_turn(
                self._engine,
                self._renderer,
                self._renderer.open(messages, tools),
                with_stops(params, self._renderer),
                request=request,
                deadline=deadline,
            )
        return self._renderer.parse(completion, tools).message


@dataclass(frozen=True, slots=True)
class TextualChatModel:
    """Chat server with a textual call format that the server itself does not support.

    The system prompt describes the format, and the calls are read from the model's text.
    """

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
