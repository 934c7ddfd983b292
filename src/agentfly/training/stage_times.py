"""How long the stages of a step took."""

import time
from collections.abc import Iterator
from contextlib import contextmanager


class StageTimes:
    """Seconds by stage, over one step.

    >>> times = StageTimes()
    >>> with times("training"):
    ...     pass
    >>> list(times.metrics())
    ['time/training', 'time/step']
    """

    def __init__(self) -> None:
        self._started = time.monotonic()
        self.seconds: dict[str, float] = {}

    @contextmanager
    def __call__(self, stage: str) -> Iterator[None]:
        """Add what the block takes to a stage."""
        start = time.monotonic()
        try:
            yield
        finally:
            self.seconds[stage] = self.seconds.get(stage, 0.0) + time.monotonic() - start

    def metrics(self) -> dict[str, float]:
        """Return them by the names under which they are logged, and the whole step's."""
        named = {f"time/{stage}": seconds for stage, seconds in self.seconds.items()}
        return {**named, "time/step": time.monotonic() - self._started}
