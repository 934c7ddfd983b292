"""Memory of each learner process, estimated from a model's config.json: no weights are needed.

Two models of one and of two layers are made of tensors without values, and go through the estimate
of a run (`memory`). All that a model takes grows by the same amount with each further layer.
"""

import copy
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch._subclasses.fake_tensor import FakeTensorMode

from agentfly.algorithms import Algorithm
from agentfly.config import LoraSettings, RunSettings
from agentfly.training.learner.memory import Sizes, measure_sizes, memory_of
from agentfly.training.learner.packed_forward import Forward
from agentfly.training.learner.policy import add_adapters, device_of, dtype_of


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessMemory:
    """Bytes in one learner process."""

    processes: int
    weights: float
    """In training, and those of the reference and the critic."""
    state: float
    """Gradients, and what the optimizer remembers."""
    passes: float
    """Activations of a full row, logits, and layers that are gathered."""

    @property
    def total(self) -> float:
        """All of it."""
        return self.weights + self.state + self.passes

    def __str__(self) -> str:
        where = (
            "the learner" if self.processes == 1 else f"each of {self.processes} learner processes"
        )
        return (
            f"{where} takes about {_gb(self.total)} at the most: {_gb(self.weights)} of weights "
            f"and {_gb(self.state + self.passes)} beyond them, {_gb(self.state)} for gradients and "
            f"averages and up to {_gb(self.passes)} for activations. Engines come on top"
        )


def estimate_run(folder: Path, settings: RunSettings, algorithm: Algorithm) -> ProcessMemory:
    """Estimate what a run takes in each of its learner processes.

    Args:
        folder: Has the model's config.json.
        settings: Of the model, the rows and the processes.
        algorithm: Whether there is a reference or a critic.
    """
    model, processes = settings.model, settings.learner.processes
    dtype = dtype_of(model, device_of(model.device))
    sizes = model_sizes(folder, model.lora, dtype=dtype, checkpointing=model.gradient_checkpointing)
    return process_memory(
        sizes,
        model.lora,
        settings.train.tokens_per_microbatch,
        processes,
        dtype,
        reference=algorithm.needs_reference,
        critic=algorithm.critic is not None,
    )


def process_memory(
    sizes: Sizes,
    lora: LoraSettings | None,
    tokens: int,
    processes: int,
    dtype: torch.dtype,
    *,
    reference: bool,
    critic: bool,
) -> ProcessMemory:
    """Return the memory of each process; under adapters, reference and critic share the base."""
    bits = lora.base_bits if lora else None
    saved = sizes.frozen_linear * (4 - bits / 8) if bits else 0.0
    base = 4 * (sizes.frozen + sizes.trained) - saved
    copied = 0 if lora else sizes.trained * (dtype.itemsize * reference + 4 * critic)
    trained = sizes.trained * (1 + critic)
    needed = memory_of(sizes, trained, tokens, processes=processes)
    return ProcessMemory(
        processes=processes,
        weights=(base + copied) / processes,
        state=needed.state,
        passes=needed.total - needed.state,
    )


@cache
def model_sizes(
    folder: Path, lora: LoraSettings | None, *, dtype: torch.dtype, checkpointing: bool
) -> Sizes:
    """Return the sizes of the model in a folder with a config.json."""
    import transformers

    config: Any = transformers.AutoConfig.from_pretrained(folder, trust_remote_code=False)
    return sizes_of(
        # As a run trains them, whatever dtype the folder has them in.
        lambda short: transformers.AutoModelForCausalLM.from_config(short, dtype=torch.float32),
        config,
        lora,
        dtype=dtype,
        checkpointing=checkpointing,
    )


def sizes_of(
    make: Callable[[Any], Any],
    config: Any,
    lora: LoraSettings | None,
    *,
    dtype: torch.dtype,
    checkpointing: bool,
) -> Sizes:
    """Return the sizes of the model that `make` would make of a configuration."""
    layers: int = config.get_text_config(decoder=True).num_hidden_layers
    one, two = (
        _measured(make, _shortened(config, count), lora, dtype, checkpointing=checkpointing)
        for count in (1, 2)
    )
    return one.extended(two, layers)


def _measured(
    make: Callable[[Any], Any],
    config: Any,
    lora: LoraSettings | None,
    dtype: torch.dtype,
    *,
    checkpointing: bool,
) -> Sizes:
    with torch.device("meta"):
        model = make(config)
        if lora is not None:
            add_adapters(model, lora, seed=0)
    with FakeTensorMode():
        _pretend_on_cpu(model)
        return measure_sizes(Forward(model, dtype=dtype, checkpointing=checkpointing))


def _shortened(config: Any, layers: int) -> Any:
    short = copy.deepcopy(config)
    text = short.get_text_config(decoder=True)
    text.num_hidden_layers = layers
    if getattr(text, "layer_types", None):
        text.layer_types = list(text.layer_types[:layers])
    return short


def _pretend_on_cpu(model: nn.Module) -> None:
    """Replace tensors of the device `meta`, on which there is no autocast, by fake ones."""
    made: dict[int, nn.Parameter] = {}
    for module in model.modules():
        for name, old in module._parameters.items():
            if old is not None and id(old) not in made:
                fake = torch.empty(old.shape, dtype=old.dtype)
                made[id(old)] = nn.Parameter(fake, requires_grad=old.requires_grad)
            module._parameters[name] = None if old is None else made[id(old)]
        for name, buffer in module._buffers.items():
            if buffer is not None:
                module._buffers[name] = torch.empty(buffer.shape, dtype=buffer.dtype)


def _gb(size: float) -> str:
    return f"{size / 1e9:.2g} GB"
