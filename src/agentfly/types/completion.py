"""Input and output of an engine: sampling parameters, requests and completions."""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from enum import StrEnum

from agentfly.errors import ConfigError
from agentfly.types.seed import Seed


class FinishReason(StrEnum):
    """Reason why an engine stopped sampling."""

    STOP = "stop"
    """The model sampled an end token; that token is the completion's last."""
    STOP_STRING = "stop_string"
    """The text contains a stop string; the ids stay exactly as sampled."""
    LENGTH = "length"
    """The limit on new tokens was reached in the middle of the turn."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SamplingParams:
    """Parameters of sampling one completion."""

    temperature: float = 1.0
    """0 is greedy."""
    top_p: float = 1.0
    top_k: int = 0
    """0 means all tokens."""
    min_p: float = 0.0
    max_tokens: int = 512
    stop: tuple[str, ...] = ()
    stop_token_ids: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        _require(self.temperature >= 0, "temperature", self.temperature, "at least 0")
        _require(0 < self.top_p <= 1, "top_p", self.top_p, "in (0, 1]")
        _require(self.top_k >= 0, "top_k", self.top_k, "at least 0 (0 means all tokens)")
        _require(0 <= self.min_p <= 1, "min_p", self.min_p, "in [0, 1]")
        _require(self.max_tokens >= 1, "max_tokens", self.max_tokens, "at least 1")
        # A plain string would be taken for a sequence of one-letter stop strings.
        strings: object = self.stop
        whole = not isinstance(strings, str) and all(self.stop)
        _require(whole, "stop", self.stop, "a tuple of non-empty strings")


def _require(holds: bool, name: str, got: object, expected: str) -> None:  # noqa: FBT001
    if not holds:
        raise ConfigError(f"{name} must be {expected}, got {got!r}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """Identity, seed and priority of a request for a completion."""

    chain_id: str
    """Requests of one chain go to the replica that holds its cache."""
    group_id: str
    """Chains of one group share a prompt."""
    turn: int
    seed: Seed
    """Seed of this turn; the token at position i draws from `seed.child(i)`."""
    priority: int = 0
    """Lower values are served first."""
    on_started: Callable[[], None] | None = field(default=None, compare=False, repr=False)
    """Called once, in the event loop's thread, when the engine starts to work on the request, if
    the engine has `reports_start = True`; the wait until then is not charged to the chain."""


VersionRuns = tuple[tuple[int, int], ...]
"""Weights versions by run length: ((3, 20), (4, 7)) is 20 tokens under 3, then 7 under 4."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Completion:
    """Tokens of one generation, exactly as sampled.

    >>> c = Completion(token_ids=(5, 9), logprobs=(-0.1, -2.0), versions=((0, 2),),
    ...                finish_reason=FinishReason.LENGTH)
    >>> list(c.version_of_each())
    [0, 0]
    """

    token_ids: tuple[int, ...]
    logprobs: tuple[float, ...]
    """Under the temperature-scaled, untruncated distribution that sampled each token."""
    versions: VersionRuns
    finish_reason: FinishReason

    def __post_init__(self) -> None:
        if len(self.token_ids) != len(self.logprobs):
            raise ValueError(
                f"every sampled token needs a logprob: got {len(self.token_ids)} tokens "
                f"and {len(self.logprobs)} logprobs"
            )
        if not all(map(math.isfinite, self.logprobs)):
            raise ValueError("the logprob of a sampled token must be finite")
        covered = 0
        for _, count in self.versions:
            if count < 1:
                raise ValueError(f"a run of versions needs at least one token: got {self.versions}")
            covered += count
        if covered != len(self.token_ids):
            raise ValueError(
                f"every sampled token needs a weights version: got {len(self.token_ids)} tokens "
                f"and versions for {covered}"
            )

    def followed_by(self, more: "Completion") -> "Completion":
        """Return this completion and its continuation as one."""
        return Completion(
            token_ids=self.token_ids + more.token_ids,
            logprobs=self.logprobs + more.logprobs,
            versions=self.versions + more.versions,
            finish_reason=more.finish_reason,
        )

    def version_of_each(self) -> Iterator[int]:
        """Yield the weights version of each token."""
        for version, count in self.versions:
            for _ in range(count):
                yield version
