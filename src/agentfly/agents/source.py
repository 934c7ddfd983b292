"""Sources: tasks with the agent that attempts them."""

from dataclasses import dataclass
from typing import Literal

from agentfly.agents.agent import Agent
from agentfly.agents.argument_checks import may_score
from agentfly.errors import ConfigError
from agentfly.tasks import Rows
from agentfly.types import ANY_SCORE, ScoreRange, declared_range


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """Tasks with the agent that attempts them. A run may mix several.

    >>> Source(agent=agent, tasks=[{"question": "2+2?", "answer": "4"}])     # doctest: +SKIP
    """

    agent: Agent
    tasks: Rows
    """A file, rows, a function that returns rows, or tasks."""
    eval_tasks: Rows = ()
    """Held-out tasks, never trained on."""
    name: str = "default"
    weight: float = 1.0
    """Share of the run's tasks, relative to the weights of the other sources."""
    example: Literal["auto", "never"] = "auto"
    """Worked example before every conversation: `auto` finds one by a short trial at the start of
    a run if the model calls no tools without one."""


def require_trainable(source: Source) -> None:
    """Refuse an agent without a reward, or one that samples from a truncated distribution."""
    agent = source.agent
    scores = agent.environment is not None and may_score(agent.environment)
    if agent.reward is None and agent.group_reward is None and not scores:
        raise ConfigError(
            f"source {source.name!r} has no reward: nothing tells good chains from bad ones. "
            "Give its agent reward= or group_reward=, or an environment whose `step` rewards"
        )
    _require_exact_sampling(source)


def _require_exact_sampling(source: Source) -> None:
    """Refuse sampling from another distribution than the one whose log-probabilities are trained.

    Tokens that a truncation leaves are more probable than the model's log-probability says, by a
    factor that differs from token to token and that no ratio or correction accounts for.
    """
    sampling = source.agent.sampling
    whole = {"top_p": 1.0, "top_k": 0, "min_p": 0.0}
    cut = {name: value for name in whole if (value := getattr(sampling, name)) != whole[name]}
    if cut:
        listed = ", ".join(f"{name}={value}" for name, value in cut.items())
        raise ConfigError(
            f"the agent of source {source.name!r} samples with {listed}: training needs tokens "
            "drawn from the model's whole distribution, because it learns by the log-probabilities "
            "of that one, and truncated sampling gives each token another. Leave it out; "
            "temperature= may be lower, and is trained with"
        )
    if sampling.temperature == 0:
        raise ConfigError(
            f"the agent of source {source.name!r} samples greedily, with temperature=0: all chains "
            "of a task are then equal, and nothing can be learned by comparing them. Take a "
            "temperature above 0; eval.temperature may be 0"
        )


def score_range(agent: Agent) -> ScoreRange:
    """Return what the chains of an agent can score; without a reward their steps' own decide."""
    if agent.reward is None:
        return ANY_SCORE
    own = declared_range(agent.reward)
    return own.plus(declared_range(agent.group_reward)) if agent.group_reward else own
