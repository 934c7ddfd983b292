"""The Protocols of all seams. Whoever fits one can stand in its place; nobody need inherit."""

import random
from asyncio import Timeout
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from typing import Any, Protocol

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
        """Return seconds since some fixed moment."""

    async def sleep(self, seconds: float) -> None:
        """Wait."""

    def timeout_at(self, deadline: float) -> Timeout:
        """Raise TimeoutError in the body if it is still running at `deadline`."""


class Engine(Protocol):
    """Whatever samples tokens."""

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

        An engine with an attribute `reports_start = True` calls `request.on_started` when it begins
        to work on a request: a chain's time limit does not count what it waited until then.
        """

    async def close(self) -> None:
        """Free everything. Waiters end with EngineError."""


class TrainableEngine(Engine, Protocol):
    """An engine that samples from weights which a learner changes."""

    @property
    def context_length(self) -> float:
        """Longest sequence, prompt and completion together."""

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
        """Sample no token inside the block; requests wait meanwhile."""

    async def publish(self, weights: Weights, version: int) -> None:
        """Sample from these weights from now on, and record each token under their version."""


class ChatModel(Protocol):
    """A server that gives text and no token ids: good for evaluation and data, not training."""

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
    """The little that rendering needs of a tokenizer. Special tokens in the text are recognized."""

    @property
    def special_ids(self) -> Mapping[str, int]:
        """Text of each special token, and its id."""

    @property
    def eos_id(self) -> int | None:
        """The tokenizer's own end token, if it names one."""

    def encode(self, text: str) -> list[int]:
        """Return ids for exactly this text: nothing is added in front or behind."""

    def decode(self, ids: Sequence[int]) -> str:
        """Return the text of these ids, special tokens included."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Parsed:
    """A completion as read."""

    message: Message
    reasoning_spans: tuple[tuple[int, int], ...] = ()
    """Half-open ranges of the completion's tokens that are reasoning."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Extension:
    """What to put before the model next."""

    token_ids: tuple[int, ...]
    new_stream: bool = False
    """True when `token_ids` is a whole prompt, because the template rewrote the history."""


class Renderer(Protocol):
    """Between messages and tokens, without ever re-tokenizing what was sampled."""

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
        """Read a completion. Never raises, whatever the tokens.

        The tools' schemas say what types arguments have, where the call format writes bare text.
        """

    def decode(self, ids: Sequence[int]) -> str:
        """Return the text of these ids, for people to look at."""


class Env(Protocol):
    """An environment that speaks first. Methods may be sync or async; others may be added."""

    def reset(self, task: Task, seed: Seed) -> object:
        """Begin anew and return the first observation."""

    def step(self, action: str) -> Step | object:
        """Act and return a Step."""

    def close(self) -> object:
        """Free everything."""


class Environments(Protocol):
    """A chain's own environments: the same instance for the same spec, until it ends."""

    async def get(self, spec: EnvSpec | None) -> Any:
        """Return the instance, leasing all of the chain's kinds at once at the first call.

        None means the chain's only environment. The wait has a limit of its own, after which it
        raises LeaseTimeout.
        """


@dataclass(frozen=True, slots=True, kw_only=True)
class Context:
    """Where a call stands. Each call gets its own, with its own generator."""

    task: Task
    group_id: str
    chain_id: str | None
    """None for a group reward, which belongs to no single chain."""
    turn: int
    seed: Seed
    clock: Clock
    deadline: float
    """On `clock`; infinite if there is none."""
    environments: Environments
    metadata: dict[str, Any] = field(default_factory=dict)
    """One dict per chain, kept with its trajectory: JSON values only."""
    _rng: random.Random | None = field(default=None, init=False, repr=False, compare=False)

    @property
    def rng(self) -> random.Random:
        """A generator that is seeded for this call alone."""
        if self._rng is None:
            object.__setattr__(self, "_rng", self.seed.random())
        assert self._rng is not None, "it was just made"
        return self._rng


class Pool(Protocol):
    """The central manager that leases environment instances."""

    def lease(
        self, specs: Sequence[EnvSpec], *, owner: str, deadline: float
    ) -> AbstractAsyncContextManager[Mapping[EnvSpec, Any]]:
        """Lease one instance of each spec together; raise LeaseTimeout at the deadline."""


class Tool(Protocol):
    """Something a model can call."""

    @property
    def spec(self) -> ToolSpec:
        """What the model is told."""

    @property
    def environments(self) -> tuple[EnvSpec, ...]:
        """Which environments it needs."""

    async def run(self, call: ToolCall, context: Context) -> ToolResult:
        """Run a call. Mistakes of the model and of the tool are results.

        Only failures of infrastructure raise.
        """


class Reward(Protocol):
    """Scores one chain.

    One with an attribute `range`, such as `(0, 1)`, declares its least and greatest value.
    """

    @property
    def name(self) -> str:
        """What to call it in parts and metrics."""

    @property
    def environments(self) -> tuple[EnvSpec, ...]:
        """Which environments it needs."""

    async def score(self, trajectory: Trajectory, context: Context) -> Score:
        """Score a chain, or raise RewardError."""


class GroupReward(Protocol):
    """Scores all chains of a task at once, after their environments were released.

    One with an attribute `range` declares the least and the greatest value of a member.
    """

    @property
    def name(self) -> str:
        """What to call it in parts and metrics."""

    async def score_group(self, group: Group, context: Context) -> Sequence[Score | None]:
        """Score the members in order, None for unscored, or raise RewardError."""


class AgentKind(Protocol):
    """How an agent's prompt is made and its output read; the chain loop does the rest."""

    def open(
        self, task: Task, tools: Sequence[ToolSpec], observation: str | None
    ) -> Sequence[Message]:
        """Return the opening messages; `observation` is what an environment said first."""

    def read(self, message: Message) -> Message:
        """Return the message as it should be understood, for example with its calls found."""

    def reply(self, calls: Sequence[ToolCall], results: Sequence[ToolResult]) -> Sequence[Message]:
        """Return what the model is shown of its calls' results."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempt:
    """What a harness is asked to do."""

    task: Task
    group_id: str
    chain_id: str
    seed: Seed
    """Seed of this chain."""
    number: int = 0
    """How often it was tried before."""
    asked_at: float = 0.0
    """On the harness's clock: when the chain was asked for, so that queueing is seen."""
    on_event: OnEvent | None = None


class Harness(Protocol):
    """Turns an attempt into a trajectory: the chain loop, or an agent that runs elsewhere."""

    async def run(self, attempt: Attempt) -> Trajectory:
        """Run to the end. Whatever fails is data in the trajectory."""


class Tracker(Protocol):
    """Where metrics go."""

    def log(self, metrics: Mapping[str, float], step: int) -> None:
        """Record the metrics of a step."""

    def close(self) -> None:
        """Hand over what is left. Closing twice does nothing."""
