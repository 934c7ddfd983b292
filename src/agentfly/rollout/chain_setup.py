"""Setup that all chains of one agent share."""

from collections.abc import Sequence
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
from agentfly.types.environment import serving_spec


class Tools(Protocol):
    """Part of a toolbox that the chain loop uses."""

    @property
    def specs(self) -> tuple[ToolSpec, ...]:
        """Specifications that the model is shown."""

    @property
    def environments(self) -> tuple[EnvSpec, ...]:
        """Environments that the tools need."""

    def received_environments(self, call: ToolCall) -> Sequence[EnvSpec | None]:
        """Return the environments that a call receives; None is the chain's only one."""

    async def run_one(self, call: ToolCall, context: Context) -> ToolResult:
        """Answer one call; raise only for failures of infrastructure."""


def environments_of(
    first: EnvSpec | None, tools: Tools, reward: Reward | None
) -> tuple[EnvSpec, ...]:
    """Return every environment that a chain may lease, each once."""
    own = (first,) if first else ()
    rewarding = reward.environments if reward else ()
    named = tuple(dict.fromkeys((*own, *tools.environments, *rewarding)))
    return tuple(dict.fromkeys(serving_spec(spec, named) for spec in named))


@dataclass(frozen=True, slots=True, kw_only=True)
class ChainSetup:
    """Model, kind, tools, reward, environments and limits: shared by chains, immutable."""

    kind: AgentKind
    tools: Tools
    pool: Pool
    engine: Engine | None = None
    renderer: Renderer | None = None
    chat_model: ChatModel | None = None
    """Replaces engine and renderer where a server gives no token ids."""
    reward: Reward | None = None
    environment: EnvSpec | None = None
    """Environment that makes the first observation. Without tools, it also answers every turn."""
    sampling: SamplingParams = field(default_factory=SamplingParams)
    limits: Limits = field(default_factory=Limits)
    clock: Clock = field(default_factory=LoopClock)
    environments: tuple[EnvSpec, ...] = field(init=False)
    """Environments that a chain may lease, each once."""

    def __post_init__(self) -> None:
        environments = environments_of(self.environment, self.tools, self.reward)
        object.__setattr__(self, "environments", environments)
        has_engine = self.engine is not None and self.renderer is not None
        assert has_engine != (self.chat_model is not None), (
            "a chain needs either an engine with its renderer, or a chat model"
        )

    def new_session(self, attempt: Attempt, time: TimeLimit) -> ModelSession:
        """Return a new chain's session with the model."""
        tools = self.tools.specs
        if self.engine is not None and self.renderer is not None:
            return EngineSession(
                self.engine, self.renderer, self.sampling, self.limits, time, attempt, tools
            )
        assert self.chat_model is not None, "checked when the setup was made"
        return ChatSession(self.chat_model, self.sampling, time, tools)
