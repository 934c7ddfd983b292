"""What people hand to the engine, checked at its door."""

import reprlib
from collections.abc import Sequence
from typing import get_args

import numpy as np
import torch

from agentfly.engines.local.core import StaleCache
from agentfly.engines.local.key_values import TokenIds
from agentfly.errors import ConfigError
from agentfly.runtime.names import look_up, suggestion


def require_stale_cache(name: object) -> None:
    """Refuse a policy for old keys that there is not.

    >>> require_stale_cache("kep")
    Traceback (most recent call last):
    agentfly.errors.ConfigError: unknown stale_cache 'kep'. Did you mean 'keep'? Known: keep, \
recompute.
    """
    look_up(str(name), dict.fromkeys(get_args(StaleCache)), "stale_cache")


def require_positive(**numbers: object) -> None:
    """Refuse whatever isn't a whole number of at least 1; None stands for a default.

    >>> require_positive(max_running=0)
    Traceback (most recent call last):
    agentfly.errors.ConfigError: max_running must be a whole number of at least 1, got 0
    """
    for name, number in numbers.items():
        if number is None:
            continue
        if not isinstance(number, int) or isinstance(number, bool) or number < 1:
            raise ConfigError(f"{name} must be a whole number of at least 1, got {number!r}")


def require_dtype(dtype: object) -> None:
    """Refuse what torch can't hold weights in.

    >>> require_dtype("bfloat16")
    Traceback (most recent call last):
    agentfly.errors.ConfigError: dtype must be torch.float32 or the like, "auto" or None, got \
'bfloat16'. Did you mean torch.bfloat16?
    """
    if dtype is None or dtype == "auto":
        return
    if not isinstance(dtype, torch.dtype):
        meant = getattr(torch, str(dtype), None)
        is_dtype = isinstance(meant, torch.dtype)
        hint = f"Did you mean {meant}?" if is_dtype else suggestion(str(dtype), ["auto"])
        raise ConfigError(
            f'dtype must be torch.float32 or the like, "auto" or None, got {dtype!r}. {hint}'
        )
    if not dtype.is_floating_point:
        raise ConfigError(f"weights need a floating-point dtype, got {dtype}: try torch.bfloat16")


def token_ids(prompt_ids: Sequence[int], vocabulary: int) -> TokenIds:
    """Return a prompt's ids, each of them known to the model.

    >>> token_ids([3, 1.5], vocabulary=100)
    Traceback (most recent call last):
    agentfly.errors.ConfigError: a prompt must be a flat sequence of whole numbers, got [3, 1.5]
    """
    ids = _flat(prompt_ids)
    if ids.size == 0:
        raise ConfigError("a prompt needs at least one token, got none")
    low, high = int(ids.min()), int(ids.max())
    if low < 0 or high >= vocabulary:
        raise ConfigError(
            f"the prompt has token id {low if low < 0 else high}, expected 0 to "
            f"{vocabulary - 1}: was it made with another model's tokenizer?"
        )
    return ids.astype(np.int64)


def _flat(prompt_ids: Sequence[int]) -> TokenIds:
    try:
        ids = np.asarray(prompt_ids)
    except (TypeError, ValueError, RuntimeError):  # ragged, or a tensor that numpy can't read
        ids = np.empty((0, 0))
    # An empty list has a dtype too, but says nothing with it.
    if ids.ndim != 1 or (ids.size and ids.dtype.kind not in "iu"):
        raise ConfigError(
            f"a prompt must be a flat sequence of whole numbers, got {reprlib.repr(prompt_ids)}"
        )
    return ids
