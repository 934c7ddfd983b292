"""The chains of an evaluation on disk: what a killed one has finished is not run again.

trajectories/eval_40.jsonl       being filled, group by group
trajectories/eval_40.jsonl.gz    all groups are there
"""

from collections.abc import Iterable, Mapping
from pathlib import Path

from agentfly.observe import TrajectoryWriter, compact, read_trajectories
from agentfly.types import Group, collect_groups

PART = ".part"


class SavedGroups:
    """One file of groups, taken up again after its process was killed."""

    def __init__(self, file: Path, *, num_chains: int) -> None:
        """Prepare; nothing is read yet.

        Args:
            file: The file while it is filled.
            num_chains: Chains of a whole group.
        """
        self._file = file
        self._num_chains = num_chains

    @property
    def _packed(self) -> Path:
        return self._file.with_name(f"{self._file.name}.gz")

    def take_up(self) -> dict[str, Group]:
        """Return the groups that need not be run again, by id; drop all others from the file.

        A kill may have cut a group short, and chains that failed for a reason outside the model
        get another chance: both are run again, with the same seeds.
        """
        if not self._file.exists() and not self._packed.exists():
            return {}
        groups = collect_groups(read_trajectories(self._file))
        kept = {group.id: group for group in groups if self._counts(group)}
        if len(kept) < len(groups):
            self._rewrite(kept.values())
        return kept

    def _counts(self, group: Group) -> bool:
        failed = any(member.stop.verdict.infrastructure for member in group.members)
        return len(group.members) == self._num_chains and not failed

    def _rewrite(self, groups: Iterable[Group]) -> None:
        part = self._file.with_name(self._file.name + PART)
        part.unlink(missing_ok=True)
        with TrajectoryWriter(part) as writer:
            for group in groups:
                writer.write_group(group)
        part.replace(self._file)
        self._packed.unlink(missing_ok=True)

    def is_complete(self, groups: Mapping[str, Group], planned: Iterable[str]) -> bool:
        """Return whether nothing is left to run."""
        return self._packed.exists() and all(plan in groups for plan in planned)

    def writer(self) -> TrajectoryWriter:
        """Return the writer of further groups."""
        return TrajectoryWriter(self._file)

    def finish(self) -> None:
        """Compact the file: all groups are there."""
        compact(self._file)
