"""Everything AgentFly raises on purpose, and the one place where foreign exceptions are classified.

    AgentFlyError
    ├── ConfigError            a person's mistake: settings, a tool's signature, a bad argument
    │   └── FormatError        a file on disk is not what its format says
    ├── ToolError              a tool's author speaks to the model, word for word
    ├── DeadlineError          something did not answer in time
    ├── HttpError              a server refused, broke off or answered something unexpected
    ├── CallbackError          a user's callback raised: the run stops
    ├── RunError               a run can't go on: too many of its chains failed, the disk is full
    └── ChainError             ends one chain, never its siblings
        ├── AgentError         the agent's own code raised
        ├── TrainingDataError  a trajectory carries no token ids to train on
        └── InfrastructureError    may be retried
            ├── EngineError
            │   └── StaleWeightsError    sampled from weights that were never published
            ├── EnvError
            ├── LeaseTimeout
            └── RewardError

Only a `ChainError` is data; whatever else escapes is a bug or a mistake, and stops the run.
"""

from types import TracebackType


class AgentFlyError(Exception):
    """Base of every exception that AgentFly raises on purpose."""


class ConfigError(AgentFlyError, ValueError):
    """A person's mistake, said with what was wrong, what was expected and the way out."""


class FormatError(ConfigError):
    """A file on disk is not what its format says."""


class ToolError(AgentFlyError):
    """Raised by a tool's author: its text is shown to the model word for word."""


class DeadlineError(AgentFlyError, TimeoutError):
    """Something did not answer before its deadline."""


class HttpError(AgentFlyError):
    """A server refused, broke off or answered something unexpected.

    Engines, tools and environments raise it as an error of their own kind.
    """


class CallbackError(AgentFlyError):
    """A user's callback raised. That is no chain's failure: it stops the run."""


class RunError(AgentFlyError):
    """A run can't go on, and says why; what it has saved so far can be resumed from."""


class ChainError(AgentFlyError):
    """Ends one chain as data with a typed cause; its siblings go on."""


class AgentError(ChainError):
    """The agent's own code (its prompt or its reading of the output) raised."""


class TrainingDataError(ChainError):
    """A trajectory can't be trained on, because it carries no token ids."""


class InfrastructureError(ChainError):
    """The machinery failed, not the model: such a chain may be tried again."""


class EngineError(InfrastructureError):
    """The engine could not sample."""


class StaleWeightsError(EngineError):
    """A server sampled from weights that were never published to it, as after a restart."""


class EnvError(InfrastructureError):
    """An environment, or the machinery behind a tool, crashed."""


class LeaseTimeout(InfrastructureError):  # noqa: N818 - the name users search for
    """No environment could be leased before the deadline."""


class RewardError(InfrastructureError):
    """A reward raised, ran out of time or returned something that is not a finite number."""


class boundary:  # noqa: N801 - reads as the statement that it is
    """Classify once whatever foreign code raises.

    Errors of AgentFly pass through unchanged, so that the innermost boundary names the cause.

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
        """Begin to watch."""

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Raise what came out as `kind`, unless it is classified already or no error at all."""
        if isinstance(error, Exception) and not isinstance(error, AgentFlyError):
            text = f"{self._doing} raised {type(error).__name__}: {error}"
            raise self._kind(text) from error
