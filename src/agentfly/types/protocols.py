"""Protocols between packages. Any class that fits one can be used; inheriting is not needed."""

import math
import random
from asyncio import Timeout
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from typing import Any, Protocol

from agentfly.types.chain_handle import ChainHandle
from agentfly.types.completion import Completion, Request, SamplingParams
from agentfly.types.environment import EnvSpec, Step
from agentfly.types.event import OnEvent
from agentfly.types.learner import Weights
from agentfly.types.message import Message, ToolCall
from agentfly.types.score import Score
from agentfly.types.seed import Seed
from agentfly.types.task import Task
from agentfly.types.tool import ToolResult, ToolSpec
from agentfly.types.trajectory import Group, Trajectory

OnToken = Callable[[int, float], None]
"""Called with each token id and its logprob as it is sampled."""


class Clock(Protocol):
    """Monotonic time, injected so that deadlines and retries can be tested in virtual time."""

    def now(self) -> float:
        """Return seconds since an arbitrary fixed time."""

    async def sleep(self, seconds: float) -> None:
        """Wait for a number of seconds."""

    def timeout_at(self, deadline: float) -> Timeout:
        """Raise TimeoutError in the body if it is still running at `deadline`."""


class Engine(Protocol):
    """Sampler of tokens."""

    async def sample(
        self,
        prompt_ids: Sequence[int],
        params: SamplingParams,
        *,
        request: Request,
        deadline: float,
        on_token: OnToken | None = None,
    ) -> Completion:
        """Continue the prompt; raise EngineError, or DeadlineError at the deadline.

        An engine with an attribute `reports_start = True` calls `request.on_started` when it starts
        to work on a request: the wait until then does not count for the chain's time limit.
        """

    async def close(self) -> None:
        """Free everything. Waiters end with EngineError."""


class TrainableEngine(Engine, Protocol):
    """Engine that samples from weights which a learner changes."""

    @property
    def context_length(self) -> float:
        """Maximum length of prompt and completion together."""

    @property
    def takes(self) -> frozenset[type[Weights]]:
        """Forms of weights that `publish` takes."""

    @property
    def samples_exactly(self) -> bool:
        """Whether its log-probabilities are those of the learner's own forward pass."""

    @property
    def shares_tensors(self) -> bool:
        """Whether it samples from the learner's own tensors: it is paused while they change."""

    def paused(self) -> AbstractAsyncContextManager[None]:
        """Sample no token inside the block; requests wait until it ends."""

    async def publish(self, weights: Weights, version: int) -> None:
        """Sample from these weights from now on, and record each token under their version."""


class ChatModel(Protocol):
    """Server that returns text without token ids: for evaluation and data, not for training."""

    async def reply(
        self,
        messages: Sequence[Message],
        tools: Sequence[ToolSpec],
        params: SamplingParams,
        *,
        deadline: float,
    ) -> Message:
        """Answer the conversation."""


class Tokenizer(Protocol):
    """Part of a tokenizer that rendering uses. Special tokens in the text are recognized."""

    @property
    def special_ids(self) -> Mapping[str, int]:
        """Id of each special token, by its text."""

    @property
    def eos_id(self) -> int | None:
        """Id of the tokenizer's end token, if it has one."""

    def encode(self, text: str) -> list[int]:
        """Return ids for exactly this text, without adding tokens."""

    def decode(self, ids: Sequence[int]) -> str:
        """Return the text of these ids, special tokens included."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Parsed:
    """Completion as read into a message."""

    message: Message
    reasoning_spans: tuple[tuple[int, int], ...] = ()
    """Half-open ranges of the completion's tokens that are reasoning."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Extension:
    """Next context of the model."""

    token_ids: tuple[int, ...]
    new_stream: bool = False
    """True when `token_ids` is a whole prompt, because the template rewrote the history."""


class Renderer(Protocol):
    """Converter between messages and tokens that never re-tokenizes sampled tokens."""

    @property
    def stop_token_ids(self) -> tuple[int, ...]:
        """Tokens that end a turn."""

    @property
    def stop_strings(self) -> tuple[str, ...]:
        """Strings that end a turn in this format."""

    def open(self, messages: Sequence[Message], tools: Sequence[ToolSpec]) -> tuple[int, ...]:
        """Render the first prompt."""

    def extend(
        self,
        history: Sequence[Message],
        completion: Completion,
        replies: Sequence[Message],
        tools: Sequence[ToolSpec],
    ) -> Extension:
        """Return what follows a sampled turn: what closes it, the replies, the next prompt.

        `history` is the conversation up to and including the turn's message.
        """

    def parse(self, completion: Completion, tools: Sequence[ToolSpec] = ()) -> Parsed:
        """Read a completion. Never raises, for any tokens.

        The tools' schemas say what types arguments have, where the call format writes bare text.
        """

    def decode(self, ids: Sequence[int]) -> str:
        """Return the text of these ids, for display."""


class Env(Protocol):
    """Environment that makes the first observation. Methods may be sync or async."""

    def reset(self, task: Task, seed: Seed) -> object:
        """Start a new episode and return the first observation."""

    def step(self, action: str) -> Step | object:
        """Take an action and return a Step."""

    def close(self) -> object:
        """Free everything."""


class Environments(Protocol):
    """Environments of one chain: the same instance for the same spec until the chain ends."""

    async def get(self, spec: EnvSpec | None) -> Any:
        """Return the instance; the first call leases all of the chain's environments at once.

        None means the chain's only environment. The wait has its own limit, after which it raises
        LeaseTimeout.
        """


@dataclass(frozen=True, slots=True, kw_only=True)
class Context:
    """Context of one call of a tool or reward, with its own random generator."""

    task: Task
    group_id: str
    chain_id: str | None
    """None for a group reward, which scores several chains."""
    turn: int
    seed: Seed
    clock: Clock
    deadline: float
    """Time on `clock`; infinite if there is no deadline."""
    environments: Environments
    metadata: dict[str, Any] = field(default_factory=dict)
    """One dict per chain, kept with its trajectory: JSON values only."""
    _rng: random.Random | None = field(default=None, init=False, repr=False, compare=False)

    @property
    def rng(self) -> random.Random:
        """Random generator seeded for this call alone."""
        if self._rng is None:
            object.__setattr__(self, "_rng", self.seed.random())
        assert self._rng is not None, "it was just made"
        return self._rng


class Pool(Protocol):
    """Central manager that leases environment instances."""

    def lease(
        self,
        specs: Sequence[EnvSpec],
        *,
        owner: str,
        deadline: float,
        patience: float = math.inf,
    ) -> AbstractAsyncContextManager[Mapping[EnvSpec, Any]]:
        """Lease one instance of each spec together.

        LeaseTimeout is raised at the deadline, or once nobody was lent what is missing for
        `patience` seconds.
        """


class Tool(Protocol):
    """Tool that a model can call."""

    @property
    def spec(self) -> ToolSpec:
        """Specification that the model is shown."""

    @property
    def environments(self) -> tuple[EnvSpec, ...]:
        """Environments that it needs."""

    async def run(self, call: ToolCall, context: Context) -> ToolResult:
        """Run a call; return mistakes of the model and of the tool as results.

        Only failures of infrastructure raise.
        """


class Reward(Protocol):
    """Reward of one chain.

    An attribute `range`, such as `(0, 1)`, declares its least and greatest value.
    """

    @property
    def name(self) -> str:
        """Name in parts and metrics."""

    @property
    def environments(self) -> tuple[EnvSpec, ...]:
        """Environments that it needs."""

    async def score(self, trajectory: Trajectory, context: Context) -> Score:
        """Score a chain, or raise RewardError."""


class GroupReward(Protocol):
    """Reward of all chains of a group at once, after their environments were released.

    An attribute `range` declares the least and the greatest value of a member.
    """

    @property
    def name(self) -> str:
        """Name in parts and metrics."""

    async def score_group(self, group: Group, context: Context) -> Sequence[Score | None]:
        """Score the members in order, None for unscored, or raise RewardError."""


class AgentKind(Protocol):
    """Kind of agent: how its prompt is made and its output read."""

    def open(
        self, task: Task, tools: Sequence[ToolSpec], observation: str | None
    ) -> Sequence[Message]:
        """Return the opening messages; `observation` is an environment's first observation."""

    def read(self, message: Message) -> Message:
        """Return the message as it should be understood, for example with its calls parsed."""

    def reply(self, calls: Sequence[ToolCall], results: Sequence[ToolResult]) -> Sequence[Message]:
        """Return the messages that show the model the results of its calls."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempt:
    """One attempt of a chain, which a harness runs."""

    task: Task
    group_id: str
    chain_id: str
    seed: Seed
    """Seed of this chain."""
    number: int = 0
    """Number of earlier attempts."""
    asked_at: float = 0.0
    """Time on the harness's clock at which the chain was requested, to measure queueing."""
    on_event: OnEvent | None = None
    handle: ChainHandle = field(default_factory=ChainHandle, compare=False, repr=False)
    """Link to the chain while it runs."""


class Harness(Protocol):
    """Runner of attempts: the chain loop, or an agent that runs elsewhere."""

    async def run(self, attempt: Attempt) -> Trajectory:
        """Run to the end; every failure becomes data in the trajectory."""


class Tracker(Protocol):
    """Destination of metrics."""

    def log(self, metrics: Mapping[str, float], step: int) -> None:
        """Record the metrics of a step."""

    def close(self) -> None:
        """Write what is left. Closing twice does nothing."""
