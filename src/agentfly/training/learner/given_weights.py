"""A policy's weights in each of the forms that engines take."""

from collections.abc import Sequence
from pathlib import Path

import torch
from torch import Tensor

from agentfly.training.learner.policy import Policy
from agentfly.types import AdapterFolder, NamedTensors, SharedTensors, Weights, WeightsFolder


def forms(policy: Policy) -> Sequence[type[Weights]]:
    """Return the forms that `give` knows, the cheapest first."""
    adapters: list[type[Weights]] = [AdapterFolder] if policy.adapted else []
    return [SharedTensors, *adapters, NamedTensors, WeightsFolder]


def give(policy: Policy, form: type[Weights], folder: Path) -> Weights:
    """Return the weights as they are now; forms with files write them to a new `folder`."""
    if form is SharedTensors:
        return SharedTensors()
    if form is NamedTensors:
        return NamedTensors(stream=lambda: policy.tensors().items())
    if form is AdapterFolder:
        policy.save_adapters(folder)
        return AdapterFolder(path=folder)
    _write_all(policy, folder)
    return WeightsFolder(path=folder)


def _write_all(policy: Policy, folder: Path) -> None:
    """Write all weights under their names, the head of tied embeddings too.

    `save_pretrained` leaves such a head out, and a server that ties it only when it starts would
    keep the old one.
    """
    from safetensors.torch import save_file

    folder.mkdir(parents=True)
    tensors = _apart(policy.tensors(), policy.compute_dtype)
    save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})
    policy.causal_lm.config.save_pretrained(folder)


def _apart(tensors: dict[str, Tensor], dtype: torch.dtype) -> dict[str, Tensor]:
    """Give every name memory of its own, as the file format wants it."""
    seen: set[int] = set()
    apart = {}
    for name, tensor in tensors.items():
        own = tensor.detach().to(dtype).contiguous()
        apart[name] = own.clone() if own.data_ptr() in seen else own
        seen.add(own.data_ptr())
    return apart
