"""Memory of a training run: an estimate before it begins, and a report when it runs out.

An update's share is estimated by forward passes over a few tokens. All but a fixed part of it grows
with the tokens of a row, however long the sequences in the row are and whatever they share, so two
short rows give both parts, for any model, in any precision.
"""

import logging
import math
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from agentfly.config import TrainSettings
from agentfly.errors import CallbackError, RunError
from agentfly.training.learner.attention_kernels import kernel_for
from agentfly.training.learner.logprob import CHUNK_BYTES
from agentfly.training.learner.packed_forward import Forward, completion_row
from agentfly.training.learner.sharding import layers_of

PROBE_TOKENS = 16
"""Tokens of the shorter row; the other one is twice as long."""

BYTES_PER_PARAMETER = 4 + 8
"""In float32: the gradient, and AdamW's two averages."""

CHUNKS_AT_ONCE = 3
"""Tensors of the size of one chunk's logits."""

CPU_ALLOCATOR = "DefaultCPUAllocator"
"""Named in what torch raises on a CPU, where it has no type of its own for that."""

GIB = 2**30
MOST_CACHE = 4 * GIB
"""More would only serve chains that rarely come back."""
LEAST_CACHE = GIB // 2
"""With less, chains of some thousand tokens could not be sampled at all."""

_log = logging.getLogger(__name__)

_MACHINE = Path("/proc/meminfo")
_CONTAINER = Path("/sys/fs/cgroup")


@dataclass(frozen=True, slots=True, kw_only=True)
class Memory:
    """Memory of training beyond the weights, in bytes."""

    state: float
    """Gradients, and what the optimizer remembers."""
    fixed: float
    """Activations and logits, whatever the length of a row."""
    per_token: float
    """Activations of each token of a row: those that are kept for the backward pass, and those of
    the one layer that it is at."""
    tokens: int
    """Tokens of a full row."""
    copy: float = 0.0
    """An engine's own copy of the weights, where it samples in another dtype."""

    @property
    def total(self) -> float:
        """The most that is needed, while a full row goes through the model."""
        return self.state + self.fixed + self.per_token * self.tokens + self.copy


@dataclass(frozen=True, slots=True, kw_only=True)
class Sizes:
    """Sizes of a model that the estimate needs."""

    trained: float
    """Number of trained parameters."""
    frozen: float
    """Number of the others."""
    frozen_linear: float
    """Number of those among them that are in linear layers, the head apart."""
    layers: int
    fixed: float
    """Bytes that are kept of any row until its backward pass."""
    per_token: float
    """Bytes that are kept of each token."""
    recomputed_per_token: float
    """The same without checkpointing: what comes back, layer by layer, in the backward pass."""
    at_work: float
    """Bytes that are whole at a time where weights are spread over processes."""
    vocabulary: int
    scores: Callable[[int], int]
    """From the tokens of a row to the bytes of attention's scores at a time."""

    def extended(self, longer: "Sizes", layers: int) -> "Sizes":
        """Return the sizes of a model of many layers, from this one and one with a layer more."""
        further = layers - self.layers

        def grown(here: float, next_to_it: float) -> float:
            return here + further * (next_to_it - here)

        return replace(
            longer,
            layers=layers,
            trained=grown(self.trained, longer.trained),
            frozen=grown(self.frozen, longer.frozen),
            frozen_linear=grown(self.frozen_linear, longer.frozen_linear),
            fixed=grown(self.fixed, longer.fixed),
            per_token=grown(self.per_token, longer.per_token),
            recomputed_per_token=grown(self.recomputed_per_token, longer.recomputed_per_token),
        )


def measure_sizes(forward: Forward) -> Sizes:
    """Measure a model before its weights are spread over processes."""
    module = forward.body.module
    fixed, per_token = _kept(forward)
    module.eval()  # Layers are checkpointed in training mode only.
    _, not_checkpointed = _kept(forward)
    module.train()
    numbers = dict.fromkeys((True, False), 0)
    for parameter in module.parameters():
        numbers[parameter.requires_grad] += parameter.numel()
    return Sizes(
        trained=numbers[True],
        frozen=numbers[False],
        frozen_linear=_frozen_linear(module),
        layers=module.config.get_text_config(decoder=True).num_hidden_layers,
        fixed=fixed,
        per_token=per_token,
        recomputed_per_token=not_checkpointed,
        at_work=_at_work(forward),
        vocabulary=forward.vocabulary,
        scores=partial(_scores, forward.body.shares_prefixes, module.config, module.device),
    )


def _frozen_linear(module: Any) -> int:
    head = module.get_output_embeddings()
    layers = [one for one in module.modules() if isinstance(one, nn.Linear) and one is not head]
    return sum(one.weight.numel() for one in layers if not one.weight.requires_grad)


def estimate_memory(
    forward: Forward, trained: Iterable[Tensor], tokens: int, *, processes: int = 1
) -> Memory:
    """Estimate the memory of an update of these parameters.

    Args:
        forward: The policy's forward pass, before its weights are spread over processes.
        trained: All parameters that are trained, also before that.
        tokens: Of a full row.
        processes: Over which gradients and averages are spread.
    """
    numbers = sum(parameter.numel() for parameter in trained)
    return memory_of(measure_sizes(forward), numbers, tokens, processes=processes)


def memory_of(sizes: Sizes, trained: float, tokens: int, *, processes: int = 1) -> Memory:
    """Return the memory that an update of `trained` parameters takes in each process."""
    logits = 4 * tokens * sizes.vocabulary
    # The head is done when the layers begin.
    chunks = max(CHUNKS_AT_ONCE * min(logits, CHUNK_BYTES), sizes.scores(tokens))
    return Memory(
        state=BYTES_PER_PARAMETER * trained / processes,
        fixed=sizes.fixed + chunks + sizes.at_work * (processes > 1),
        per_token=sizes.per_token + _working(sizes),
        tokens=tokens,
    )


def _at_work(forward: Forward) -> float:
    """Return what is whole at a time: embeddings, head and norms, and two layers.

    Their weights are gathered, and their gradients made in the dtype of computation; the gradients
    are copied to float32 before they are summed over processes.
    """
    size, module = forward.dtype.itemsize, forward.body.module
    layers = layers_of(module)
    inside = {id(p) for layer in layers for p in layer.parameters()}
    outside = [p for p in module.parameters() if id(p) not in inside]

    def whole(parameters: Iterable[nn.Parameter]) -> int:
        return sum((size + (size + 4) * p.requires_grad) * p.numel() for p in parameters)

    return float(whole(outside) + 2 * max((whole(one.parameters()) for one in layers), default=0))


def _kept(forward: Forward) -> tuple[float, float]:
    """Return what is kept of any row, and of each of its tokens."""
    short, double = (kept_bytes(forward, n) for n in (PROBE_TOKENS, 2 * PROBE_TOKENS))
    per_token = (double - short) / PROBE_TOKENS
    return short - PROBE_TOKENS * per_token, per_token


def _working(sizes: Sizes) -> float:
    """Return what the backward pass takes for each token in the one layer that it is at.

    The gradients of the layer's activations take about as much as these, and if the layer is
    checkpointed, the activations are there besides.
    """
    checkpointed = sizes.per_token < sizes.recomputed_per_token
    return (1 + checkpointed) * sizes.recomputed_per_token / sizes.layers


def _scores(in_chunks: bool, config: Any, device: torch.device, tokens: int) -> int:  # noqa: FBT001
    """Return what the scores of attention take at a time."""
    if not in_chunks:
        return 0  # The model's own attention, which is in none.
    heads: int = config.get_text_config(decoder=True).num_attention_heads
    return kernel_for(device).working_bytes(heads, tokens)


def kept_bytes(forward: Forward, tokens: int) -> int:
    """Return the size of all that is kept of one row until its backward pass, but the weights."""
    weights = {_place(parameter) for parameter in forward.body.module.parameters()}
    kept: dict[int, int] = {}

    def keep(tensor: Tensor) -> Tensor:
        if _place(tensor) not in weights:
            kept[_place(tensor)] = tensor.untyped_storage().nbytes()
        return tensor

    row, targets = completion_row([0], [0] * (tokens - 1), forward.body.module.device)
    with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        forward(row, targets)
    return sum(kept.values())


def _place(tensor: Tensor) -> int:
    """Identify a storage; those of tensors without values have no address."""
    place: int = tensor.untyped_storage()._cdata
    return place


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
    """Return whether an error, or one of its causes, is a failed allocation of memory."""
    if error is None:
        return False
    on_cpu = isinstance(error, RuntimeError) and CPU_ALLOCATOR in str(error)
    known = isinstance(error, MemoryError | torch.OutOfMemoryError)
    return known or on_cpu or is_out_of_memory(error.__cause__)


def engine_cache(needed: Memory, free: float) -> int:
    """Return how many bytes of keys and values an engine may keep: what training leaves free."""
    return int(min(MOST_CACHE, max(LEAST_CACHE, free - needed.total)))


def report_memory(needed: Memory, free: float, *, cache: int = 0) -> None:
    """Write down what a run takes, and warn where that is more than there is.

    Args:
        needed: By updates, and by the engine's copy of the weights.
        free: In bytes.
        cache: Bytes that an engine in the same process may keep.
    """
    update = needed.total - needed.copy
    said = (
        f"training takes about {_gb(update)} beyond the weights: {_gb(needed.state)} for "
        f"gradients and averages, and up to {_gb(update - needed.state)} for activations, "
        f"{needed.per_token / 1e6:.2g} MB for each token of train.tokens_per_microbatch"
    )
    if needed.copy:
        said += f". The engine samples from a copy of the weights, {_gb(needed.copy)} more"
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
    """Return how many bytes can still be had; inf where that is unknown.

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
