"""What a trajectory becomes for training."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """One token stream, flat. A chain cut into several streams gives several samples of one chain.

    >>> Sample(token_ids=(9, 4, 2), mask=(False, True, True), logprobs=(0.0, -0.5, -0.1),
    ...        versions=(-1, 0, 0), turn_index=(0, 0, 0), temperature=1.0, chain_id="t/0/1",
    ...        group_id="t/0").num_trained
    2
    """

    token_ids: tuple[int, ...]
    mask: tuple[bool, ...]
    """True on the tokens that carry loss: sampled ones that the mask policy left on."""
    logprobs: tuple[float, ...]
    """The sampler's own; 0 where masked."""
    versions: tuple[int, ...]
    """Weights version of each sampled token; -1 on all others."""
    turn_index: tuple[int, ...]
    """The turn that each token belongs to, its context included."""
    temperature: float
    chain_id: str
    group_id: str

    def __post_init__(self) -> None:
        lengths = {
            "mask": len(self.mask),
            "logprobs": len(self.logprobs),
            "versions": len(self.versions),
            "turn_index": len(self.turn_index),
        }
        wrong = {name: n for name, n in lengths.items() if n != len(self.token_ids)}
        if wrong:
            raise ValueError(f"a sample has one length: {len(self.token_ids)} tokens but {wrong}")
        if any(logprob for on, logprob in zip(self.mask, self.logprobs, strict=True) if not on):
            raise ValueError("logprobs must be 0 where the mask is off")

    @property
    def num_trained(self) -> int:
        """How many tokens carry loss."""
        return sum(self.mask)
