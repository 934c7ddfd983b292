"""An update that does not fit into memory, told with the settings that help."""

from collections.abc import Iterator
from contextlib import contextmanager

import torch

from agentfly.config import TrainSettings
from agentfly.errors import CallbackError, RunError

CPU_ALLOCATOR = "DefaultCPUAllocator"
"""Named in what torch raises on a CPU, where it has no type of its own for that."""


@contextmanager
def report_out_of_memory(train: TrainSettings) -> Iterator[None]:
    """End a run whose updates take more than there is, and say how to go on with less.

    In a loss of a user's own it comes as the error of a callback.
    """
    try:
        yield
    except (MemoryError, RuntimeError, CallbackError) as error:
        if not is_out_of_memory(error):
            raise
        raise RunError(
            f"an update ran out of memory ({error}). Lower train.tokens_per_microbatch = "
            f"{train.tokens_per_microbatch}, or set model.gradient_checkpointing = true, then "
            "continue with --resume; a new run may train adapters (model.lora)"
        ) from error


def is_out_of_memory(error: BaseException | None) -> bool:
    """Tell whether an error, or one that it comes from, is that no more memory could be had."""
    if error is None:
        return False
    on_cpu = isinstance(error, RuntimeError) and CPU_ALLOCATOR in str(error)
    known = isinstance(error, MemoryError | torch.OutOfMemoryError)
    return known or on_cpu or is_out_of_memory(error.__cause__)
