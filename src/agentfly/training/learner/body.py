"""A model's body over packed rows: from tokens to hidden states.

`PackedBody` computes each token of a row once. Models whose attention can't be replaced, or isn't
ordinary (a sliding window, a recurrent state), go through `PaddedBody`, one sample per line.

Letters of the shapes: N tokens of a row, B samples of it, T length of the longest, D width.
"""

import logging
from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import Any

import torch
from torch import Tensor, nn
from torch._subclasses.fake_tensor import FakeTensor

from agentfly.errors import ConfigError
from agentfly.modeling.shared_view import shared_view
from agentfly.training.learner.flex_attention import attention_for
from agentfly.training.learner.pack import PackedRow, pack
from agentfly.training.learner.segment_attention import IMPLEMENTATION, attending, recomputing
from agentfly.types import Sample

PROBE_TOKENS = 24
"""Shared by the probe's samples: enough for a wrong position, mask or scale to show."""

TOLERANCE = 1e-3
"""Largest relative error of hidden states, in float32."""

_log = logging.getLogger(__name__)


def make_body(
    module: Any, *, dtype: torch.dtype, checkpointing: bool = False
) -> "PackedBody | PaddedBody":
    """Choose the way for a causal language model, and say so where it is the slow one."""
    reason = _why_not_packed(module)
    if reason is None:
        return PackedBody(module, dtype=dtype, checkpointing=checkpointing)
    _log.warning(
        "%s can't be trained on packed rows: %s. Its samples are padded, and prompts that "
        "they share are computed for each of them",
        *(type(module).__name__, reason),
    )
    return PaddedBody(module, dtype=dtype, checkpointing=checkpointing)


class PackedBody(nn.Module):
    """All samples of a row end to end, each segment attending to its own past alone."""

    shares_prefixes = True
    """Rows may hold only once what samples have in common."""

    def __init__(self, module: Any, *, dtype: torch.dtype, checkpointing: bool = False) -> None:
        super().__init__()
        self.module = without_dropout(shared_view(module))
        self.module.set_attn_implementation(IMPLEMENTATION)
        if checkpointing:
            checkpoint_activations(self.module, context_fn=recomputing)
        self._dtype = dtype

    def forward(self, row: PackedRow) -> Tensor:
        """Return the hidden states of a row, NxD."""
        device = self.module.device
        ids, positions = (part[None].to(device) for part in (row.token_ids, row.positions))
        attention = attention_for(row.segments, device)
        with attending(attention), autocast(self.module, self._dtype):
            output = self.module.base_model(input_ids=ids, position_ids=positions, use_cache=False)
        hidden: Tensor = output.last_hidden_state[0]
        return hidden


class PaddedBody(nn.Module):
    """One sample per line, padded to the longest, with the model's own attention."""

    shares_prefixes = False
    """Every sample is whole."""

    def __init__(self, module: Any, *, dtype: torch.dtype, checkpointing: bool = False) -> None:
        super().__init__()
        self.module = without_dropout(shared_view(module))
        if checkpointing:
            checkpoint_activations(self.module)
        self._dtype = dtype

    def forward(self, row: PackedRow) -> Tensor:
        """Return the hidden states of a row, NxD."""
        ids = row.token_ids.to(self.module.device)
        parts = [ids[segment.start : segment.end] for segment in row.segments]
        ids_BT = torch.nn.utils.rnn.pad_sequence(parts, batch_first=True)
        lengths = torch.tensor([len(part) for part in parts], device=ids.device)
        present_BT = torch.arange(ids_BT.shape[1], device=ids.device) < lengths[:, None]
        with autocast(self.module, self._dtype):
            output = self.module.base_model(
                input_ids=ids_BT, attention_mask=present_BT.long(), use_cache=False
            )
        hidden: Tensor = output.last_hidden_state[present_BT]
        return hidden


def autocast(module: Any, dtype: torch.dtype) -> AbstractContextManager[None]:
    """Multiply matrices in this dtype; the weights stay what they are."""
    device = module.device.type
    return torch.autocast(device, dtype, enabled=dtype != torch.float32)


def has_no_values(module: Any) -> bool:
    """Return whether a module has only the shapes of its weights, so that nothing is computed."""
    return any(isinstance(parameter, FakeTensor) for parameter in module.parameters())


def _why_not_packed(module: Any) -> str | None:
    config = module.config.get_text_config(decoder=True)
    rope = (getattr(config, "rope_parameters", None) or {}).get("rope_type", "default")
    if rope in ("dynamic", "longrope"):
        return f"its rotary embedding ({rope}) changes with the length of the sequence"
    if not getattr(module, "_supports_attention_backend", False):
        return "its attention can't be replaced"
    if has_no_values(module):
        return None
    try:
        error = _packing_error(module)
    except ConfigError as reason:
        return str(reason)
    if not error <= TOLERANCE:
        return f"its hidden states then differ by {error:.2g} of the largest"
    return None


@torch.no_grad()
def _packing_error(module: Any) -> float:
    """Compare two samples with a common beginning to each of them alone."""
    vocabulary = module.get_input_embeddings().num_embeddings
    common = tuple(i % vocabulary for i in range(PROBE_TOKENS))
    samples = [_probe((*common, 1 % vocabulary, 0)), _probe((*common, 2 % vocabulary))]
    (row,) = pack(samples, budget=2 * PROBE_TOKENS + 3)
    hidden_ND = PackedBody(module, dtype=torch.float32)(row)
    errors = [
        _relative_error(hidden_ND[place.indices()], _alone(module, samples[place.sample].token_ids))
        for place in row.places
    ]
    return max(errors)


def _alone(module: Any, ids: Sequence[int]) -> Tensor:
    was_training = module.training
    output = module.eval().base_model(
        input_ids=torch.tensor([ids], device=module.device), use_cache=False
    )
    module.train(was_training)
    hidden: Tensor = output.last_hidden_state[0]
    return hidden


def _relative_error(ours: Tensor, theirs: Tensor) -> float:
    return ((ours - theirs).abs().max() / theirs.abs().max().clamp_min(1e-6)).item()


def _probe(ids: tuple[int, ...]) -> Sample:
    count = len(ids)
    return Sample(
        token_ids=ids,
        mask=(False,) * count,
        logprobs=(0.0,) * count,
        versions=(-1,) * count,
        turn_index=(0,) * count,
        temperature=1.0,
        chain_id="",
        group_id="",
    )


def without_dropout(module: Any) -> Any:
    """Put a module into training mode, in which it still computes what it samples with."""
    for part in module.modules():
        if isinstance(part, nn.Dropout):
            part.p = 0.0
    return module.train()


def checkpoint_activations(module: Any, **more: Any) -> None:
    """Compute each layer's activations twice instead of keeping them."""
    options = {"use_reentrant": False, **more}
    if hasattr(module, "activation_checkpointing_enable"):
        module.activation_checkpointing_enable(activation_checkpointing_kwargs=options)
    else:  # transformers before 5.23
        module.gradient_checkpointing_enable(gradient_checkpointing_kwargs=options)
