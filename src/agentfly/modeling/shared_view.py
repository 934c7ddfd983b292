"""Views of a module: a second tree of modules over the same parameters, or over a copy of them.

Each view has a configuration, an attention function and a training flag of its own, so that an
engine and a learner can use one set of weights in two ways.
"""

import copy
from typing import Any

import torch


def shared_view(module: Any) -> Any:
    """Return a view whose parameters and buffers are the module's own.

    An in-place update of the module is seen in the view without copying.
    """
    tensors = [*module.parameters(), *module.buffers()]
    return copy.deepcopy(module, {id(tensor): tensor for tensor in tensors})


def copied_view(module: Any, dtype: torch.dtype) -> Any:
    """Return a view over a copy of the weights in another dtype, without gradients."""
    return copy.deepcopy(module).to(dtype).requires_grad_(requires_grad=False)


def bfloat16_pays(device: torch.device) -> bool:
    """Return whether the hardware multiplies matrices in bfloat16 itself.

    A processor that only emulates it is several times slower than in float32.
    """
    if device.type == "cuda":
        return bool(torch.cuda.is_bf16_supported(including_emulation=False))
    can = torch.cpu.get_capabilities()
    return bool(can.get("avx512_bf16") or can.get("amx_bf16"))
