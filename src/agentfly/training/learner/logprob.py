"""Log-probabilities of given tokens, a chunk at a time, so that a large vocabulary costs no memory.

Letters of the shapes: K tokens to predict, D width of the model, V vocabulary.
"""

from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import linear

CHUNK_BYTES = 2**27
"""Memory for the logits of one chunk; about three such tensors exist at a time."""


def token_logprobs(
    hidden_KD: Tensor,
    weight_VD: Tensor,
    bias_V: Tensor | None,
    targets_K: Tensor,
    temperature_K: Tensor,
) -> tuple[Tensor, Tensor]:
    """Return the log-probability of each target, and the entropy of what it was drawn from.

    Both are of the distribution scaled by the temperature, and both carry a gradient. The logits
    are never kept: the backward pass computes them again.
    """
    logprobs_K, entropy_K = _ChunkedLogprobs.apply(  # type: ignore[no-untyped-call]
        hidden_KD, weight_VD, bias_V, targets_K, temperature_K
    )
    return logprobs_K, entropy_K


def _chunks(count: int, vocabulary: int) -> list[slice]:
    rows = max(1, CHUNK_BYTES // (4 * vocabulary))
    return [slice(start, start + rows) for start in range(0, count, rows)]


class _ChunkedLogprobs(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, *inputs: Any) -> tuple[Tensor, Tensor]:
        _, weight_VD, _, targets_K, temperature_K = inputs
        # No views of one tensor: FSDP2 warns of outputs that are views.
        logprobs_K, entropy_K, normalizer_K = (torch.empty_like(temperature_K) for _ in range(3))
        for chunk in _chunks(len(targets_K), len(weight_VD)):
            logits = _logits(inputs, chunk)
            normalizer = logits.logsumexp(-1)
            normalizer_K[chunk] = normalizer
            logprobs_K[chunk] = logits.gather(1, targets_K[chunk, None])[:, 0] - normalizer
            probabilities = (logits - normalizer[:, None]).exp_()
            entropy_K[chunk] = normalizer - torch.linalg.vecdot(probabilities, logits)
        ctx.save_for_backward(*inputs, normalizer_K, entropy_K)
        ctx.set_materialize_grads(False)
        return logprobs_K, entropy_K

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> tuple[Tensor | None, ...]:
        *inputs, normalizer_K, entropy_K = ctx.saved_tensors
        hidden_KD, weight_VD, bias_V, targets_K, temperature_K = inputs
        wanted = (hidden_KD, weight_VD, bias_V)
        totals = [
            torch.zeros_like(tensor, dtype=torch.float32) if needed else None
            for tensor, needed in zip(wanted, ctx.needs_input_grad, strict=False)
        ]
        for chunk in _chunks(len(targets_K), len(weight_VD)):
            logprobs = _logits(inputs, chunk).sub_(normalizer_K[chunk, None])
            by_logprob, by_entropy = (g if g is None else g[chunk, None] for g in gradients)
            dlogits = _dlogits(
                logprobs, targets_K[chunk, None], by_logprob, by_entropy, entropy_K[chunk, None]
            )
            dlogits = dlogits.div_(temperature_K[chunk, None]).to(hidden_KD.dtype)
            _add_gradients(totals, dlogits, hidden_KD[chunk], weight_VD, chunk)
        typed = (
            total if total is None else total.to(tensor.dtype)
            for total, tensor in zip(totals, wanted, strict=True)
        )
        return (*typed, None, None)


def _logits(inputs: Any, chunk: slice) -> Tensor:
    hidden_KD, weight_VD, bias_V, _, temperature_K = inputs
    logits: Tensor = linear(hidden_KD[chunk], weight_VD, bias_V)
    return logits.float().div_(temperature_K[chunk, None])


def _dlogits(
    logprobs_KV: Tensor,
    targets_K1: Tensor,
    by_logprob_K1: Tensor | None,
    by_entropy_K1: Tensor | None,
    entropy_K1: Tensor,
) -> Tensor:
    """Differentiate by the scaled logits.

    That is 1[target] - p for a log-probability, and -p (log p + H) for an entropy H.
    """
    if by_entropy_K1 is None:
        assert by_logprob_K1 is not None, "nothing was differentiated"
        dlogits = logprobs_KV.exp_().mul_(-by_logprob_K1)
        return dlogits.scatter_add_(1, targets_K1, by_logprob_K1)
    probabilities = logprobs_KV.exp()
    dlogits = logprobs_KV.add_(entropy_K1).mul_(-by_entropy_K1)
    if by_logprob_K1 is None:
        return dlogits.mul_(probabilities)
    dlogits.sub_(by_logprob_K1).mul_(probabilities)
    return dlogits.scatter_add_(1, targets_K1, by_logprob_K1)


def _add_gradients(
    totals: list[Tensor | None], dlogits: Tensor, hidden: Tensor, weight: Tensor, chunk: slice
) -> None:
    dhidden_KD, dweight_VD, dbias_V = totals
    if dhidden_KD is not None:
        dhidden_KD[chunk] = (dlogits @ weight).float()
    if dweight_VD is not None and dlogits.dtype == torch.float32:
        dweight_VD.addmm_(dlogits.T, hidden)
    elif dweight_VD is not None:
        dweight_VD += dlogits.T @ hidden
    if dbias_V is not None:
        dbias_V += dlogits.sum(0)
