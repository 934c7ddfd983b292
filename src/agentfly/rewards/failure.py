"""Whatever a reward's function raises becomes a RewardError with its cause."""

from collections.abc import Iterator
from contextlib import contextmanager

from agentfly.errors import AgentFlyError, InfrastructureError, RewardError, boundary


@contextmanager
def reward_boundary(reward: str) -> Iterator[None]:
    """Let failures of infrastructure pass, and make a RewardError of everything else.

    An environment that crashes inside a reward stays an EnvError, so that the chain's stop reason
    names the true culprit. A deadline, or a ToolError raised by mistake, does not say that a reward
    failed, so it is said here.

    >>> with reward_boundary("reward 'exact'"):
    ...     {}["boom"]
    Traceback (most recent call last):
    agentfly.errors.RewardError: reward 'exact' raised KeyError: 'boom'
    """
    try:
        with boundary(RewardError, reward):
            yield
    except InfrastructureError:
        raise
    except AgentFlyError as error:
        raise RewardError(f"{reward} failed: {error}") from error
