"""Protocol of learners, which may be one process or many, and the weights that they publish."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from agentfly.types.trajectory import Group, Turn


@dataclass(frozen=True, slots=True)
class SharedTensors:
    """Tensors of the module that an engine was made from, changed in place."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NamedTensors:
    """Stream of all tensors of a model, each with its name in the state dict."""

    stream: Callable[[], Iterable[tuple[str, Any]]]
    """Restarts the stream at each call, once for every engine that reads it."""
    in_place: bool = False
    """Whether an engine writes each tensor as it comes, without a second copy of them all. If the
    stream breaks, its weights are of no version: it must be given up."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WeightsFolder:
    """Hugging Face folder, as `save_pretrained` writes it, that the engine can read."""

    path: Path


@dataclass(frozen=True, slots=True, kw_only=True)
class AdapterFolder:
    """LoRA adapter, as peft's `save_pretrained` writes it, that the engine can read."""

    path: Path
    """A new folder for each version: vLLM distinguishes the cached keys of two adapters by it."""
    name: str = "policy"
    """Name that requests use; publishing under the same name replaces the adapter."""


Weights = SharedTensors | NamedTensors | WeightsFolder | AdapterFolder
"""One version of the weights, in one of the forms that engines take."""


Keep = bool | Sequence[bool]
"""All, none, or one bool for each token of a turn's completion."""

MaskPolicy = Callable[[Sequence[Turn]], Sequence[Keep]]
"""Returns which tokens to keep of each of a chain's turns."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamCredit:
    """Mask of a token stream as it was trained, and the numbers of its trained tokens.

    >>> StreamCredit(mask=(False, True, True), advantages=(0.5, 0.5)).entropies is None
    True
    """

    mask: tuple[bool, ...]
    """True on the tokens that carried loss; one for each token of the stream."""
    advantages: tuple[float, ...]
    """One for each trained token; 0 where the chain had no credit."""
    entropies: tuple[float, ...] | None = None
    """Entropy of the distribution before each trained token, in nats; None if not computed."""

    def __post_init__(self) -> None:
        trained = sum(self.mask)
        lengths = {len(self.advantages), trained if self.entropies is None else len(self.entropies)}
        if lengths != {trained}:
            raise ValueError(
                f"every trained token has an advantage: got {trained} tokens and {lengths}"
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class ChainCredit:
    """Numbers with which one chain was trained."""

    chain_id: str
    streams: tuple[StreamCredit, ...]
    """As many as the trajectory has, in the same order."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StepMetrics:
    """Metrics and timing of one learning step."""

    metrics: Mapping[str, float]
    seconds: Mapping[str, float]
    """By phase, such as `pack`, `advantage` and `update`."""
    updates: int
    """Number of optimizer steps that changed the weights."""
    credit: Sequence[ChainCredit] = ()
    """Advantages token by token, for people who look at chains; empty if not recorded."""


class Learner(Protocol):
    """Trains the weights that engines sample from."""

    @property
    def gives(self) -> Sequence[type[Weights]]:
        """Forms in which `weights` can give the weights, the cheapest first."""

    def learn(
        self, groups: Sequence[Group], mask: MaskPolicy, *, version: int | None
    ) -> StepMetrics:
        """Learn from one step's groups, failures included.

        `version` is the current version of the weights if the sampler's log-probabilities are the
        learner's own, else None.
        """

    def weights(self, form: type[Weights], folder: Path) -> Weights:
        """Return the current weights; forms with files write them to a new `folder`."""

    def save(self, folder: Path) -> None:
        """Write all that `restore` needs: a Hugging Face folder, and files next to it."""

    def restore(self, folder: Path) -> None:
        """Restore the exact state of a learner with the same settings."""

    def export(self, folder: Path) -> None:
        """Write a plain Hugging Face folder, adapters merged, to be used anywhere."""

    def close(self) -> None:
        """Free everything."""
