"""Result of `Agent.run`, and the file to which chains are saved as they end."""

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from agentfly.errors import ConfigError
from agentfly.observe import Summary, TrajectoryWriter, read_trajectories, require_json, summarize
from agentfly.types import Group, Task, Trajectory, collect_groups


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class RunResult:
    """Trajectories in the order of the rows, with their rewards and a summary."""

    groups: tuple[Group, ...]
    """One group for each row."""

    def __repr__(self) -> str:
        """Stay short: `asyncio.run` writes out what it returns when it looks at its own signals."""
        return f"<RunResult of {len(self.groups)} rows, {len(self.trajectories)} chains>"

    def __str__(self) -> str:
        """Return the counts, means and shares over all chains."""
        return f"{self!r}\n{self.summary}"

    @property
    def trajectories(self) -> tuple[Trajectory, ...]:
        """All chains; those of one row are adjacent."""
        return tuple(member for group in self.groups for member in group.members)

    @property
    def rewards(self) -> tuple[float | None, ...]:
        """Reward of each chain; None is unscored, which is not 0."""
        return tuple(trajectory.reward for trajectory in self.trajectories)

    @property
    def summary(self) -> Summary:
        """Counts, means and shares over all chains."""
        return summarize(self.trajectories)

    def save(self, path: str | Path) -> None:
        """Write all chains to a JSONL file, atomically."""
        path = Path(path)
        part = path.with_name(f"{path.name}.part")
        part.unlink(missing_ok=True)
        with TrajectoryWriter(part) as writer:
            for trajectory in self.trajectories:
                writer.write(trajectory)
        part.replace(path)

    @classmethod
    def load(cls, path: str | Path) -> "RunResult":
        """Read exactly what was saved.

        A file written by `save_to=` is in the order in which chains ended: its groups come in the
        order of their first chain, each with its members in order.
        """
        return cls(groups=tuple(collect_groups(read_trajectories(path))))


def open_trajectory_file(path: str | Path, tasks: Iterable[Task]) -> TrajectoryWriter:
    """Open a new file for a run's chains; raise ConfigError now if a task can't be saved later."""
    path = Path(path)
    if path.exists() and path.stat().st_size:
        raise ConfigError(
            f"the file {path} exists already, and is not overwritten: name a new file, or remove it"
        )
    for task in tasks:
        require_json(task.fields, f"row {task.id!r}")
    try:
        return TrajectoryWriter(path)
    except OSError as error:
        raise ConfigError(f"{path} can't be written to: {error}") from error
