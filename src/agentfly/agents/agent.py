"""`Agent`: a model with tools and a reward, run over many chains at once."""

import asyncio
import copy
import logging
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Self, TypedDict, Unpack

from rich.console import Console

from agentfly.agents.argument_checks import (
    Rows,
    environment_spec,
    method_source,
    require_count,
    require_group_reward,
    require_reward,
    require_tools,
    to_tasks,
)
from agentfly.agents.kind import ToolCalling, WorkedExample
from agentfly.agents.model import Model, open_model
from agentfly.agents.registry import find_kind
from agentfly.agents.run_result import RunResult, open_trajectory_file
from agentfly.chat.formats import CallFormat, get_format
from agentfly.config import EngineSettings
from agentfly.errors import ConfigError
from agentfly.models.zoo import unseen_tools
from agentfly.observe.finding_rules import diagnose_unseen_tools
from agentfly.observe.heartbeat import Heartbeat
from agentfly.resources import EnvironmentManager
from agentfly.rewards import CombinedReward
from agentfly.rewards.function_reward import UserFunction
from agentfly.rollout import (
    ChainHarness,
    ChainSetup,
    Limits,
    Runner,
    Schedule,
    plan_groups,
    run_groups,
)
from agentfly.rollout.chain_setup import environments_of
from agentfly.runtime.clock import LoopClock
from agentfly.tools import Toolbox
from agentfly.tools.methods import make_tools
from agentfly.types import (
    AgentKind,
    ChatModel,
    Clock,
    Engine,
    EnvSpec,
    GroupReward,
    Offload,
    OnEvent,
    Pool,
    Renderer,
    Reward,
    SamplingParams,
    Seed,
    Tool,
    Trajectory,
)
from agentfly.types.short_text import count

_log = logging.getLogger(__name__)


class RunOptions(TypedDict, total=False):
    """The options of `Agent.run`."""

    num_chains: int
    max_turns: int | None
    max_concurrent_chains: int
    sampling: SamplingParams | None
    seed: int
    retries: int
    on_event: OnEvent | None
    on_trajectory: Callable[[Trajectory], None] | None
    save_to: str | Path | None


class Agent:
    """Model that acts through tools.

    Args:
        model: A model's name or folder, an engine, or a chat model. An agent that is only used for
            training needs none: it gets the model that is trained.
        tools: What it may call: tools, functions, methods, or classes with all their documented
            methods. For methods, each chain leases an instance of the class.
        reward: Scores each chain, while the chain still holds its environments.
        group_reward: Scores all chains of a row at once, after they have ended.
        system_prompt: Put before every conversation.
        kind: `"tools"`, `"react"`, `"code"`, `"tags"`, or a kind of your own.
        format: How tool calls are written; by default what the model's template uses.
        environment: What each chain leases an instance of: a class, a partial of one, a function
            that makes one, or an `EnvSpec`. Its `reset` may make the first observation. Its `step`
            answers the model's text; without a `step`, its documented methods are the tools.
        renderer: Converts messages to tokens; by default made from the model's own template.
        max_turns: Shorthand for `limits.max_turns`.
        limits: Limits after which a chain is stopped.
        sampling: Temperature, top-p, tokens per turn and so on.
        pool: Leases environments; by default the agent makes its own manager.
        clock: Injected in tests.
        engine: Engine for a model given by name: "local" in this process, "vllm" through a server,
            or the table `[engine]` of some settings.
        trust_remote_code: Run Python code from a named model's folder, with your rights.
        template_options: Values for variables of a named model's chat template, such as
            `{"enable_thinking": False}`.

    >>> from agentfly.chat import CHATML_TOKENS, ByteTokenizer
    >>> from agentfly.engines import ScriptedEngine
    >>> agent = Agent(ScriptedEngine(["It is 4."], tokenizer=ByteTokenizer(CHATML_TOKENS)))
    >>> agent.run_sync("What is 2+2?").trajectories[0].final_response
    'It is 4.'
    """

    def __init__(  # noqa: PLR0913 - the facade is where all parts meet
        self,
        model: str | Path | Engine | ChatModel | None = None,
        *,
        tools: Sequence[Tool | Callable[..., Any]] = (),
        reward: Reward | None = None,
        group_reward: GroupReward | None = None,
        system_prompt: str | None = None,
        kind: str | AgentKind = "tools",
        format: str | CallFormat | None = None,
        environment: Callable[..., Any] | EnvSpec | None = None,
        renderer: Renderer | None = None,
        max_turns: int | None = None,
        limits: Limits | None = None,
        sampling: SamplingParams | None = None,
        pool: Pool | None = None,
        clock: Clock | None = None,
        engine: str | EngineSettings | None = None,
        trust_remote_code: bool = False,
        template_options: Mapping[str, Any] | None = None,
    ) -> None:
        self.environment = environment_spec(environment)
        self.tools = Toolbox(
            make_tools(require_tools(tools) or method_source(self.environment), self.environment)
        )
        self.kind = _kind(kind, system_prompt)
        self.reward = require_reward(reward)
        self.group_reward = require_group_reward(group_reward)
        self._given = _Given(
            renderer, self._format(format), template_options, sampling, limits, max_turns
        )
        self.model = Model()
        if model is not None:
            chosen = EngineSettings(name=engine) if isinstance(engine, str) else engine
            self.model = self._given.open(model, chosen, trust_remote_code=trust_remote_code)
            self._warn_unseen_tools(model)
        elif engine is not None:
            raise ConfigError(
                "`engine` chooses what samples from a model that is named, and this agent has no "
                "model: name one, or leave `engine` out. A Trainer's settings choose its engine"
            )
        self.limits = self._given.limits_or(Limits(), self.model)
        self.sampling = sampling or SamplingParams()
        self.clock = clock or LoopClock()
        self._own_pool = EnvironmentManager(clock=self.clock)
        self._pool = pool or self._own_pool

    @property
    def environments(self) -> tuple[EnvSpec, ...]:
        """Environments that a chain may lease, each once."""
        return environments_of(self.environment, self.tools, self.reward)

    async def run(  # noqa: PLR0913 - one call, every option by name
        self,
        rows: Rows,
        *,
        num_chains: int = 1,
        max_turns: int | None = None,
        max_concurrent_chains: int = 64,
        sampling: SamplingParams | None = None,
        seed: int = 0,
        retries: int = 1,
        on_event: OnEvent | None = None,
        on_trajectory: Callable[[Trajectory], None] | None = None,
        save_to: str | Path | None = None,
    ) -> RunResult:
        """Run `num_chains` chains for each row, and return when all have ended.

        Args:
            rows: A question, messages, or rows: dicts with `question` or `messages` and any fields.
            num_chains: Chains per row; they form a group.
            max_turns: Overrides the agent's own for this run.
            max_concurrent_chains: Maximum number of chains that run at once.
            sampling: Overrides the agent's own for this run.
            seed: The root of the run's seed tree.
            retries: Maximum number of retries of a chain after failures of infrastructure.
            on_event: Called with every token, call, observation, reward and stop as it happens.
            on_trajectory: Called with every finished chain.
            save_to: A new JSONL file to which every finished chain is appended at once, so that
                an interrupted run loses none of them.
        """
        require_count("num_chains", num_chains, at_least=1)
        require_count("max_concurrent_chains", max_concurrent_chains, at_least=1)
        require_count("retries", retries, at_least=0)
        require_count("seed", seed, at_least=0)
        plans = plan_groups(to_tasks(rows), num_chains=num_chains, seed=Seed(seed))
        with ExitStack() as stack:
            sinks = [on_trajectory] if on_trajectory else []
            if save_to is not None:
                tasks = [plan.task for plan in plans]
                sinks.append(stack.enter_context(open_trajectory_file(save_to, tasks)).write)
            runner = self.runner(max_turns=max_turns, sampling=sampling)
            schedule = Schedule(
                runner_of=lambda _: runner,
                clock=self.clock,
                max_concurrent=max_concurrent_chains,
                retries=retries,
                on_event=on_event,
                on_trajectory=_to_all(sinks),
            )
            return RunResult(groups=tuple(await run_groups(plans, schedule)))

    def run_sync(self, rows: Rows, **options: Unpack[RunOptions]) -> RunResult:
        """Run from code that is not async; takes what `run` takes.

        A run that takes longer than ten seconds prints its progress on stderr every thirty seconds.
        """
        try:
            asyncio.get_running_loop()
        except RuntimeError:
            with _counted(options) as shown:
                return asyncio.run(self.run(rows, **shown))
        raise ConfigError("an event loop is running already: write `await agent.run(...)` here")

    async def close(self) -> None:
        """Free what the agent made: environments, and the model that it loaded by name.

        Engines and pools that you passed are yours to close.
        """
        await self.model.close()
        await self._own_pool.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    def with_engine(
        self, engine: Engine, *, pool: Pool | None = None, offload: Offload | None = None
    ) -> Self:
        """Return a copy of the agent that samples from another engine of the same model.

        Its environments come from `pool`, unless the agent was given one when it was made. Its
        heavy tools and rewards run by `offload`, where that is given.
        """
        other = copy.copy(self)
        other.model = self.model.with_engine(engine)
        if pool is not None and self._pool is self._own_pool:
            other._pool = pool
        if offload is not None:
            other.tools = self.tools.offloaded(offload)
            if isinstance(self.reward, UserFunction | CombinedReward):
                other.reward = self.reward.offloaded(offload)
        return other

    def with_pool(self, pool: Pool) -> Self:
        """Return a copy whose environments come from a pool, unless the agent was given one."""
        other = copy.copy(self)
        other._pool = pool if self._pool is self._own_pool else self._pool
        return other

    def with_model(self, engine: Engine) -> Self:
        """Return a copy with an engine that has a tokenizer and a template of its own."""
        other = copy.copy(self)
        given = replace(self._given, template_options=None)
        other.model = given.open(engine, trust_remote_code=False)
        return other

    def with_chat_model(self, model: ChatModel) -> Self:
        """Return a copy that uses a chat model, such as a scripted player."""
        other = copy.copy(self)
        other.model = Model(chat_model=model)
        return other

    def with_example(self, example: WorkedExample) -> Self:
        """Return a copy of the agent that shows an example before every conversation."""
        other = copy.copy(self)
        if not isinstance(self.kind, ToolCalling):
            raise ConfigError(
                f"a {type(self.kind).__name__} makes its own prompt: put the example into its "
                "`open`"
            )
        kind = copy.copy(self.kind)
        kind.example = example
        other.kind = kind
        return other

    @property
    def own_settings(self) -> frozenset[str]:
        """Names of the run settings in `rollout` that the agent overrides with its own values."""
        return self._given.settings

    def for_run(
        self,
        model: str | Path | ChatModel,
        *,
        sampling: SamplingParams,
        limits: Limits,
        trust_remote_code: bool = False,
        template_options: Mapping[str, Any] | None = None,
    ) -> Self:
        """Return a copy with a run's model, sampling and limits where the agent has none itself.

        Args:
            model: Name or folder of the model that is trained; a chat model is only evaluated.
            sampling: The run's sampling parameters.
            limits: The run's limits; the agent's own `max_turns` takes precedence.
            trust_remote_code: Run Python code from the model's folder, with your rights.
            template_options: Values for variables of the model's chat template.
        """
        other = copy.copy(self)
        if not self.model.is_given:
            other.model = self._given.open(
                model, trust_remote_code=trust_remote_code, template_options=template_options
            )
        other.sampling = self._given.sampling or sampling
        other.limits = self._given.limits_or(limits, other.model)
        return other

    def setup(
        self, *, max_turns: int | None = None, sampling: SamplingParams | None = None
    ) -> ChainSetup:
        """Return the setup that the chains of one run share."""
        if not self.model.is_given:
            raise ConfigError(
                'this agent has no model to run: name one, as in Agent("smollm2-135m-instruct", '
                "...), or give the agent to a Trainer, whose settings name the model"
            )
        return ChainSetup(
            kind=self.kind,
            tools=self.tools,
            pool=self._pool,
            engine=self.model.engine,
            renderer=self.model.renderer,
            chat_model=self.model.chat_model,
            reward=self.reward,
            environment=self.environment,
            sampling=sampling or self.sampling,
            limits=_limits(self.limits, max_turns, self.model),
            clock=self.clock,
        )

    def runner(
        self, *, max_turns: int | None = None, sampling: SamplingParams | None = None
    ) -> Runner:
        """Return the runner of this agent's chains, with its group reward."""
        return Runner(
            harness=ChainHarness(self.setup(max_turns=max_turns, sampling=sampling)),
            group_reward=self.group_reward,
            group_reward_seconds=self.limits.reward_seconds,
        )

    def _warn_unseen_tools(self, model: str | Path | Engine | ChatModel) -> None:
        """Log a warning if the model is a built-in one that can't call these tools."""
        if not isinstance(model, str | Path):
            return
        if unseen := unseen_tools(model, [spec.name for spec in self.tools.specs]):
            _log.warning("%s", diagnose_unseen_tools(str(model), unseen))

    def _format(self, given: str | CallFormat | None) -> CallFormat | None:
        """Return the call format: the given one, else the kind's; None means the template's own."""
        if isinstance(given, str):
            return get_format(given)
        if given is not None:
            return given
        own = getattr(self.kind, "format", None)
        return own(self.tools.specs) if own is not None else None


@dataclass(frozen=True, slots=True)
class _Given:
    """Arguments that the agent itself was given; where one is None, a run may choose."""

    renderer: Renderer | None
    call_format: CallFormat | None
    template_options: Mapping[str, Any] | None
    sampling: SamplingParams | None
    limits: Limits | None
    max_turns: int | None

    @property
    def settings(self) -> frozenset[str]:
        names = {"temperature", "max_tokens"} if self.sampling else set()
        names |= {"max_turns", "context_length", "chain_seconds"} if self.limits else set()
        return frozenset(names | ({"max_turns"} if self.max_turns is not None else set()))

    def open(
        self,
        model: str | Path | Engine | ChatModel,
        engine: EngineSettings | None = None,
        *,
        trust_remote_code: bool,
        template_options: Mapping[str, Any] | None = None,
    ) -> Model:
        return open_model(
            model,
            self.renderer,
            self.call_format,
            engine=engine,
            trust_remote_code=trust_remote_code,
            template_options=self.template_options or template_options,
        )

    def limits_or(self, others: Limits, model: Model) -> Limits:
        return _limits(self.limits or others, self.max_turns, model)


@contextmanager
def _counted(options: RunOptions) -> Iterator[RunOptions]:
    """Print on stderr how many chains have ended, if the block takes long."""
    ended, console, started = 0, Console(stderr=True), time.monotonic()
    given = options.get("on_trajectory")

    def count_chain(trajectory: Trajectory) -> None:
        nonlocal ended
        ended += 1
        if given is not None:
            given(trajectory)

    def show() -> None:
        console.print(f"{count(ended, 'chain')} ended after {time.monotonic() - started:.0f} s")

    with Heartbeat(show):
        yield {**options, "on_trajectory": count_chain}


def _kind(kind: str | AgentKind, system_prompt: str | None) -> AgentKind:
    if isinstance(kind, str):
        kind = find_kind(kind)
    if system_prompt is None:
        return kind
    if not isinstance(kind, ToolCalling):
        raise ConfigError(
            f"a {type(kind).__name__} makes its own prompt: put the system prompt into its `open`"
        )
    # A copy, because several agents with other prompts may share the kind.
    kind = copy.copy(kind)
    kind.system_prompt = system_prompt
    return kind


def _limits(limits: Limits, max_turns: int | None, model: Model) -> Limits:
    return replace(
        limits,
        max_turns=limits.max_turns if max_turns is None else max_turns,
        context_length=min(limits.context_length, model.context_length),
    )


def _to_all(
    sinks: Sequence[Callable[[Trajectory], None]],
) -> Callable[[Trajectory], None]:
    def call_all(trajectory: Trajectory) -> None:
        for sink in sinks:
            sink(trajectory)

    return call_all
