"""Whether a run will fit into memory: said before it begins, not by the kernel in its midst."""

import logging
import math
from pathlib import Path

import torch

from agentfly.training.learner.memory import Memory

_log = logging.getLogger(__name__)

_MACHINE = Path("/proc/meminfo")
_CONTAINER = Path("/sys/fs/cgroup")


def tell_memory(needed: Memory, free: float) -> None:
    """Write down what updates take, and warn where that is more than there is."""
    activations = needed.total - needed.state
    said = (
        f"an update takes about {_gb(needed.total)} beyond the weights: {_gb(needed.state)} of "
        f"gradients and averages, and up to {_gb(activations)} of activations, "
        f"{needed.per_token / 1e6:.2g} MB for each token of train.tokens_per_microbatch"
    )
    if needed.total <= free:
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
