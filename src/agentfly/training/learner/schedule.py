"""How the learning rate goes over the steps of a run."""

import math
from collections.abc import Callable, Mapping

from agentfly.config import TrainSettings
from agentfly.runtime.names import look_up


def learning_rate(step: int, settings: TrainSettings) -> float:
    """Return the rate of a step, counted from 0: a linear warm-up, then the schedule.

    >>> settings = TrainSettings(steps=10, lr=1.0, warmup_steps=2, schedule="cosine")
    >>> [round(learning_rate(step, settings), 2) for step in (0, 1, 2, 6, 9)]
    [0.5, 1.0, 1.0, 0.5, 0.04]
    """
    if step < settings.warmup_steps:
        return settings.lr * (step + 1) / settings.warmup_steps
    after = max(1, settings.steps - settings.warmup_steps)
    done = min(1.0, (step - settings.warmup_steps) / after)
    return settings.lr * look_up(settings.schedule, _SHAPES, "schedule")(done)


def _constant(done: float) -> float:
    return 1.0


def _cosine(done: float) -> float:
    return 0.5 * (1 + math.cos(math.pi * done))


_SHAPES: Mapping[str, Callable[[float], float]] = {"constant": _constant, "cosine": _cosine}
