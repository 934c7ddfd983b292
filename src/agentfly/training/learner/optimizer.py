"""AdamW with clipped gradients that skips updates which are not finite, and its learning rate."""

import logging
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from agentfly.config import TrainSettings
from agentfly.runtime.names import look_up
from agentfly.training.learner.sharding import like, whole

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Update:
    """The outcome of one call of the optimizer."""

    grad_norm: float
    """Before clipping."""
    applied: bool
    """False where a gradient was not finite: the weights are what they were."""


class Optimizer:
    """Changes parameters in place, so that every view of them changes too.

    They may be sharded: moments are sharded as their parameters are, and the norm is that of all.
    """

    def __init__(self, parameters: Mapping[str, Tensor], settings: TrainSettings) -> None:
        self._named = dict(parameters)
        self._parameters = list(self._named.values())
        self._max_norm = settings.max_grad_norm
        # Biases and norms are no directions to be kept short.
        matrices = [p for p in self._parameters if p.dim() > 1]
        others = [p for p in self._parameters if p.dim() <= 1]
        groups = [
            {"params": matrices, "weight_decay": settings.weight_decay},
            {"params": others, "weight_decay": 0.0},
        ]
        self._adam = torch.optim.AdamW(
            [group for group in groups if group["params"]],
            lr=0.0,  # every update brings its own
            betas=settings.betas,
            fused=True,
        )

    def update(self, lr: float) -> Update:
        """Apply the gradients that were accumulated, and forget them."""
        norm = whole(torch.nn.utils.clip_grad_norm_(self._parameters, self._max_norm))
        applied = bool(torch.isfinite(norm))
        if applied:
            for group in self._adam.param_groups:
                group["lr"] = lr
            self._adam.step()
        else:
            _log.warning("an update is left out: its gradient is not finite")
        self._adam.zero_grad(set_to_none=True)
        return Update(grad_norm=float(norm), applied=applied)

    def state_dict(self) -> dict[str, Any]:
        """Return the moments, by the number of the parameter."""
        return self._adam.state_dict()

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Take the moments over; those of a sharded parameter become this process's part."""
        numbered = [p for group in self._adam.param_groups for p in group["params"]]
        moments = {
            number: {
                key: like(numbered[number], value) if value.dim() else value
                for key, value in found.items()
            }
            for number, found in state["state"].items()
        }
        self._adam.load_state_dict({**state, "state": moments})

    def named_state(self) -> dict[str, dict[str, Tensor]]:
        """Return the moments by the name of the parameter; zeros before the first update."""
        return {name: self._moments(parameter) for name, parameter in self._named.items()}

    def load_named_state(self, state: Mapping[str, dict[str, Tensor]]) -> None:
        """Take over what `named_state` returned, here or elsewhere."""
        for name, parameter in self._named.items():
            self._adam.state[parameter] = dict(state[name])

    def _moments(self, parameter: Tensor) -> dict[str, Tensor]:
        if parameter in self._adam.state:
            return dict(self._adam.state[parameter])
        return {
            "step": torch.zeros((), dtype=torch.float32, device=parameter.device),
            "exp_avg": torch.zeros_like(parameter, requires_grad=False),
            "exp_avg_sq": torch.zeros_like(parameter, requires_grad=False),
        }


KNOWN_LR, KNOWN_SIZE = 2e-5, 134_515_008
"""A rate that SmolLM2-135M is known to learn with, all weights trained."""
LR_EXPONENT = 0.75
"""How fast the rate falls with the number of trained parameters: to 1e-6 at 7 billion."""
MAX_LR = 3e-4


def with_learning_rate(settings: TrainSettings, parameters: int) -> TrainSettings:
    """Return settings with a learning rate: their own, or one for this number of parameters.

    >>> sizes = (10**6, 135 * 10**6, 7 * 10**9)
    >>> [f"{with_learning_rate(TrainSettings(), size).lr:.0e}" for size in sizes]
    ['3e-04', '2e-05', '1e-06']
    >>> with_learning_rate(TrainSettings(lr=0.5), 10**6).lr
    0.5
    """
    if settings.lr is not None:
        return settings
    lr = min(MAX_LR, KNOWN_LR * (KNOWN_SIZE / max(1, parameters)) ** LR_EXPONENT)
    return settings.model_copy(update={"lr": float(f"{lr:.1e}")})


def learning_rate(step: int, settings: TrainSettings) -> float:
    """Return the rate of a step, counted from 0: a linear warm-up, then the schedule.

    >>> settings = TrainSettings(steps=10, lr=1.0, warmup_steps=2, schedule="cosine")
    >>> [round(learning_rate(step, settings), 2) for step in (0, 1, 2, 6, 9)]
    [0.5, 1.0, 1.0, 0.5, 0.04]
    """
    assert settings.lr is not None, "see with_learning_rate"
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
