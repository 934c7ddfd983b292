"""From logits to tokens: one draw for each row, independent of the others.

Randomness is counter-based. The token at position i of a turn draws one number from
`request.seed.child(i)` and takes the token at that quantile of its distribution, so that it depends
on nothing but its own seed, position and logits.

Letters of the shapes: N rows, V tokens of the vocabulary, K candidates of a truncated row.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.functional import pad

from agentfly.types import SamplingParams

CANDIDATES = 1024
"""A truncated distribution nearly always fits into so many tokens; if not, all are sorted."""

TINIEST = torch.finfo(torch.float32).tiny

BLOCK = 256
"""Tokens that are summed at once on the way to a quantile."""


@dataclass(frozen=True, slots=True)
class Draw:
    """Parameters and random number for sampling one row."""

    params: SamplingParams
    uniform: float
    """In [0, 1)."""


@dataclass(frozen=True, slots=True)
class Sampled:
    """A token, and its log-probability under the untruncated distribution."""

    token_id: int
    logprob: float


def sample(logits_NV: Tensor, draws: Sequence[Draw]) -> list[Sampled]:
    """Sample one token for each row.

    Log-probabilities are those of the temperature-scaled, untruncated distribution; of temperature
    1 where the row is greedy.
    """
    wide_NV = logits_NV.float()
    # The maximum goes first: divided by a tiny temperature it would overflow.
    scaled_NV = wide_NV - wide_NV.amax(-1, keepdim=True)
    scaled_NV /= _column(logits_NV, [_temperature(draw) for draw in draws])
    weights_NV = scaled_NV.exp()
    log_total_N = weights_NV.sum(-1).double().log()
    ids_N = _choose(scaled_NV, weights_NV, draws)
    chosen_N = scaled_NV.gather(-1, ids_N[:, None]).squeeze(-1)
    logprobs_N = chosen_N.double() - log_total_N
    pairs = zip(ids_N.tolist(), logprobs_N.tolist(), strict=True)
    return [Sampled(token_id, logprob) for token_id, logprob in pairs]


def _temperature(draw: Draw) -> float:
    # What float32 can't tell from 0 would make 0/0 of the maximum.
    return max(draw.params.temperature, TINIEST) if draw.params.temperature else 1.0


def _choose(scaled_NV: Tensor, weights_NV: Tensor, draws: Sequence[Draw]) -> Tensor:
    greedy = [draw.params.temperature == 0 for draw in draws]
    if all(greedy):
        return scaled_NV.argmax(-1)
    truncated = [i for i, draw in enumerate(draws) if not greedy[i] and _truncates(draw.params)]
    if truncated:
        rows = [draws[i].params for i in truncated]
        weights_NV[truncated] = truncate(weights_NV[truncated], rows)
    ids_N = _at_quantile(weights_NV, [draw.uniform for draw in draws])
    if any(greedy):
        ids_N = torch.where(ids_N.new_tensor(greedy, dtype=torch.bool), scaled_NV.argmax(-1), ids_N)
    return ids_N


def _at_quantile(weights_NV: Tensor, uniforms: Sequence[float]) -> Tensor:
    """Return the first token at which the cumulated weight exceeds a share of the total.

    In two strides, first to the block and then within it: summing is faster than cumulating.
    """
    blocks_NBW = pad(weights_NV, (0, -weights_NV.shape[-1] % BLOCK)).unflatten(-1, (-1, BLOCK))
    cumulated_NB = _cumulated(blocks_NBW.sum(-1).double())
    total_N1 = cumulated_NB[:, -1:]
    share_N1 = total_N1 * total_N1.new_tensor(uniforms)[:, None]
    block_N1 = _first_above(cumulated_NB, share_N1)
    before_N1 = pad(cumulated_NB, (1, 0)).gather(-1, block_N1)
    block_NW = blocks_NBW.take_along_dim(block_N1[..., None], dim=1).squeeze(1)
    within_N1 = _first_above(_cumulated(block_NW.double()), share_N1 - before_N1)
    # Weights that aren't numbers lead nowhere; the log-probability will tell.
    return (block_N1 * BLOCK + within_N1).squeeze(-1).clamp_max(weights_NV.shape[-1] - 1)


def _cumulated(values: Tensor) -> Tensor:
    """Cumulate along the last axis, in an order that is the same each time where that is asked for.

    CUDA adds in no fixed order, and refuses to when torch is to be deterministic.
    """
    if values.is_cuda and torch.are_deterministic_algorithms_enabled():
        return values.cpu().cumsum(-1).to(values.device)
    return values.cumsum(-1)


def _first_above(cumulated: Tensor, share_N1: Tensor) -> Tensor:
    # Rounding must not carry a share to the total, which nothing exceeds.
    total_N1 = cumulated[:, -1:]
    below_N1 = torch.nextafter(total_N1, torch.zeros_like(total_N1))
    found_N1 = torch.searchsorted(cumulated, share_N1.minimum(below_N1), right=True)
    return found_N1.clamp_max(cumulated.shape[-1] - 1)


def _truncates(params: SamplingParams) -> bool:
    return params.top_p < 1 or params.top_k > 0 or params.min_p > 0


def truncate(weights_NV: Tensor, params: Sequence[SamplingParams]) -> Tensor:
    """Set to 0 all weights but those that top_k, then top_p, then min_p let through.

    Each row is truncated as it would be alone; of equal weights, those of lower ids go first.
    """
    size = weights_NV.shape[-1]
    left_NV, settled_N = _truncate_within(weights_NV, params, min(CANDIDATES, size))
    if size > CANDIDATES:
        rest = (~settled_N).nonzero().flatten().tolist()
        if rest:
            left_NV[rest], _ = _truncate_within(weights_NV[rest], [params[i] for i in rest], size)
    return left_NV


def _truncate_within(
    weights_NV: Tensor, params: Sequence[SamplingParams], width: int
) -> tuple[Tensor, Tensor]:
    """Truncate to at most `width` candidates; also say for which rows these were enough."""
    sorted_NK, ids_NK = _largest(weights_NV, width)
    kept_NK, settled_N = _kept(sorted_NK, weights_NV.sum(-1, keepdim=True), params)
    left_NV = torch.zeros_like(weights_NV).scatter_(-1, ids_NK, sorted_NK * kept_NK)
    return left_NV, settled_N


def _largest(weights_NV: Tensor, width: int) -> tuple[Tensor, Tensor]:
    """Return the largest weights and their ids; of equal ones the lower id first."""
    if width == weights_NV.shape[-1]:
        sorted_NV, ids_NV = weights_NV.sort(descending=True, stable=True)
        return sorted_NV, ids_NV
    # topk orders equals as it likes; a stable sort leaves them in the order of their ids.
    ids_NK = weights_NV.topk(width, sorted=False).indices.sort().values
    sorted_NK, order_NK = weights_NV.gather(-1, ids_NK).sort(descending=True, stable=True)
    return sorted_NK, ids_NK.gather(-1, order_NK)


def _kept(
    sorted_NK: Tensor, total_N1: Tensor, params: Sequence[SamplingParams]
) -> tuple[Tensor, Tensor]:
    """Return which candidates stay, and of which rows that is known from these candidates alone."""
    width = sorted_NK.shape[-1]
    top_k_N1 = _column(sorted_NK, [p.top_k or torch.inf for p in params])
    ranked_NK = torch.arange(width, device=sorted_NK.device) < top_k_N1
    below_N1 = sorted_NK[:, :1] * _column(sorted_NK, [p.min_p for p in params])
    cumulated_NK = _cumulated(sorted_NK * ranked_NK)
    before_NK = cumulated_NK - sorted_NK
    # With a top_k within the candidates, top_p is a share of what that leaves.
    mass_N1 = cumulated_NK[:, -1:].where(top_k_N1 <= width, total_N1)
    nucleus_N1 = mass_N1 * _column(sorted_NK, [p.top_p for p in params])
    whole_N1 = _column(sorted_NK, [float(p.top_p == 1) for p in params]).bool()
    kept_NK = ranked_NK & (whole_N1 | (before_NK < nucleus_N1)) & (sorted_NK >= below_N1)
    # A top_k beyond the candidates leaves a mass that only a full sort can give.
    known_N1 = (top_k_N1 <= width) | top_k_N1.isinf() | whole_N1
    # Those equal to the last candidate may have equals beyond it, with lower ids.
    last_NK = (sorted_NK == sorted_NK[:, -1:]) & (sorted_NK > 0)
    return kept_NK, known_N1.squeeze(-1) & ~(kept_NK & last_NK).any(-1)


def _column(like: Tensor, values: Sequence[float]) -> Tensor:
    return torch.tensor(values, dtype=torch.float32, device=like.device)[:, None]
