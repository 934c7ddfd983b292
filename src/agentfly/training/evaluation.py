"""The stage that evaluates: held-out tasks, attempted and never trained on."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from agentfly.agents import Agent
from agentfly.config import EvalSettings
from agentfly.observe import Counting, TrajectoryWriter, evaluation_metrics
from agentfly.rollout import plan_groups
from agentfly.training.chains import ChainRunner
from agentfly.types import (
    ANY_SCORE,
    Group,
    ScoreRange,
    Seed,
    Task,
    declared_range,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Evaluator:
    """Attempts every held-out task, each time with the same seeds."""

    chains: ChainRunner
    tasks: Sequence[Task]
    settings: EvalSettings
    seed: Seed
    on_chains: Callable[[int], None]

    @property
    def num_chains(self) -> int:
        """How many chains one evaluation takes."""
        return len(self.tasks) * self.settings.num_chains

    def metrics(self, groups: Sequence[Group]) -> dict[str, float]:
        """Measure an evaluation, by what each source's reward can be."""
        agents = self.chains.agents
        counting = Counting(
            ranges={source: score_range(agent) for source, agent in agents.items()},
            time_limit_reward=self.settings.time_limit_reward,
        )
        return evaluation_metrics(groups, counting)

    def due(self, step: int) -> bool:
        """Tell whether to evaluate after a step."""
        return self.settings.every > 0 and step % self.settings.every == 0

    async def evaluate(self, file: Path) -> list[Group]:
        """Run the chains, and save each group to `file` as it finishes."""
        plans = plan_groups(self.tasks, num_chains=self.settings.num_chains, seed=self.seed)
        with _emptied(file) as writer:

            def take(group: Group) -> None:
                writer.write_group(group)
                self.on_chains(len(group.members))

            return await self.chains.run(
                plans, on_group=take, temperature=self.settings.temperature
            )


def score_range(agent: Agent) -> ScoreRange:
    """Return what the chains of an agent can score; without a reward their steps' own decide."""
    if agent.reward is None:
        return ANY_SCORE
    own = declared_range(agent.reward)
    return own.plus(declared_range(agent.group_reward)) if agent.group_reward else own


def _emptied(file: Path) -> TrajectoryWriter:
    """Begin anew what a killed run may have begun."""
    file.unlink(missing_ok=True)
    file.with_name(f"{file.name}.gz").unlink(missing_ok=True)
    return TrajectoryWriter(file)
