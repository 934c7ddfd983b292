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
from agentfly.types.learner import (
    Keep,
    Learner,
    MaskPolicy,
    StepMetrics,
)
from agentfly.types.message import (
    Image,
    Message,
    Role,
    ToolCall,
)
from agentfly.types.protocols import (
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
    TrainableEngine,
)
from agentfly.types.sample import (
    Sample,
)
from agentfly.types.score import (
    ANY_SCORE,
    Score,
    ScoreRange,
    declared_range,
    read_range,
)
from agentfly.types.seed import (
    Seed,
)
from agentfly.types.span import (
    Span,
    SpanKind,
)
from agentfly.types.stop_reason import (
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
    collect_groups,
    members_by_group,
)
from agentfly.types.weights import (
    AdapterFolder,
    NamedTensors,
    SharedTensors,
    Weights,
    WeightsFolder,
)

__all__ = [
    "ANY_SCORE",
    "AdapterFolder",
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
    "Keep",
    "Learner",
    "MaskPolicy",
    "Message",
    "NamedTensors",
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
    "ScoreRange",
    "Seed",
    "SharedTensors",
    "Span",
    "SpanKind",
    "Step",
    "StepMetrics",
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
    "TrainableEngine",
    "Trajectory",
    "Turn",
    "TurnRead",
    "Verdict",
    "VersionRuns",
    "Weights",
    "WeightsFolder",
    "chain_id",
    "chain_index",
    "collect_groups",
    "content_id",
    "declared_range",
    "group_id",
    "is_environment_class",
    "members_by_group",
    "read_range",
]
