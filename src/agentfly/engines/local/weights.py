"""Which weights are sampled from: the very module that is trained, or a copy in another dtype.

Either way the engine runs a *twin*: a second tree of modules with a configuration and a training
flag of its own. Sharing, its parameters are the module's own parameter objects, so that a learner's
in-place update is seen without any copying. As a copy, they are refreshed in place.
"""

import copy
import itertools
from collections.abc import Mapping
from typing import Any, Literal

import torch
from torch import Tensor

from agentfly.errors import ConfigError

Dtype = torch.dtype | Literal["auto"] | None
"""None: the module's own. "auto": bfloat16 where the hardware computes in it, else the module's."""


class SampledWeights:
    """The twin, and the ways in which its weights change."""

    def __init__(self, module: Any, dtype: Dtype = None) -> None:
        self._module = module
        self._dtype = _resolve(dtype, module)
        self.shared = self._dtype == module.dtype
        self.twin = _shared_twin(module) if self.shared else _copied_twin(module, self._dtype)

    def refresh(self) -> None:
        """Follow the module after it was changed in place."""
        if not self.shared:
            _copy_into(self.twin, self._module.state_dict())
        elif not _same_parameters(self.twin, self._module):
            # The learner replaced whole parameters instead of writing into them.
            self.twin = _shared_twin(self._module)

    def load(self, weights: object) -> None:
        """Take over a state dict; sharing, the module itself gets it."""
        if not isinstance(weights, Mapping):
            raise ConfigError(
                "weights must be a state dict, or None when the module was changed in place: got "
                f"{type(weights).__name__}"
            )
        _copy_into(self.twin, weights)


def _resolve(dtype: Dtype, module: Any) -> torch.dtype:
    own: torch.dtype = module.dtype
    if dtype is None:
        return own
    if dtype != "auto":
        return dtype
    return torch.bfloat16 if own == torch.float32 and bfloat16_pays(module.device) else own


def bfloat16_pays(device: torch.device) -> bool:
    """Tell whether the hardware multiplies matrices in bfloat16 itself.

    A processor that only emulates it is several times slower than in float32.
    """
    if device.type == "cuda":
        return bool(torch.cuda.is_bf16_supported(including_emulation=False))
    can = torch.cpu.get_capabilities()
    return bool(can.get("avx512_bf16") or can.get("amx_bf16"))


def sharing_twin(module: Any) -> Any:
    """Return a copy whose parameters and buffers are the module's own.

    What is set on it (attention, checkpointing, training mode) touches neither the module nor any
    other twin of it.
    """
    tensors = [*module.parameters(), *module.buffers()]
    return copy.deepcopy(module, {id(tensor): tensor for tensor in tensors})


def _shared_twin(module: Any) -> Any:
    return sharing_twin(module).eval()


def _copied_twin(module: Any, dtype: torch.dtype) -> Any:
    return copy.deepcopy(module).to(dtype).eval().requires_grad_(requires_grad=False)


def _same_parameters(twin: Any, module: Any) -> bool:
    pairs = itertools.zip_longest(twin.parameters(), module.parameters())
    return all(mine is theirs for mine, theirs in pairs)


def _copy_into(twin: Any, weights: Mapping[str, Any]) -> None:
    """Copy all of the weights, or none of them if any doesn't fit."""
    own: dict[str, Tensor] = twin.state_dict()
    _check_names(twin, own, weights)
    for name, tensor in weights.items():
        _check_tensor(name, tensor, own[name].shape)
    with torch.no_grad():
        for name, tensor in weights.items():
            own[name].copy_(tensor)


def _check_tensor(name: str, tensor: object, shape: torch.Size) -> None:
    if not isinstance(tensor, Tensor):
        raise ConfigError(
            f"weight {name!r} must be a torch.Tensor, got {type(tensor).__name__}: arrays need "
            "torch.from_numpy"
        )
    if tensor.shape != shape:
        raise ConfigError(
            f"weight {name!r} has shape {tuple(tensor.shape)}, expected {tuple(shape)}"
        )


def _check_names(twin: Any, own: Mapping[str, Tensor], weights: Mapping[str, Any]) -> None:
    tied = getattr(twin, "all_tied_weights_keys", None) or ()
    missing = sorted(own.keys() - weights.keys() - set(tied))
    unknown = sorted(weights.keys() - own.keys(), key=str)
    if missing or unknown:
        raise ConfigError(
            f"the weights don't fit {type(twin).__name__}: missing {missing[:5]}, unknown "
            f"{unknown[:5]}. Expected the keys of its state dict"
        )
