"""The weights that are sampled from: those of the trained module, or a copy of them.

Either way the engine runs a view of the module (`agentfly.modeling.shared_view`). Sharing, its
parameters are the module's own parameter objects, so that a learner's in-place update is seen
without any copying. As a copy, they are refreshed in place.
"""

import itertools
from collections.abc import Iterable, Mapping
from typing import Any, Literal

import torch
from torch import Tensor

from agentfly.errors import ConfigError
from agentfly.modeling.shared_view import bfloat16_pays, copied_view, shared_view

Dtype = torch.dtype | Literal["auto"] | None
"""None: the module's own. "auto": bfloat16 where the hardware computes in it, else the module's."""


class SampledWeights:
    """The view that is sampled from, and the ways in which its weights change."""

    def __init__(self, module: Any, dtype: Dtype = None, *, copy: bool = False) -> None:
        self._module = module
        self._dtype = _resolve(dtype, module)
        self.exact = bool(self._dtype == module.dtype)
        self.shared = self.exact and not copy
        self.view = (
            shared_view(module) if self.shared else copied_view(module, self._dtype)
        ).eval()

    def refresh(self) -> None:
        """Update the view after the module was changed in place."""
        if not self.shared:
            _copy_into(self.view, self._module.state_dict())
        elif not _same_parameters(self.view, self._module):
            # The learner replaced whole parameters instead of writing into them.
            self.view = shared_view(self._module).eval()

    def load(self, weights: Mapping[str, Any]) -> None:
        """Load a state dict, into the module itself where its weights are shared."""
        _copy_into(self.view, weights)

    def load_each(self, weights: Iterable[tuple[str, Any]]) -> None:
        """Load tensors one by one, holding one at a time; after an error they are a mixture."""
        own: dict[str, Tensor] = self.view.state_dict()
        loaded: dict[str, None] = {}
        with torch.no_grad():
            for name, tensor in weights:
                if name in own:
                    _check_tensor(name, tensor, own[name].shape)
                    own[name].copy_(tensor)
                loaded[name] = None
        _check_names(self.view, own, loaded)


def _resolve(dtype: Dtype, module: Any) -> torch.dtype:
    own: torch.dtype = module.dtype
    if dtype is None:
        return own
    if dtype != "auto":
        return dtype
    return torch.bfloat16 if own == torch.float32 and bfloat16_pays(module.device) else own


def _same_parameters(view: Any, module: Any) -> bool:
    pairs = itertools.zip_longest(view.parameters(), module.parameters())
    return all(mine is theirs for mine, theirs in pairs)


def _copy_into(view: Any, weights: Mapping[str, Any]) -> None:
    """Copy all of the weights, or none of them if any doesn't fit."""
    own: dict[str, Tensor] = view.state_dict()
    _check_names(view, own, weights)
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


def _check_names(view: Any, own: Mapping[str, Tensor], weights: Mapping[str, Any]) -> None:
    tied = getattr(view, "all_tied_weights_keys", None) or ()
    missing = sorted(own.keys() - weights.keys() - set(tied))
    unknown = sorted(weights.keys() - own.keys(), key=str)
    if missing or unknown:
        raise ConfigError(
            f"the weights don't fit {type(view).__name__}: missing {missing[:5]}, unknown "
            f"{unknown[:5]}. Expected the keys of its state dict"
        )
