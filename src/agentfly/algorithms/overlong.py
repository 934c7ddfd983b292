"""A soft punishment for chains that come near the length limit (DAPO, arXiv:2503.14476)."""

from dataclasses import dataclass

from torch import Tensor

from agentfly.config import Settings


@dataclass(frozen=True, slots=True, kw_only=True)
class Overlong:
    """Where the punishment begins and where it is full."""

    __pydantic_config__ = Settings.model_config

    max_tokens: int
    """Sampled tokens of a chain at which the punishment is full."""
    soft_tokens: int
    """Over how many tokens before that it grows from 0."""
    penalty: float = 1.0
    """What a chain of full length loses."""

    def __post_init__(self) -> None:
        if not 0 < self.soft_tokens <= self.max_tokens:
            raise ValueError(
                "soft_tokens must be above 0 and at most max_tokens: "
                f"got {self.soft_tokens} of {self.max_tokens}"
            )


def overlong_penalty(lengths_C: Tensor, overlong: Overlong) -> Tensor:
    """Return what each chain loses of its reward, by its number of sampled tokens.

    >>> import torch
    >>> overlong = Overlong(max_tokens=100, soft_tokens=20)
    >>> overlong_penalty(torch.tensor([50, 80, 90, 100, 300]), overlong)
    tensor([0.0000, 0.0000, 0.5000, 1.0000, 1.0000])
    """
    free = overlong.max_tokens - overlong.soft_tokens
    return ((lengths_C - free) / overlong.soft_tokens).clamp(0, 1) * overlong.penalty
