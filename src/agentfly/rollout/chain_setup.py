"""What all chains of one agent have in common."""

from dataclasses import dataclass, field
from typing import Protocol

from agentfly.rollout.chain_limits import Limits
from agentfly.rollout.chain_time import TimeLimit
from agentfly.rollout.model_session import ChatSession, EngineSession, ModelSession
from agentfly.runtime.clock import LoopClock
from agentfly.types import (
    AgentKind,
    Attempt,
    ChatModel,
    Clock,
    Context,
    Engine,
    EnvSpec,
    Pool,
    Renderer,
    Reward,
    SamplingParams,
    ToolCall,
    ToolResult,
    ToolSpec,
)


class Tools(Protocol):
    """What the loop needs of a toolbox."""

    @property
    def specs(self) -> tuple[ToolSpec, ...]:
        """What the model is told."""

    @property
    def environments(self) -> tuple[EnvSpec, ...]:
        """All environments that the tools need."""

    async def run_one(self, call: ToolCall, context: Context) -> ToolResult:
        """Answer one call; only failures of infrastructure raise."""


def environments_of(
    first: EnvSpec | None, tools: Tools, reward: Reward | None
) -> tuple[EnvSpec, ...]:
    """Return every kind that a chain may lease, each once."""
    own = (first,) if first else ()
    rewarding = reward.environments if reward else ()
    return tuple(dict.fromkeys((*own, *tools.environments, *rewarding)))


@dataclass(frozen=True, slots=True, kw_only=True)
class ChainSetup:
    """Model, kind, tools, reward, environments and limits; shared by chains, never changed."""

    kind: AgentKind
    tools: Tools
    pool: Pool
    engine: Engine | None = None
    renderer: Renderer | None = None
    chat_model: ChatModel | None = None
    """Stands in for engine and renderer where a server gives no token ids."""
    reward: Reward | None = None
    environment: EnvSpec | None = None
    """An environment that speaks first. Without tools, it also answers every turn."""
    sampling: SamplingParams = field(default_factory=SamplingParams)
    limits: Limits = field(default_factory=Limits)
    clock: Clock = field(default_factory=LoopClock)

    def __post_init__(self) -> None:
        speaks_tokens = self.engine is not None and self.renderer is not None
        assert speaks_tokens != (self.chat_model is not None), (
            "a chain speaks through an engine with its renderer, or through a chat model"
        )

    @property
    def environments(self) -> tuple[EnvSpec, ...]:
        """Every kind that a chain may lease, each once."""
        return environments_of(self.environment, self.tools, self.reward)

    def new_session(self, attempt: Attempt, time: TimeLimit) -> ModelSession:
        """Give a new chain its way to speak."""
        tools = self.tools.specs
        if self.engine is not None and self.renderer is not None:
            return EngineSession(
                self.engine, self.renderer, self.sampling, self.limits, time, attempt, tools
            )
        assert self.chat_model is not None, "checked when the setup was made"
        return ChatSession(self.chat_model, self.sampling, time, tools)
