"""The bound on the age of trained tokens, which pacing keeps: no group is thrown away for its age.

A group that begins under version p of the weights has tokens of version p and later ones. The
update of step s starts from version s - 1, so with a bound of k the group can be trained up to step
p + k + 1, its last step. With n groups per step:

    begin    if all open groups and one more fit into the steps up to its last step
    take     the n finished groups whose last steps come first, as soon as the other open groups
             still fit into the steps that are left to each of them

Within the bound a step thus takes whatever has finished, and a long chain holds up nothing. At the
bound it waits for the chains of the oldest group, and their time limit bounds that wait.
"""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field

from agentfly.types import Group


@dataclass(slots=True, kw_only=True)
class StalenessWindow:
    """Groups that were begun and not yet taken, and the last step in which each can be trained.

    >>> window = StalenessWindow(max_staleness=1, groups_per_step=1, steps=9)
    >>> for group in ("a/0", "b/0"):
    ...     window.begin(group)
    >>> window.may_begin                        # both have to be trained by step 2
    False
    >>> window.choose(["b/0"])                  # "a/0" can wait for step 2
    ['b/0']
    """

    max_staleness: int
    groups_per_step: int
    steps: int
    """Steps of the whole run: nothing is begun that none of them would train."""
    version: int = 0
    """Version of the weights that engines sample from."""
    taken: int = 0
    """Last step that has taken its groups."""
    _last_steps: dict[str, int] = field(default_factory=dict)

    def __contains__(self, group_id: str) -> bool:
        """Return whether a group was begun and not yet taken."""
        return group_id in self._last_steps

    def __len__(self) -> int:
        """Return the number of open groups."""
        return len(self._last_steps)

    @property
    def may_begin(self) -> bool:
        """Whether a group that begins now can be trained within the bound."""
        last = min(self._last_step(self.version), self.steps)
        return len(self._last_steps) < self.groups_per_step * (last - self.taken)

    def begin(self, group_id: str) -> None:
        """Add a group whose chains begin now."""
        self._last_steps[group_id] = self._last_step(self.version)

    def finish(self, group: Group) -> None:
        """Set a group's last step by the tokens that it has; chains that waited gain by it."""
        oldest = oldest_version(group)
        if oldest is not None:
            self._last_steps[group.id] = self._last_step(oldest)

    def drop(self, group_ids: Iterable[str]) -> None:
        """Remove groups that will not be trained on."""
        for group_id in group_ids:
            del self._last_steps[group_id]

    def choose(self, finished: Collection[str], *, at_least: int | None = None) -> list[str] | None:
        """Return the groups of the next step, or None to wait for more of them to finish.

        Args:
            finished: Groups that have finished, in order.
            at_least: Number of groups to be content with; by default all of a step's.
        """
        size = self.groups_per_step
        chosen = sorted(finished, key=self._last_steps.__getitem__)[:size]
        if len(chosen) < (size if at_least is None else at_least):
            return None
        others = self._last_steps.keys() - set(chosen)
        fit = self._fit([self._last_steps[group] for group in others], self.taken + 2)
        return chosen if fit else None

    def take(self, group_ids: Iterable[str]) -> None:
        """Let the next step have these groups."""
        self.drop(group_ids)
        self.taken += 1

    def restore(self, groups: Iterable[Group]) -> list[Group]:
        """Add finished groups of an earlier process, and return those that can still be trained."""
        kept: list[Group] = []
        room = self.groups_per_step * (self.steps - self.taken)
        for group in groups:
            oldest = oldest_version(group)
            last = self._last_step(self.version if oldest is None else oldest)
            lasts = [*self._last_steps.values(), last]
            if len(lasts) <= room and self._fit(lasts, self.taken + 1):
                self._last_steps[group.id] = last
                kept.append(group)
        return kept

    def _last_step(self, version: int) -> int:
        return version + self.max_staleness + 1

    def _fit(self, last_steps: Sequence[int], first: int) -> bool:
        """Return whether every group has a place in the steps from `first` to its last one."""
        size = self.groups_per_step
        return all(first + n // size <= last for n, last in enumerate(sorted(last_steps)))


def oldest_version(group: Group) -> int | None:
    """Return the oldest version of the weights that sampled a token of a group."""
    turns = (turn for member in group.members for turn in member.turns if turn.completion)
    return min(
        (version for turn in turns if turn.completion for version, _ in turn.completion.versions),
        default=None,
    )
