"""Settings of the view that a learner trains: no dropout, activations kept or recomputed."""

from typing import Any

from torch import nn


def without_dropout(module: Any) -> Any:
    """Put a module into training mode, in which it still computes what it samples with."""
    for part in module.modules():
        if isinstance(part, nn.Dropout):
            part.p = 0.0
    return module.train()


def checkpoint_activations(module: Any, **more: Any) -> None:
    """Compute each layer's activations twice instead of keeping them."""
    options = {"use_reentrant": False, **more}
    module.gradient_checkpointing_enable(gradient_checkpointing_kwargs=options)
