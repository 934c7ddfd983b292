"""In which order tasks are visited: a pure function of the tasks, the seed and the position."""

import hashlib
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from agentfly.errors import ConfigError
from agentfly.types import Seed, Task, group_id


@dataclass(frozen=True, slots=True, kw_only=True)
class Visit:
    """One visit to one task, by one group of chains."""

    task: Task
    number: int
    """How often the task had been visited before."""
    position: int
    """The visit's place in the order of the run."""

    @property
    def group_id(self) -> str:
        """Name the chains of this visit."""
        return group_id(self.task.id, self.number)


class Order:
    """Every epoch visits every row once, shuffled by the epoch's own seed.

    >>> tasks = [Task.from_row({"id": name}) for name in "abc"]
    >>> order = Order(tasks, seed=Seed(1), shuffle=False)
    >>> [order.visit(position).group_id for position in range(5)]
    ['a/0', 'b/0', 'c/0', 'a/1', 'b/1']
    """

    def __init__(self, tasks: Sequence[Task], *, seed: Seed, shuffle: bool) -> None:
        if not tasks:
            raise ConfigError("there are no tasks: got an empty list")
        require_distinct(tasks)
        self._tasks = tuple(tasks)
        self._copies = Counter(task.id for task in tasks)
        self._seed = seed
        self._shuffle = shuffle
        self._epoch: tuple[int, list[Visit]] = (-1, [])

    def __len__(self) -> int:
        """Return the number of visits in one epoch."""
        return len(self._tasks)

    @property
    def digest(self) -> str:
        """Tell whether two orders are of the same tasks."""
        ids = "\n".join(task.id for task in self._tasks)
        return hashlib.blake2b(ids.encode(errors="surrogatepass"), digest_size=8).hexdigest()

    def visit(self, position: int) -> Visit:
        """Return the visit at a place in the order."""
        epoch, place = divmod(position, len(self))
        if self._epoch[0] != epoch:
            self._epoch = (epoch, self._visits(epoch))
        return self._epoch[1][place]

    def _visits(self, epoch: int) -> list[Visit]:
        seen = {task_id: epoch * copies for task_id, copies in self._copies.items()}
        visits = []
        for place, index in enumerate(self._indices(epoch)):
            task = self._tasks[index]
            position = epoch * len(self) + place
            visits.append(Visit(task=task, number=seen[task.id], position=position))
            seen[task.id] += 1
        return visits

    def _indices(self, epoch: int) -> Sequence[int]:
        indices = range(len(self))
        if not self._shuffle:
            return indices
        seed = self._seed.child("epoch", epoch)
        return sorted(indices, key=lambda index: seed.child(index).value)


def require_distinct(tasks: Sequence[Task]) -> None:
    """Refuse two different tasks under one id."""
    known: dict[str, Task] = {}
    for task in tasks:
        first = known.setdefault(task.id, task)
        if first != task:
            raise ConfigError(
                f"two different tasks have the id {task.id!r} (sources {first.source!r} and "
                f"{task.source!r}): give their rows ids of their own"
            )
