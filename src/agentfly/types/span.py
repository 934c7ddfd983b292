"""Where a chain's time went."""

from dataclasses import dataclass
from enum import StrEnum


class SpanKind(StrEnum):
    """What a chain was waiting for."""

    QUEUE = "queue"
    """Waiting to be admitted, or for an environment to be free."""
    GENERATE = "generate"
    TOOL = "tool"
    ENVIRONMENT = "environment"
    REWARD = "reward"


@dataclass(frozen=True, slots=True, kw_only=True)
class Span:
    """One stretch of waiting, in seconds since the chain was asked for."""

    kind: SpanKind
    name: str
    """For example the tool's name."""
    turn: int | None
    start: float
    end: float

    @property
    def seconds(self) -> float:
        """How long it took."""
        return self.end - self.start
