"""Log-probabilities in chunks are those of the whole, with bounded memory."""

from typing import Any

import pytest
import torch
from torch import Tensor

from agentfly.training.learner import logprob
from agentfly.training.learner.logprob import token_logprobs

TOKENS, WIDTH, VOCABULARY = 23, 4, 50


@pytest.fixture(autouse=True)
def small_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(logprob, "CHUNK_BYTES", 4 * VOCABULARY * 5)


def inputs(*, bias: bool = True) -> list[Any]:
    torch.manual_seed(0)
    hidden = torch.randn(TOKENS, WIDTH, requires_grad=True)
    weight = torch.randn(VOCABULARY, WIDTH, requires_grad=True)
    offsets = torch.randn(VOCABULARY, requires_grad=True) if bias else None
    targets = torch.randint(VOCABULARY, (TOKENS,))
    return [hidden, weight, offsets, targets, torch.rand(TOKENS) + 0.5]


def plain(hidden: Tensor, weight: Tensor, bias: Tensor, targets: Tensor, t: Tensor) -> Any:
    table = (torch.nn.functional.linear(hidden, weight, bias) / t[:, None]).log_softmax(-1)
    return table.gather(1, targets[:, None])[:, 0], -(table.exp() * table).sum(-1)


@pytest.mark.parametrize("bias", [True, False])
def test_values_are_those_of_a_whole_softmax(bias: bool) -> None:
    x = inputs(bias=bias)
    for ours, theirs in zip(token_logprobs(*x), plain(*x), strict=True):
        torch.testing.assert_close(ours, theirs)


@pytest.mark.parametrize("by", [(1, 0), (0, 1), (1, 1)])
@pytest.mark.parametrize("bias", [True, False])
def test_gradients_are_those_of_a_whole_softmax(by: tuple[int, int], bias: bool) -> None:
    x = inputs(bias=bias)
    upstream = torch.randn(2, TOKENS)
    wanted = [tensor for tensor in x[:3] if tensor is not None]

    def gradients(compute: Any) -> Any:
        pairs = zip(compute(*x), upstream, by, strict=True)
        return torch.autograd.grad(sum((o * g).sum() for o, g, on in pairs if on), wanted)

    for ours, theirs in zip(gradients(token_logprobs), gradients(plain), strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-4)


def test_a_frozen_head_gets_no_gradient() -> None:
    x = inputs()
    x[1].requires_grad_(False)
    token_logprobs(*x)[0].sum().backward()
    assert x[0].grad is not None
    assert x[1].grad is None


def test_no_logits_are_kept_for_the_backward_pass() -> None:
    kept: list[int] = []

    def pack(tensor: Tensor) -> Tensor:
        kept.append(tensor.numel())
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        token_logprobs(*inputs())
    assert kept
    assert max(kept) <= VOCABULARY * WIDTH < TOKENS * VOCABULARY


def test_no_logits_of_all_tokens_exist_at_once() -> None:
    """Neither pass ever makes a tensor of more than a chunk of logits."""

    class Largest(torch.utils._python_dispatch.TorchDispatchMode):
        numbers = 0

        def __torch_dispatch__(
            self, function: Any, types: Any, args: Any = (), kwargs: Any = None
        ) -> Any:
            result = function(*args, **(kwargs or {}))
            if isinstance(result, Tensor) and result.shape[-1:] == (VOCABULARY,):
                self.numbers = max(self.numbers, result.numel())
            return result

    largest = Largest()  # type: ignore[no-untyped-call]
    with largest:
        token_logprobs(*inputs())[0].sum().backward()
    assert 0 < largest.numbers <= 5 * VOCABULARY
