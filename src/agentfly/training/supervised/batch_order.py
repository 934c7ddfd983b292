"""Which conversations each step learns from: a pure function of the seed and the step."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from agentfly.types import Sample, Seed


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchOrder:
    """Every epoch goes over every sample once, shuffled by the epoch's own seed.

    A resumed run finds the samples of its next step by the step's number alone.
    """

    samples: Sequence[Sample]
    per_step: int
    epochs: int
    seed: Seed

    @property
    def steps(self) -> int:
        """How many steps all epochs take; the last one of an epoch may be smaller."""
        return self.epochs * self._steps_per_epoch

    def batch(self, step: int) -> list[Sample]:
        """Return the samples of a step, counted from 1."""
        epoch, place = divmod(step - 1, self._steps_per_epoch)
        seed = self.seed.child("epoch", epoch)
        order = sorted(range(len(self.samples)), key=lambda index: seed.child(index).value)
        chosen = order[place * self.per_step : (place + 1) * self.per_step]
        return [self.samples[index] for index in chosen]

    @property
    def _steps_per_epoch(self) -> int:
        return math.ceil(len(self.samples) / self.per_step)
