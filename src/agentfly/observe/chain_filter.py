"""Filters of chains, the same for the terminal and for pages.

wanted = ChainFilter.read(max_reward=0.0, tool="search", stop="turn_limit")
for chain in filter(wanted.matches, run.chains(12)):
...
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from agentfly.errors import ConfigError
from agentfly.observe.summary import failure_cause
from agentfly.runtime.names import look_up, suggestion
from agentfly.types import StopReason, ToolStatus, Trajectory


@dataclass(frozen=True, slots=True, kw_only=True)
class ChainFilter:
    """Conditions that a chain must meet, all of them; without any, every chain does."""

    min_reward: float | None = None
    """Least reward; an unscored chain has none and does not match."""
    max_reward: float | None = None
    stop: StopReason | None = None
    tool: str | None = None
    """Name of a tool that the chain called, whether it exists or not."""
    text: str | None = None
    """Text anywhere in the prompt, the answers, the calls or their results, in any case."""
    task: str | None = None
    """Part of the task's id or of its question, in any case."""
    group: str | None = None
    """Id of a group."""
    cause: str | None = None
    """Cause of a failure, such as EnvError."""
    unscored: bool = False
    """Only chains without a reward."""
    failing: bool = False
    """Only chains with a call, of the tool if one is named, that did not succeed."""
    weights_version: int | None = None
    """Version of the weights that sampled a chain's first token."""

    @classmethod
    def read(  # noqa: PLR0913 - each is an option of the user
        cls,
        *,
        min_reward: float | None = None,
        max_reward: float | None = None,
        stop: str | None = None,
        tool: str | None = None,
        text: str | None = None,
        task: str | None = None,
        group: str | None = None,
        cause: str | None = None,
        unscored: bool = False,
        failing: bool = False,
        weights_version: int | None = None,
    ) -> "ChainFilter":
        """Make a filter from options as users give them; ConfigError for an unknown stop reason."""
        reasons = [str(reason) for reason in StopReason]
        if stop is not None and stop not in reasons:
            raise ConfigError(f"unknown stop reason {stop!r}. {suggestion(stop, reasons)}")
        return cls(
            min_reward=min_reward,
            max_reward=max_reward,
            stop=StopReason(stop) if stop else None,
            tool=tool or None,
            text=text or None,
            task=task or None,
            group=group or None,
            cause=cause or None,
            unscored=unscored,
            failing=failing,
            weights_version=weights_version,
        )

    def matches(self, chain: Trajectory) -> bool:
        """Return whether a chain meets all conditions."""
        return (
            self._has_reward(chain)
            and self.stop in (None, chain.stop)
            and self.group in (None, chain.group_id)
            and self.cause in (None, failure_cause(chain))
            and self.weights_version in (None, first_version(chain))
            and (not self.unscored or chain.reward is None)
            and (self.task is None or _is_of_task(chain, self.task.casefold()))
            and (self.tool is None or self.tool in _called(chain))
            and (not self.failing or _has_failed_call(chain, self.tool))
            and (self.text is None or _holds(chain, self.text.casefold()))
        )

    def _has_reward(self, chain: Trajectory) -> bool:
        if self.min_reward is None and self.max_reward is None:
            return True
        if chain.reward is None:
            return False
        above = self.min_reward is None or chain.reward >= self.min_reward
        return above and (self.max_reward is None or chain.reward <= self.max_reward)


def first_version(chain: Trajectory) -> int | None:
    """Return the version of the weights that sampled a chain's first token, if any did."""
    completions = (turn.completion for turn in chain.turns)
    return next((each.versions[0][0] for each in completions if each and each.versions), None)


SORTED: Mapping[str, Callable[["ChainRow"], Any]] = {
    "number": lambda row: row.number,
    "reward": lambda row: row.reward,
    "turns": lambda row: row.turns,
    "calls": lambda row: row.calls,
    "tokens": lambda row: row.tokens,
    "stop": lambda row: str(row.stop),
    "task": lambda row: row.chain_id,
}
"""Orders of a table by name."""


def sort_rows(rows: Iterable["ChainRow"], by: str) -> list["ChainRow"]:
    """Return rows in an order by name, `-reward` the highest first; unscored ones come last."""
    key = look_up(by.removeprefix("-"), SORTED, "order of chains")
    found = list(rows)
    known = [row for row in found if key(row) is not None]
    known.sort(key=key, reverse=by.startswith("-"))
    return known + [row for row in found if key(row) is None]


@dataclass(frozen=True, slots=True, kw_only=True)
class ChainRow:
    """A chain as one row of a table; small, where the chain itself may have many tokens."""

    number: int
    """Place of the chain in its file, from 1."""
    chain_id: str
    reward: float | None
    turns: int
    calls: int
    tokens: int
    """Sampled tokens."""
    stop: StopReason
    question: str

    @classmethod
    def of(cls, number: int, chain: Trajectory, *, question: str) -> "ChainRow":
        """Make the row of a chain."""
        turns = chain.turns
        return cls(
            number=number,
            chain_id=chain.chain_id,
            reward=chain.reward,
            turns=len(turns),
            calls=sum(len(turn.results) for turn in turns),
            tokens=sum(len(turn.completion.token_ids) for turn in turns if turn.completion),
            stop=chain.stop,
            question=question,
        )


def _called(chain: Trajectory) -> set[str]:
    return {call.name for turn in chain.turns for call in turn.message.tool_calls}


def _has_failed_call(chain: Trajectory, tool: str | None) -> bool:
    return any(
        result.status is not ToolStatus.OK and tool in (None, call.name)
        for turn in chain.turns
        for call, result in turn.call_results
    )


def _is_of_task(chain: Trajectory, part: str) -> bool:
    asked = (message.content for message in chain.task.messages)
    return any(part in text.casefold() for text in (chain.task.id, *asked))


def _holds(chain: Trajectory, text: str) -> bool:
    return any(text in part.casefold() for part in _texts(chain))


def _texts(chain: Trajectory) -> Iterator[str]:
    yield chain.task.id
    yield chain.error or ""
    for message in chain.conversation:
        yield message.content
        yield message.reasoning or ""
        for call in message.tool_calls:
            yield call.name
            yield call.arguments
    for turn in chain.turns:
        for result in turn.results:
            yield result.observation
