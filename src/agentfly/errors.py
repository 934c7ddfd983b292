"""Exceptions of AgentFly, and `boundary`, which classifies the exceptions of foreign code.

    AgentFlyError
    ├── ConfigError            a user's mistake: settings, a tool's signature, a bad argument
    │   └── FormatError        a file on disk is not what its format says
    ├── ToolError              a tool's message to the model, shown word for word
    ├── DeadlineError          something did not answer in time
    ├── HttpError              a server refused, broke off or answered something unexpected
    ├── CallbackError          a user's callback raised: the run stops
    ├── RunError               a run can't go on: too many of its chains failed, the disk is full
    │   └── LearnerLostError   one of the learner's processes died
    └── ChainError             ends one chain, never the others
        ├── AgentError         the agent's own code raised
        ├── TrainingDataError  a trajectory carries no token ids to train on
        └── InfrastructureError    may be retried
            ├── EngineError
            │   └── StaleWeightsError    sampled from weights that were never published
            ├── EnvError
            ├── LeaseTimeout
            └── RewardError

A `ChainError` becomes data in a trajectory; every other exception is a bug or a mistake, and stops
the run.
"""

from types import TracebackType


class AgentFlyError(Exception):
    """Base class of all exceptions of AgentFly."""


class ConfigError(AgentFlyError, ValueError):
    """User's mistake; the message says what was wrong, what was expected and the way out."""


class FormatError(ConfigError):
    """File on disk that does not follow its format."""


class ToolError(AgentFlyError):
    """Error raised by a tool on purpose: its text is shown to the model word for word."""


class DeadlineError(AgentFlyError, TimeoutError):
    """Missing answer at a deadline."""


class HttpError(AgentFlyError):
    """A server refused, broke off or answered something unexpected.

    Engines, tools and environments raise it as an error of their own kind.
    """


class CallbackError(AgentFlyError):
    """Exception in a user's callback, which stops the run."""


class RunError(AgentFlyError):
    """Reason why a run can't go on; it can be resumed from what it has saved."""


class LearnerLostError(RunError):
    """Loss of one of a learner's processes: the run goes on from its last checkpoint."""


class ChainError(AgentFlyError):
    """Failure that ends one chain as data with a typed cause; other chains go on."""


class AgentError(ChainError):
    """Exception in the agent's own code, which makes the prompt and reads the output."""


class TrainingDataError(ChainError):
    """Trajectory that can't be trained on, because it has no token ids."""


class InfrastructureError(ChainError):
    """Failure of the machinery, not of the model: such a chain may be retried."""


class EngineError(InfrastructureError):
    """Failure of the engine to sample."""


class StaleWeightsError(EngineError):
    """Sampling from weights that were never published, as after a server's restart."""


class EnvError(InfrastructureError):
    """Crash of an environment, or of the machinery behind a tool."""


class LeaseTimeout(InfrastructureError):  # noqa: N818 - the name users search for
    """Deadline reached before an environment could be leased."""


class RewardError(InfrastructureError):
    """Reward that raised, timed out or did not return a finite number."""


class boundary:  # noqa: N801 - reads as the statement that it is
    """Context manager that raises the exceptions of foreign code as a given kind.

    Exceptions of AgentFly pass through unchanged, so that the innermost boundary names the cause.

    >>> with boundary(EnvError, "stepping turn 0"):
    ...     {}["boom"]
    Traceback (most recent call last):
    agentfly.errors.EnvError: stepping turn 0 raised KeyError: 'boom'
    """

    __slots__ = ("_doing", "_kind")

    def __init__(self, kind: type[AgentFlyError], doing: str) -> None:
        self._kind = kind
        self._doing = doing

    def __enter__(self) -> None:
        """Do nothing."""

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Raise a foreign exception as the given kind; let all others pass."""
        if isinstance(error, Exception) and not isinstance(error, AgentFlyError):
            text = f"{self._doing} raised {type(error).__name__}: {error}"
            raise self._kind(text) from error
