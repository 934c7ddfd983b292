"""A summary of a set of chains, on one screen."""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TypeVar

from agentfly.types import SpanKind, StopReason, ToolStatus, Trajectory, Turn
from agentfly.types.short_text import count, shorten

K = TypeVar("K")

SOLVED = 1.0
"""Minimum reward of a solved chain."""
MAX_ERROR = 200
"""Maximum characters of the error that the table shows."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Summary:
    """Counts over chains. A share or mean of nothing is None, not 0."""

    chains: int
    scored: int
    mean_reward: float | None
    """Mean over the scored chains only: a failed chain is not a chain with reward 0."""
    solved_share: float | None
    """Scored chains with a reward of at least 1, over all scored chains."""
    stops: Mapping[StopReason, int]
    """Number of chains by stop reason, the most frequent first."""
    failures: Mapping[str, int]
    """Failed chains by cause, for example {"EnvError": 3}, the most frequent first."""
    first_error: str | None
    """Message of the first failed chain, for example "EnvError: stepping Shop in turn 2 ..."."""
    turns: int
    sampled_tokens: int
    tool_calls: int
    invalid_share: float | None
    """Share of calls that were wrong: unreadable, of no tool, or with impossible arguments."""
    unknown_share: float | None
    """Share of calls of a tool that does not exist."""
    text_actions: int
    """Messages that an environment answered; those with calls are not among them."""
    invalid_actions_share: float | None
    """Share of text actions that the environment says were impossible."""
    repaired: int
    """Number of calls whose JSON was repaired."""
    seconds: Mapping[SpanKind, float]
    """Waiting time by kind, summed over concurrent chains."""

    @property
    def unscored_share(self) -> float | None:
        """Share of chains that mean and solved share leave out."""
        return ratio(self.chains - self.scored, self.chains)

    def lines(self) -> list[str]:
        """Return a small table, one line per entry."""
        rows = [
            ("chains", f"{self.chains} ({self.scored} scored)"),
            ("reward", self._reward()),
            ("stops", _counts(self.stops)),
            ("failures", _counts(self.failures)),
            *([("such as", shorten(self.first_error, MAX_ERROR))] if self.first_error else []),
            ("turns", f"{self.turns} ({self.sampled_tokens} sampled tokens)"),
            ("tool calls", self._calls()),
            *([("actions", self._actions())] if self.text_actions else []),
            ("seconds", self._waits()),
        ]
        return [f"{name:<11}{text or '-'}" for name, text in rows]

    def _reward(self) -> str:
        if not self.scored:
            return "no chain has a score" if self.chains else ""
        known = f"{_number(self.mean_reward)} mean, {_share(self.solved_share)} solved"
        unscored = self.chains - self.scored
        left_out = f" (without {count(unscored, 'chain')} that {_have(unscored)} no score)"
        return known + (left_out if unscored else "")

    def _waits(self) -> str:
        """Return a chain's mean wait by kind: a sum over concurrent chains is no duration."""
        waits = ", ".join(f"{kind} {time / self.chains:.1f}" for kind, time in self.seconds.items())
        return waits and f"{waits} (mean of a chain; chains run side by side)"

    def _calls(self) -> str:
        invalid, unknown = _share(self.invalid_share), _share(self.unknown_share)
        return f"{self.tool_calls} ({invalid} invalid, {unknown} unknown, {self.repaired} repaired)"

    def _actions(self) -> str:
        return f"{self.text_actions} in text ({_share(self.invalid_actions_share)} invalid)"

    def __str__(self) -> str:
        return "\n".join(self.lines())


def summarize(trajectories: Iterable[Trajectory]) -> Summary:
    """Return the counts of some chains.

    >>> print(summarize([]))
    chains     0 (0 scored)
    reward     -
    stops      -
    failures   -
    turns      0 (0 sampled tokens)
    tool calls 0 (- invalid, - unknown, 0 repaired)
    seconds    -
    """
    chains = list(trajectories)
    turns = [turn for chain in chains for turn in chain.turns]
    rewards = [chain.reward for chain in chains if chain.reward is not None]
    calls = [result for turn in turns for result in turn.results]
    # An environment replies to text; replies to calls have results beside them.
    actions = [turn for turn in turns if turn.replies and not turn.results]
    return Summary(
        chains=len(chains),
        scored=len(rewards),
        mean_reward=ratio(sum(rewards), len(rewards)),
        solved_share=ratio(sum(map(is_solved, chains)), len(rewards)),
        stops=_most_frequent_first(chain.stop for chain in chains),
        failures=_most_frequent_first(cause for chain in chains if (cause := failure_cause(chain))),
        first_error=next((chain.error for chain in chains if chain.error), None),
        turns=len(turns),
        sampled_tokens=sum(len(turn.completion.token_ids) for turn in turns if turn.completion),
        tool_calls=len(calls),
        invalid_share=ratio(sum(call.status.invalid for call in calls), len(calls)),
        unknown_share=ratio(
            sum(call.status is ToolStatus.UNKNOWN_TOOL for call in calls), len(calls)
        ),
        text_actions=len(actions),
        invalid_actions_share=ratio(sum(turn.invalid for turn in actions), len(actions)),
        repaired=sum(map(_repaired, turns)),
        seconds=_seconds(chains),
    )


def is_solved(chain: Trajectory) -> bool:
    """Return whether a chain got full marks; one that ran out of time never does."""
    full = chain.reward is not None and chain.reward >= SOLVED
    return full and chain.stop is not StopReason.TIME_LIMIT


def ended_unscored(chain: Trajectory) -> bool:
    """Return whether a chain ended well, with turns, and neither a step nor a reward scored it."""
    return chain.stop.verdict.scored and chain.reward is None and bool(chain.turns)


def _repaired(turn: Turn) -> int:
    """Count the calls that were repaired during parsing, or right before they ran."""
    return sum(call.repaired or result.repaired for call, result in turn.call_results)


def failure_cause(chain: Trajectory) -> str | None:
    """Return the error's type, or the stop reason where the error doesn't begin with one."""
    if chain.error is None:
        return None
    kind, colon, _ = chain.error.partition(":")
    return kind if colon and kind.isidentifier() else str(chain.stop)


def _seconds(chains: list[Trajectory]) -> dict[SpanKind, float]:
    seconds: dict[SpanKind, float] = {}
    for chain in chains:
        for span in chain.spans:
            seconds[span.kind] = seconds.get(span.kind, 0.0) + span.seconds
    return {kind: seconds[kind] for kind in SpanKind if kind in seconds}


def _most_frequent_first(keys: Iterable[K]) -> dict[K, int]:
    return dict(Counter(keys).most_common())


def ratio(part: float, whole: float) -> float | None:
    """Divide; return None, not 0, for a share or mean of nothing."""
    return part / whole if whole else None


def _have(number: int) -> str:
    return "has" if number == 1 else "have"


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.3f}"


def _share(value: float | None) -> str:
    return "-" if value is None else f"{value:.1%}"


def _counts(counts: Mapping[StopReason, int] | Mapping[str, int]) -> str:
    return ", ".join(f"{name} {count}" for name, count in counts.items())
