"""An engine as a chat model, for judges and other uses that want messages and no tokens."""

from collections.abc import Sequence

from agentfly.errors import EngineError, boundary
from agentfly.rollout.model_session import sample_turn, with_stops
from agentfly.types import (
    Engine,
    Message,
    Renderer,
    Request,
    SamplingParams,
    Seed,
    ToolSpec,
)


class EngineChat:
    """Renders, samples and reads: `llm_judge(EngineChat(engine, renderer), rubric)`."""

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
