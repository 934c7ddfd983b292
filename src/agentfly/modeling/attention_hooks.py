"""Parts that every attention function shares which replaces the one of a Hugging Face module."""

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from agentfly.errors import ConfigError

HARMLESS = (
    "position_ids",
    "use_cache",
    "is_causal",
    "cache_position",
    "output_attentions",
    "output_router_logits",
)
"""Arguments of an attention function that change nothing here; any other one must be unset."""


def require_ordinary(module: Any, unusual: Mapping[str, object], *, way_out: str = "") -> None:
    """Raise ConfigError unless a module's attention is plain causal attention.

    >>> require_ordinary(torch.nn.Identity(), {"is_causal": True, "sliding_window": 512})
    Traceback (most recent call last):
    agentfly.errors.ConfigError: the attention of Identity wants sliding_window
    """
    wanted = sorted(k for k, v in unusual.items() if v is not None and k not in HARMLESS)
    if wanted:
        name = type(module).__name__
        raise ConfigError(f"the attention of {name} wants {', '.join(wanted)}{way_out}")


def scale_of(query: Tensor, scaling: float | None) -> float:
    """Return the factor for products of queries and keys: the module's own, or the usual one."""
    return scaling if scaling is not None else float(query.shape[-1] ** -0.5)


def causal_mask(start: int, end: int, *, groups: int, like: Tensor) -> Tensor:
    """Return a causal mask for the queries at `start` to `end`: 0 shows a key, -inf hides it.

    >>> causal_mask(1, 3, groups=1, like=torch.zeros(1))
    tensor([[0., 0., -inf],
            [0., 0., 0.]])

    Args:
        start: How many keys come before the first query.
        end: How many keys there are.
        groups: How many queries share a head of keys; they are folded into the rows.
        like: Gives dtype and device.
    """
    reach = torch.arange(start, end, device=like.device).repeat(groups)
    hidden = torch.arange(end, device=like.device) > reach[:, None]
    return like.new_zeros(hidden.shape).masked_fill_(hidden, -torch.inf)
