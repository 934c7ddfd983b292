"""A chain token by token: what was context, what the model sampled, and what of it carries loss."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum

from agentfly.types import Trajectory, Turn

Decode = Callable[[Sequence[int]], str]
"""From token ids to text, special tokens included."""
Mask = Callable[[Sequence[Turn]], Sequence[Sequence[bool]]]
"""From a chain's turns to one bool for each sampled token of each turn."""


class TokenKind(StrEnum):
    """Part of a token in training."""

    CONTEXT = "context"
    """From the template, a message or a tool: never trained."""
    TRAINED = "trained"
    """Sampled, and carries loss."""
    MASKED = "masked"
    """Sampled, and switched off by the mask policy."""
    SAMPLED = "sampled"
    """Sampled; the mask policy was not run, so whether it carries loss is not known."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenView:
    """One token."""

    id: int
    text: str
    kind: TokenKind
    logprob: float | None = None
    """Log-probability under the sampler; None for context."""
    version: int | None = None
    """Version of the weights that sampled it; None for context."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnTokens:
    """The tokens of one turn: what was added to the prompt, and what the model sampled."""

    turn: Turn
    context: tuple[TokenView, ...]
    sampled: tuple[TokenView, ...]


def token_view(chain: Trajectory, decode: Decode, mask: Mask | None) -> Iterator[TurnTokens]:
    """Yield the tokens of each turn, in the order of the turns.

    Args:
        chain: The chain.
        decode: From token ids to text.
        mask: The run's mask policy; None where it is not to be run.
    """
    turns = chain.turns
    kept_of_each = mask(turns) if mask else [None] * len(turns)
    for turn, kept in zip(turns, kept_of_each, strict=True):
        context = (
            TokenView(id=token, text=decode([token]), kind=TokenKind.CONTEXT)
            for token in turn.context_ids
        )
        yield TurnTokens(turn=turn, context=tuple(context), sampled=_sampled(turn, kept, decode))


def _sampled(turn: Turn, kept: Sequence[bool] | None, decode: Decode) -> tuple[TokenView, ...]:
    if turn.completion is None:
        return ()
    completion = turn.completion
    kinds = (
        [TokenKind.SAMPLED] * len(completion.token_ids)
        if kept is None
        else [TokenKind.TRAINED if on else TokenKind.MASKED for on in kept]
    )
    columns = (completion.token_ids, completion.logprobs, completion.version_of_each(), kinds)
    return tuple(
        TokenView(
            id=token,
            text=decode([token]),
            kind=kind,
            logprob=logprob,
            version=version,
        )
        for token, logprob, version, kind in zip(*columns, strict=True)
    )
