"""Finished record of a chain. The token streams are the truth; the text is a view of them.

A stream is a run of turns in which each prompt begins with all that came before it:

    turn 0                      turn 1
    context_ids  completion     context_ids              completion
    [1 15 27 3]  [40 41 2]      [13 <tool result> 3]     [55 2]
     0  0  0 0     1  1 1         0      0        0        1 1        ← what may carry loss

A template's or a tool's tokens can only be context, and only sampled tokens can be a completion, so
there is no mask that could be wrong.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from itertools import chain
from typing import Any

from agentfly.types.completion import Completion
from agentfly.types.message import Message, ToolCall
from agentfly.types.score import Score
from agentfly.types.short_text import count, shorten
from agentfly.types.stop_reason import StopReason
from agentfly.types.task import Task, chain_index
from agentfly.types.tool import ToolResult, ToolSpec

MAX_MESSAGES = 12
"""Maximum number of messages in the text of a trajectory."""


class SpanKind(StrEnum):
    """Activity that a chain was waiting for."""

    QUEUE = "queue"
    """Waiting to be admitted, or for an environment to be free."""
    GENERATE = "generate"
    TOOL = "tool"
    ENVIRONMENT = "environment"
    REWARD = "reward"


@dataclass(frozen=True, slots=True, kw_only=True)
class Span:
    """Period of waiting, in seconds since the chain was requested."""

    kind: SpanKind
    name: str
    """For example the tool's name."""
    turn: int | None
    start: float
    end: float

    @property
    def seconds(self) -> float:
        """Duration."""
        return self.end - self.start


@dataclass(frozen=True, slots=True, kw_only=True)
class Turn:
    """One generation, with the results and replies that follow it."""

    index: int
    context_ids: tuple[int, ...]
    """Tokens added since the model's last token: the first prompt, later only the suffix."""
    completion: Completion | None
    """None when a server gave text without token ids; such a turn can't be trained on."""
    message: Message
    """The completion as read; its tool calls match `results` one to one, in order."""
    temperature: float
    results: tuple[ToolResult, ...] = ()
    replies: tuple[Message, ...] = ()
    """Messages that the model is shown next: tool messages, or the environment's answer."""
    reasoning_spans: tuple[tuple[int, int], ...] = ()
    """Half-open ranges of the completion's tokens that are reasoning."""
    reward: float | None = None
    """Reward of this step, from tools and environment."""
    state_key: str | None = None
    """Key of the state in which the turn acted; equal keys mean equal states."""
    info: Mapping[str, Any] = field(default_factory=dict)
    """`Step.info` of the environment's answer, if the action was text; a call's is in `results`."""
    invalid: bool = False
    """`Step.invalid` of that answer."""

    def __post_init__(self) -> None:
        if self.completion is None and self.context_ids:
            raise ValueError("a turn without token ids has no context ids either")

    @property
    def call_results(self) -> tuple[tuple[ToolCall, ToolResult], ...]:
        """Each call with its result; calls that were not run are left out."""
        return tuple(zip(self.message.tool_calls, self.results, strict=False))


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenStream:
    """Turns of which each continues the tokens of the one before."""

    turns: tuple[Turn, ...]

    def __post_init__(self) -> None:
        if not self.turns:
            raise ValueError("a stream has at least one turn")

    @property
    def token_ids(self) -> tuple[int, ...]:
        """All tokens, in order."""
        return tuple(chain.from_iterable(_parts(self.turns)))

    @property
    def sampled(self) -> tuple[bool, ...]:
        """True exactly on the tokens that the model sampled."""
        return tuple(
            flag
            for turn in self.turns
            for flag, ids in ((False, turn.context_ids), (True, _sampled_ids(turn)))
            for _ in ids
        )

    def prompt_ids(self, position: int) -> tuple[int, ...]:
        """Return the whole prompt of the stream's turn at `position`."""
        earlier = chain.from_iterable(_parts(self.turns[:position]))
        return (*earlier, *self.turns[position].context_ids)


def _parts(turns: tuple[Turn, ...]) -> Iterator[tuple[int, ...]]:
    for turn in turns:
        yield turn.context_ids
        yield _sampled_ids(turn)


def _message_lines(message: Message) -> Iterator[str]:
    if message.content or not message.tool_calls:
        yield f"  {message.role}: {shorten(message.content)}"
    for call in message.tool_calls:
        yield f"  call: {shorten(f'{call.name}({call.arguments})')}"


def _reward_text(reward: float | None) -> str:
    return "unscored" if reward is None else f"reward {reward:.2f}"


def _sampled_ids(turn: Turn) -> tuple[int, ...]:
    return turn.completion.token_ids if turn.completion else ()


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Trajectory:
    """One attempt at a task, from the first prompt to its one stop reason."""

    task: Task
    group_id: str
    chain_id: str
    messages: tuple[Message, ...]
    """Opening messages, system prompt included."""
    tools: tuple[ToolSpec, ...] = ()
    streams: tuple[TokenStream, ...] = ()
    """One stream, unless history was rewritten or an agent held several conversations."""
    stop: StopReason
    score: Score | None = None
    error: str | None = None
    """Failure with its type; only where the stop reason is a failure."""
    spans: tuple[Span, ...] = ()
    attempt: int = 0
    """Number of earlier attempts, which failed for reasons of infrastructure."""
    metadata: Mapping[str, Any] = field(default_factory=dict)
    """JSON values that tools and rewards stored in the context's `metadata`."""

    def __post_init__(self) -> None:
        if self.error is not None and not self.stop.verdict.failure:
            raise ValueError(f"a chain that ended with {self.stop!r} carries no error")
        if self.error is None and self.stop.verdict.failure:
            raise ValueError(f"a chain that ended with {self.stop!r} must say what failed")
        if self.score is not None and self.stop is StopReason.REWARD_FAILED:
            raise ValueError("a chain whose reward failed is unscored")
        if self.score is not None:
            self.score.require_turns(sum(len(stream.turns) for stream in self.streams))

    def __repr__(self) -> str:
        """Stay short: `<Trajectory sum/0/1: reward 1.00, 2 turns, 37 tokens, answered>`."""
        turns = self.turns
        sampled = sum(len(_sampled_ids(turn)) for turn in turns)
        parts = (_reward_text(self.reward), count(len(turns), "turn"), count(sampled, "token"))
        return shorten(f"<Trajectory {self.chain_id}: {', '.join(parts)}, {self.stop}>", 200)

    def __str__(self) -> str:
        """Return what was said, message by message, each cut to a line."""
        said = self.conversation
        left_out = len(said) - MAX_MESSAGES
        shown = [*said[:2], *said[-(MAX_MESSAGES - 2) :]] if left_out > 0 else list(said)
        lines = [line for message in shown for line in _message_lines(message)]
        if left_out > 0:
            lines.insert(2, f"  … {count(left_out, 'message')} more")
        failure = [] if self.error is None else [f"  failed: {shorten(self.error)}"]
        return "\n".join([repr(self), *lines, *failure])

    @property
    def turns(self) -> tuple[Turn, ...]:
        """All turns over all streams, in the order in which they were taken."""
        turns = [turn for stream in self.streams for turn in stream.turns]
        return tuple(sorted(turns, key=lambda turn: turn.index))

    @property
    def conversation(self) -> tuple[Message, ...]:
        """The whole conversation as messages."""
        said = ((turn.message, *turn.replies) for turn in self.turns)
        return (*self.messages, *chain.from_iterable(said))

    @property
    def final_response(self) -> str:
        """Final answer: the last message's content, or what a tool that ends chains received."""
        turns = self.turns
        if not turns:
            return ""
        ending = [result.observation for result in turns[-1].results if result.ends_chain]
        return ending[-1] if ending else turns[-1].message.content

    @property
    def reward(self) -> float | None:
        """The score's value; None is unscored, which is not 0."""
        return self.score.value if self.score else None

    @property
    def trainable(self) -> bool:
        """Whether it was scored, ended well and has token ids."""
        turns = self.turns
        return (
            self.stop.verdict.trained
            and self.score is not None
            and bool(turns)
            and all(turn.completion is not None for turn in turns)
        )


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Group:
    """Chains of one visit to one task, which share a baseline."""

    id: str
    task: Task
    members: tuple[Trajectory, ...]

    def __post_init__(self) -> None:
        ids = [member.chain_id for member in self.members]
        if len(set(ids)) != len(ids):
            raise ValueError(f"a group's members must be distinct: got {ids}")
        strangers = [m.chain_id for m in self.members if m.group_id != self.id]
        if strangers:
            raise ValueError(f"chains {strangers} don't belong to group {self.id!r}")

    def __repr__(self) -> str:
        """Stay short: `<Group sum/0: 8 chains, mean reward 0.53, from 0.00 to 1.00>`."""
        rewards = [member.reward for member in self.members if member.reward is not None]
        known = (
            f"mean reward {sum(rewards) / len(rewards):.2f}, from {min(rewards):.2f} "
            f"to {max(rewards):.2f}"
            if rewards
            else "unscored"
        )
        return shorten(f"<Group {self.id}: {count(len(self.members), 'chain')}, {known}>", 200)

    def __str__(self) -> str:
        """Return one line for the group, and one for each of its chains."""
        return "\n".join([repr(self), *(f"  {member!r}" for member in self.members)])

    @classmethod
    def of(cls, chains: Iterable[Trajectory]) -> "Group":
        """Make a group of its finished chains, given in any order."""
        members = sorted(chains, key=lambda member: chain_index(member.chain_id))
        return cls(id=members[0].group_id, task=members[0].task, members=tuple(members))

    @property
    def has_spread(self) -> bool:
        """Whether its trainable members differ in reward; only then can it be learned from."""
        trainable = [member for member in self.members if member.trainable]
        rewards = [member.score.value for member in trainable if member.score]
        return bool(rewards) and differ(min(rewards), max(rewards))


def members_by_group(chains: Iterable[Trajectory]) -> dict[str, list[Trajectory]]:
    """Return the chains of each group id, in the order of the groups' first chains."""
    members: dict[str, list[Trajectory]] = {}
    for trajectory in chains:
        members.setdefault(trajectory.group_id, []).append(trajectory)
    return members


def collect_groups(chains: Iterable[Trajectory]) -> list[Group]:
    """Make groups of finished chains, in the order of their first chains."""
    return [Group.of(members) for members in members_by_group(chains).values()]


ROUNDING = 1e-6
"""Relative difference below which values are equal except for rounding."""


def differ(low: float, high: float) -> bool:
    """Return whether two values differ by more than rounding.

    >>> differ(0.3, 0.1 + 0.2), differ(0.0, 1.0)
    (False, True)
    """
    return high - low > ROUNDING * max(abs(low), abs(high))


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """Training data of one token stream. A chain of several streams gives several samples.

    >>> Sample(token_ids=(9, 4, 2), mask=(False, True, True), logprobs=(0.0, -0.5, -0.1),
    ...        versions=(-1, 0, 0), turn_index=(0, 0, 0), temperature=1.0, chain_id="t/0/1",
    ...        group_id="t/0").num_trained
    2
    """

    token_ids: tuple[int, ...]
    mask: tuple[bool, ...]
    """True on the tokens that carry loss: sampled ones that the mask policy left on."""
    logprobs: tuple[float, ...]
    """Log-probabilities of the sampler; 0 where masked."""
    versions: tuple[int, ...]
    """Weights version of each sampled token; -1 on all others."""
    turn_index: tuple[int, ...]
    """Turn that each token belongs to, context tokens included."""
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
        """Number of tokens that carry loss."""
        return sum(self.mask)
