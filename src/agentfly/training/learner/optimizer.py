"""AdamW with clipped gradients, which never takes in a number that is not finite."""

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from agentfly.config import TrainSettings

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Update:
    """What one call of the optimizer did."""

    grad_norm: float
    """Before clipping."""
    applied: bool
    """False where a gradient was not finite: the weights are what they were."""


class Optimizer:
    """Changes parameters in place, so that whoever shares them sees the change."""

    def __init__(self, parameters: Sequence[Tensor], settings: TrainSettings) -> None:
        self._parameters = list(parameters)
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
            lr=settings.lr,
            betas=settings.betas,
            fused=True,
        )

    def update(self, lr: float) -> Update:
        """Apply the gradients that were accumulated, and forget them."""
        norm = torch.nn.utils.clip_grad_norm_(self._parameters, self._max_norm)
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
        """Return the moments."""
        return self._adam.state_dict()

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Take the moments over."""
        self._adam.load_state_dict(state)
