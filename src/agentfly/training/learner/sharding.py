"""Weights that are spread over several processes by FSDP2, and the ways back to whole tensors.

Each layer is gathered when it is needed, in the dtype that it is computed in, and released after
it; the weights that the optimizer changes stay in float32. Gradients are summed in float32 with the
backward pass of each row, layer by layer, and each process keeps its own part of the sums only.
Losses are divided by global denominators, so that gradients are summed over processes, never
averaged.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn
from torch.distributed.fsdp import (
    CPUOffloadPolicy,
    FSDPModule,
    MixedPrecisionPolicy,
    OffloadPolicy,
    fully_shard,
)
from torch.distributed.tensor import DTensor, distribute_tensor

from agentfly.training.learner.peers import Peers


def shard(
    root: nn.Module,
    causal_lm: Any,
    peers: Peers,
    *,
    dtype: torch.dtype,
    offload: bool = False,
    exact: Sequence[nn.Module] = (),
) -> None:
    """Spread a module's parameters over the processes, in place.

    Args:
        root: The module whose `forward` uses all of them.
        causal_lm: The Hugging Face module inside, whose layers are gathered one by one.
        peers: The processes.
        dtype: What the parameters are computed in.
        offload: Keep this process's part in the machine's memory instead of the GPU's.
        exact: Modules inside that are always computed in float32.
    """
    on_gpu = peers.mesh.device_type != "cpu"
    options: dict[str, Any] = {
        "mesh": peers.mesh,
        "offload_policy": CPUOffloadPolicy() if offload and on_gpu else OffloadPolicy(),
    }
    computed = None if dtype == torch.float32 else dtype
    rounded = MixedPrecisionPolicy(param_dtype=computed, reduce_dtype=torch.float32)
    for module in exact:
        fully_shard(module, **options)
    for layer in layers_of(causal_lm):
        fully_shard(layer, mp_policy=rounded, **options)
    # Its inputs are tokens, and temperatures that are not to be rounded.
    fully_shard(root, mp_policy=replace(rounded, cast_forward_inputs=False), **options)
    for module in root.modules():
        if isinstance(module, FSDPModule):
            module.set_gradient_divide_factor(1.0)
            module.set_force_sum_reduction_for_comms(enable=True)


def layers_of(causal_lm: Any) -> list[nn.Module]:
    """Find the layers that transformers never splits over devices."""
    names = set(getattr(causal_lm, "_no_split_modules", None) or ())
    return [module for module in causal_lm.modules() if type(module).__name__ in names]


def release(module: nn.Module) -> None:
    """Release what a pass without gradients leaves gathered."""
    if isinstance(module, FSDPModule):
        module.reshard()


def whole(tensor: Tensor) -> Tensor:
    """Return a whole tensor; all processes must ask for the same ones in the same order."""
    return tensor.full_tensor() if isinstance(tensor, DTensor) else tensor


def like(parameter: Tensor, value: Tensor) -> Tensor:
    """Return a whole tensor as this process's part of it, if the parameter is sharded."""
    if not isinstance(parameter, DTensor) or isinstance(value, DTensor):
        return value
    on_device = value.to(parameter.device)
    return distribute_tensor(
        on_device, parameter.device_mesh, parameter.placements, src_data_rank=None
    )


@torch.no_grad()
def fill(parameters: Mapping[str, Tensor], values: Mapping[str, Tensor]) -> None:
    """Copy whole tensors into parameters of the same names, sharded or not."""
    for name, parameter in parameters.items():
        value = like(parameter, values[name])
        if isinstance(parameter, DTensor):
            assert isinstance(value, DTensor), "distributed like the parameter"
            parameter.to_local().copy_(value.to_local())
        else:
            parameter.copy_(value)
