"""Whether a run will fit into memory: said before it begins, not by the kernel in its midst."""

import logging
import math
from pathlib import Path

import torch

from agentfly.training.learner.memory import Memory

GIB = 2**30
MOST_CACHE = 4 * GIB
"""More would only serve chains that rarely come back."""
LEAST_CACHE = GIB // 2
"""With less, chains of some thousand tokens could not be sampled at all."""

_log = logging.getLogger(__name__)

_MACHINE = Path("/proc/meminfo")
_CONTAINER = Path("/sys/fs/cgroup")


def engine_cache(needed: Memory, free: float) -> int:
    """Return how many bytes of keys and values an engine may keep: what training leaves free."""
    return int(min(MOST_CACHE, max(LEAST_CACHE, free - needed.total)))


def report_memory(needed: Memory, free: float, *, cache: int = 0) -> None:
    """Write down what a run takes, and warn where that is more than there is.

    Args:
        needed: By updates, and by the engine's copy of the weights.
        free: In bytes.
        cache: What an engine beside the learner may keep, in bytes.
    """
    activations = needed.total - needed.state - needed.copy
    said = (
        f"training takes about {_gb(needed.total)} beyond the weights: {_gb(needed.state)} of "
        f"gradients and averages, and up to {_gb(activations)} of activations, "
        f"{needed.per_token / 1e6:.2g} MB for each token of train.tokens_per_microbatch"
    )
    if needed.copy:
        said += f", and {_gb(needed.copy)} for the weights that the engine samples from"
    if cache:
        said += f". The engine keeps keys and values of up to {_gb(cache)} besides"
    if needed.total + cache <= free:
        _log.info("%s", said)
        return
    _log.warning(
        "%s. Only %s are free: lower train.tokens_per_microbatch, set "
        "model.gradient_checkpointing = true, or train adapters (model.lora)",
        *(said, _gb(free)),
    )


def free_memory(
    device: torch.device, *, machine: Path = _MACHINE, container: Path = _CONTAINER
) -> float:
    """Return how many bytes can still be had; inf where nobody says.

    Args:
        device: Where the model is.
        machine: What the kernel says of all memory.
        container: The control group of this process, whose limit may be lower.
    """
    if device.type == "cuda":
        return float(torch.cuda.mem_get_info(device)[0])
    available = _numbers(machine).get("MemAvailable:", math.inf) * 1024
    limit = _numbers(container / "memory.max", alone="max").get("max", math.inf)
    # What files take up in a container's account is given back when it is needed.
    return min(available, limit - _numbers(container / "memory.stat").get("anon", 0.0))


def _numbers(file: Path, alone: str = "") -> dict[str, float]:
    """Read lines such as `anon 4096`; a line that is only a number goes by the name `alone`."""
    try:
        lines = [line.split() for line in file.read_text().splitlines()]
    except OSError:
        return {}
    named = [[alone, *line] if len(line) == 1 else line for line in lines]
    return {name: float(value) for name, value, *_ in named if value.isdecimal()}


def _gb(size: float) -> str:
    return f"{size / 1e9:.2g} GB"
