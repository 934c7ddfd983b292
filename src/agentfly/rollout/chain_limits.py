"""What a chain may use before it is stopped."""

import math
from dataclasses import dataclass, fields

from agentfly.errors import ConfigError


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Each limit has its own stop reason. The calls of the last allowed turn are still run."""

    max_turns: int = 8
    max_tokens: float = math.inf
    """Sampled tokens over all turns; one turn is bounded by `SamplingParams.max_tokens`."""
    max_tool_calls: float = math.inf
    max_invalid_calls: float = 5
    """Malformed, unknown or wrongly filled calls in a row."""
    context_length: float = math.inf
    """Tokens that the model can see at once, those it is about to sample included."""
    seconds: float = 600.0
    """From admission to the last turn, without what the chain waits for an environment or in the
    queue of an engine that tells when it begins."""
    reward_seconds: float = 300.0
    """For the reward, after the last turn; what `@reward` makes has a limit of its own too."""
    lease_seconds: float = 120.0
    """How long to wait for an environment, from its first need."""
    queue_seconds: float = 600.0
    """How long a turn may wait in an engine's queue; beyond that the engine has failed."""

    def __post_init__(self) -> None:
        for limit in fields(self):
            value = getattr(self, limit.name)
            if not value > 0:
                raise ConfigError(f"{limit.name} must be greater than 0, got {value!r}")
