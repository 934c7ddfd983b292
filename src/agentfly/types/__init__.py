"""What passes between rooms, and the Protocols of all seams. Standard library only."""

from agentfly.types.completion import (
    Completion,
    FinishReason,
    Request,
    SamplingParams,
    VersionRuns,
)
from agentfly.types.context import (
    Context,
)
from agentfly.types.environment import (
    EnvSpec,
    Step,
    is_environment_class,
)
from agentfly.types.event import (
    ChainStarted,
    EnvObserved,
    Event,
    Observed,
    OnEvent,
    Rewarded,
    Stopped,
    TokenSampled,
    ToolCalled,
    TurnRead,
)
from agentfly.types.message import (
    Image,
    Message,
    Role,
    ToolCall,
)
from agentfly.types.sample import (
    Sample,
)
from agentfly.types.score import (
    Score,
)
from agentfly.types.seams import (
    AgentKind,
    Attempt,
    ChatModel,
    Clock,
    Engine,
    Env,
    Environments,
    Extension,
    GroupReward,
    Harness,
    OnToken,
    Parsed,
    Pool,
    Renderer,
    Reward,
    Tokenizer,
    Tool,
    Tracker,
)
from agentfly.types.seed import (
    Seed,
)
from agentfly.types.span import (
    Span,
    SpanKind,
)
from agentfly.types.stop import (
    StopReason,
    Verdict,
)
from agentfly.types.task import (
    Task,
    chain_id,
    chain_index,
    content_id,
    group_id,
)
from agentfly.types.tool import (
    ToolResult,
    ToolSpec,
    ToolStatus,
)
from agentfly.types.trajectory import (
    Group,
    TokenStream,
    Trajectory,
    Turn,
)

__all__ = [
    "AgentKind",
    "Attempt",
    "ChainStarted",
    "ChatModel",
    "Clock",
    "Completion",
    "Context",
    "Engine",
    "Env",
    "EnvObserved",
    "EnvSpec",
    "Environments",
    "Event",
    "Extension",
    "FinishReason",
    "Group",
    "GroupReward",
    "Harness",
    "Image",
    "Message",
    "Observed",
    "OnEvent",
    "OnToken",
    "Parsed",
    "Pool",
    "Renderer",
    "Request",
    "Reward",
    "Rewarded",
    "Role",
    "Sample",
    "SamplingParams",
    "Score",
    "Seed",
    "Span",
    "SpanKind",
    "Step",
    "StopReason",
    "Stopped",
    "Task",
    "TokenSampled",
    "TokenStream",
    "Tokenizer",
    "Tool",
    "ToolCall",
    "ToolCalled",
    "ToolResult",
    "ToolSpec",
    "ToolStatus",
    "Tracker",
    "Trajectory",
    "Turn",
    "TurnRead",
    "Verdict",
    "VersionRuns",
    "chain_id",
    "chain_index",
    "content_id",
    "group_id",
    "is_environment_class",
]
