"""The stage that evaluates: held-out tasks, attempted and never trained on."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from agentfly.config import EvalSettings
from agentfly.observe import TrajectoryWriter
from agentfly.rollout import plan_groups
from agentfly.training.chains import Chains
from agentfly.types import Group, Seed, Task, Trajectory


@dataclass(frozen=True, slots=True, kw_only=True)
class Evaluator:
    """Attempts every held-out task, each time with the same seeds."""

    chains: Chains
    tasks: Sequence[Task]
    settings: EvalSettings
    seed: Seed
    on_chain: Callable[[], None]

    @property
    def num_chains(self) -> int:
        """How many chains one evaluation takes."""
        return len(self.tasks) * self.settings.num_chains

    def due(self, step: int) -> bool:
        """Tell whether to evaluate after a step."""
        return self.settings.every > 0 and step % self.settings.every == 0

    async def evaluate(self, file: Path) -> list[Group]:
        """Run the chains, and save each to `file` as it ends."""
        plans = plan_groups(self.tasks, num_chains=self.settings.num_chains, seed=self.seed)
        with _emptied(file) as writer:

            def take(trajectory: Trajectory) -> None:
                writer.write(trajectory)
                self.on_chain()

            return await self.chains.run(
                plans, on_trajectory=take, temperature=self.settings.temperature
            )


def _emptied(file: Path) -> TrajectoryWriter:
    """Begin anew what a killed run may have begun."""
    file.unlink(missing_ok=True)
    file.with_name(f"{file.name}.gz").unlink(missing_ok=True)
    return TrajectoryWriter(file)
