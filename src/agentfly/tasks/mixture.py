"""Several sources of tasks in one order, each with its share."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from agentfly.errors import ConfigError
from agentfly.tasks.order import Order, Visit, require_distinct
from agentfly.types import Seed, Task


class Mixture:
    """Visits sources in turn so that after every step each is as close to its share as can be.

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
        """Return how many tasks there are: after so many visits the next epoch is counted."""
        return sum(map(len, self._orders.values()))

    @property
    def digest(self) -> str:
        """Tell whether two mixtures are of the same tasks with the same shares."""
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
