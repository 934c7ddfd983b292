"""A second tree of modules over the same parameters, with settings of its own."""

import copy
from typing import Any

from torch import nn


def sharing_twin(module: Any) -> Any:
    """Return a copy whose parameters and buffers are the module's own.

    What a learner sets on it (attention, checkpointing, training mode) touches neither the module
    nor an engine that samples from it.
    """
    tensors = [*module.parameters(), *module.buffers()]
    return copy.deepcopy(module, {id(tensor): tensor for tensor in tensors})


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
