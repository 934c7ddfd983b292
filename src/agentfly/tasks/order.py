"""Order of visits to tasks: a pure function of tasks, seed and position. Mixtures of sources."""

import hashlib
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from agentfly.errors import ConfigError
from agentfly.types import Seed, Task, group_id


@dataclass(frozen=True, slots=True, kw_only=True)
class Visit:
    """One visit to one task, by one group of chains."""

    task: Task
    number: int
    """Number of earlier visits to the task."""
    position: int
    """Position in the order of the run."""

    @property
    def group_id(self) -> str:
        """Id of the group of this visit."""
        return group_id(self.task.id, self.number)


class Order:
    """Order that visits every row once per epoch, shuffled by the epoch's own seed.

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
        """Digest of the tasks, to compare two orders."""
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


class Mixture:
    """Order over several sources that keeps each as close to its share as possible.

    >>> tasks = [Task.from_row({"id": i}, source=source) for i, source in enumerate("aab")]
    >>> mixture = Mixture(tasks, {"a": 1, "b": 3}, seed=Seed(0), shuffle=False)
    >>> [mixture.visit(position).group_id for position in range(8)]
    ['2/0', '0/0', '2/1', '2/2', '2/3', '1/0', '2/4', '2/5']
    """

    def __init__(
        self, tasks: Sequence[Task], weights: Mapping[str, float], *, seed: Seed, shuffle: bool
    ) -> None:
        require_distinct(tasks)
        missing = sorted({task.source for task in tasks} ^ weights.keys())
        if missing:
            raise ConfigError(f"sources need tasks and a weight each, got only one for {missing}")
        self._orders = {
            source: Order([t for t in tasks if t.source == source], seed=seed, shuffle=shuffle)
            for source in weights
        }
        total = sum(weights.values())
        self._shares = {source: weight / total for source, weight in weights.items()}
        self._counts = dict.fromkeys(weights, 0)
        self._visits: list[Visit] = []

    def __len__(self) -> int:
        """Return the number of tasks, which is the number of visits in an epoch."""
        return sum(map(len, self._orders.values()))

    @property
    def digest(self) -> str:
        """Digest of tasks and shares, to compare two mixtures."""
        shares = (f"{name}:{share:.9g}" for name, share in self._shares.items())
        return "+".join((*shares, *(order.digest for order in self._orders.values())))

    def visit(self, position: int) -> Visit:
        """Return the visit at a place in the order."""
        while len(self._visits) <= position:
            self._visits.append(self._next())
        return self._visits[position]

    def _next(self) -> Visit:
        source = max(self._shares, key=self._lag)
        visit = self._orders[source].visit(self._counts[source])
        self._counts[source] += 1
        return replace(visit, position=len(self._visits))

    def _lag(self, source: str) -> float:
        """Return how many visits the source is behind its share."""
        return self._shares[source] * (len(self._visits) + 1) - self._counts[source]
