"""The chain loop: generate, run tools, observe, until exactly one stop reason.

open ──► generate ──► read ──┬─ calls ─────► tools ─────────────► observe ──► generate …
                             ├─ no calls ──► environment's step ─► observe ──► generate …
                             └─ neither ───► answered
then: reward, with the same environments ──► release ──► trajectory
"""

import json
import logging
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from agentfly.errors import (
    AgentError,
    ChainError,
    EngineError,
    EnvError,
    InfrastructureError,
    LeaseTimeout,
    RewardError,
    boundary,
)
from agentfly.rollout.callbacks import TextStream, call_user
from agentfly.rollout.chain_environments import CallOrder, ChainEnvironments, call_environment
from agentfly.rollout.chain_limits import CallBudget
from agentfly.rollout.chain_setup import ChainSetup
from agentfly.rollout.chain_time import Stopwatch, TimeLimit
from agentfly.rollout.model_session import ModelTurn
from agentfly.rollout.scoring import score_chain, sum_step_rewards
from agentfly.tools.tool_result import plain_info
from agentfly.types import (
    Attempt,
    ChainStarted,
    Context,
    EnvObserved,
    EnvSpec,
    Event,
    FinishReason,
    Message,
    Observed,
    OnToken,
    Rewarded,
    Score,
    SpanKind,
    Step,
    StopReason,
    TokenSampled,
    TokenStream,
    ToolCall,
    ToolCalled,
    ToolResult,
    Trajectory,
    Turn,
    TurnRead,
)


class ChainHarness:
    """Default harness: runs each attempt through the chain loop."""

    def __init__(self, setup: ChainSetup) -> None:
        self.setup = setup

    async def run(self, attempt: Attempt) -> Trajectory:
        """Run one chain to its end; every failure becomes data in the trajectory."""
        return await _Chain(self.setup, attempt).run()


class _Chain:
    """State of one run of the loop."""

    def __init__(self, setup: ChainSetup, attempt: Attempt) -> None:
        self.setup = setup
        self.attempt = attempt
        self.clock = setup.clock
        self.time = TimeLimit(self.clock, setup.limits.seconds)
        self.stopwatch = Stopwatch(self.clock, attempt.asked_at, handle=attempt.handle)
        self.session = setup.new_session(attempt, self.time)
        self.budget = CallBudget(setup.limits)
        self.messages: tuple[Message, ...] = ()
        self.history: list[Message] = []
        self.streams: list[list[Turn]] = []
        self.turn_with: Callable[..., Turn] = Turn
        self.turn_seeds = attempt.seed.child("turn")
        self.state_key: str | None = None
        self.metadata: dict[str, Any] = {}
        self.environments = ChainEnvironments(
            pool=setup.pool,
            specs=setup.environments,
            attempt=attempt,
            clock=self.clock,
            stopwatch=self.stopwatch,
            lease_seconds=setup.limits.lease_seconds,
            time=self.time,
        )

    async def run(self) -> Trajectory:
        self.stopwatch.add(SpanKind.QUEUE, "admission", turn=None, start=self.attempt.asked_at)
        async with self.environments:
            stop, error = await self._conversation()
            trajectory = self._record(stop, error)
            # A chain without any turn has nothing to score.
            if stop.verdict.scored and self.streams:
                trajectory = await self._scored(trajectory)
        return trajectory

    async def _conversation(self) -> tuple[StopReason, str | None]:
        handle = self.attempt.handle
        handle.on_stop = self.time.expire
        if early := handle.early_end():
            return early
        try:
            async with self.time.enforced():
                return await self._converse(), None
        except (TimeoutError, ChainError) as error:
            if early := handle.early_end():
                return early
            if self.time.is_over:
                return StopReason.TIME_LIMIT, self._out_of_time()
            return stop_reason_for(error), f"{type(error).__name__}: {error}"
        finally:
            handle.on_stop = None

    def _out_of_time(self) -> str:
        stuck = self.stopwatch.describe_interrupted()
        return f"the chain's time limit of {self.setup.limits.seconds:g} s ran out" + (
            f" while waiting for {stuck}" if stuck else ""
        )

    async def _converse(self) -> StopReason:
        await self._open()
        for index in range(self.setup.limits.max_turns):
            stop = self.session.limit_reached() or await self._take_turn(index)
            if stop is not None:
                return stop
        return StopReason.TURN_LIMIT

    async def _open(self) -> None:
        observation = None
        if self.setup.environment is not None:
            first = await self.environments.first_step(self.setup.environment)
            if first is not None:
                observation, self.state_key = first.observation, first.state_key
        with boundary(AgentError, "making the opening messages"):
            self.messages = _require_messages(
                self.setup.kind.open(self.attempt.task, self.setup.tools.specs, observation)
            )
        if not self.messages:
            raise AgentError(
                "there is nothing to open the conversation with: give the task a `question` or "
                "`messages`, or the agent an environment that makes the first observation"
            )
        self.history += self.messages
        self.session.open(self.messages)
        self._emit(ChainStarted, turn=0, messages=self.messages, attempt=self.attempt.number)

    async def _take_turn(self, index: int) -> StopReason | None:
        """Generate, run the calls, and observe the replies; return why to stop, if so."""
        with self.stopwatch.span(SpanKind.GENERATE, "model", index):
            seed = self.turn_seeds.child(index)
            model_turn = await self.session.generate(index, seed, self._on_token(index))
        with boundary(AgentError, f"reading turn {index}"):
            message = _require_messages([self.setup.kind.read(model_turn.message)])[0]
        turn = self._begin_turn(index, model_turn, message)
        self._emit(TurnRead, turn=index, message=message)
        turn, stop = await self._answered(turn)
        self.streams[-1][-1] = turn
        if stop is None and index + 1 < self.setup.limits.max_turns:
            self.history.append(message)
            self.session.observe(tuple(self.history), turn.replies)
            self.history += turn.replies
        return stop

    def _begin_turn(self, index: int, model_turn: ModelTurn, message: Message) -> Turn:
        """Record the turn before its calls run, so that a crash in them loses no tokens."""
        self.turn_with = partial(
            Turn,
            index=index,
            context_ids=model_turn.context_ids,
            completion=model_turn.completion,
            message=message,
            temperature=self.setup.sampling.temperature,
            reasoning_spans=model_turn.reasoning_spans,
            state_key=self.state_key,
        )
        turn = self.turn_with()
        if model_turn.new_stream or not self.streams:
            self.streams.append([])
        self.streams[-1].append(turn)
        return turn

    async def _answered(self, turn: Turn) -> tuple[Turn, StopReason | None]:
        if turn.message.tool_calls:
            return await self._run_calls(turn)
        if turn.completion and turn.completion.finish_reason is FinishReason.LENGTH:
            return turn, self.session.limit_reached() or StopReason.TOKEN_LIMIT
        if self.setup.environment is not None and not self.setup.tools.specs:
            return await self._step(turn, self.setup.environment)
        return turn, StopReason.ANSWERED

    async def _run_calls(self, turn: Turn) -> tuple[Turn, StopReason | None]:
        calls = turn.message.tool_calls
        needed = map(self.setup.tools.received_environments, calls)
        order = CallOrder([self.environments.matching(specs) for specs in needed])
        results = await self.budget.run(calls, partial(self._run_call, turn.index, order))
        with boundary(AgentError, f"answering turn {turn.index}"):
            replies = _require_messages(self.setup.kind.reply(calls, results))
        rewards = [result.reward for result in results if result.reward is not None]
        reached = [result.state_key for result in results if result.state_key is not None]
        self.state_key = reached[-1] if reached else self.state_key
        answered = self.turn_with(
            results=results, replies=replies, reward=sum(rewards) if rewards else None
        )
        return answered, self.budget.stop_after(results)

    async def _run_call(
        self, turn: int, order: CallOrder, place: int, call: ToolCall
    ) -> ToolResult:
        await order.begin(place)
        self._emit(ToolCalled, turn=turn, call=call)
        with self.stopwatch.span(SpanKind.TOOL, call.name, turn):
            context = self._context(turn, "call", place, deadline=self.time.deadline)
            result = await self.setup.tools.run_one(call, context)
        self._emit(Observed, turn=turn, call=call, result=result)
        order.end(place)
        return result

    async def _step(self, turn: Turn, spec: EnvSpec) -> tuple[Turn, StopReason | None]:
        """Step the environment with the model's message."""
        instance = await self.environments.get(spec)
        with self.stopwatch.span(SpanKind.ENVIRONMENT, f"step {spec.name}", turn.index):
            step = await call_environment(
                partial(instance.step, turn.message.content),
                f"stepping {spec.name} in turn {turn.index}",
                clock=self.clock,
                deadline=self.time.deadline,
            )
        if not isinstance(step, Step):
            raise EnvError(f"{spec.name}.step must return a Step, got {step!r}")
        self._emit(EnvObserved, turn=turn.index, observation=step.observation)
        self.state_key = step.state_key
        with boundary(EnvError, f"reading the Step of {spec.name}"):
            answered = self.turn_with(
                replies=(Message(role="user", content=step.observation),),
                reward=None if step.reward is None else float(step.reward),
                info=plain_info(step.info),
                invalid=step.invalid,
            )
        return answered, StopReason.ENV_ENDED if step.done else None

    async def _scored(self, trajectory: Trajectory) -> Trajectory:
        reward, turns = self.setup.reward, trajectory.turns
        if reward is None:
            score = sum_step_rewards(turns)
            if score is None:
                return trajectory
        else:
            # The chain's own time limit covers only the conversation.
            deadline = self.clock.now() + self.setup.limits.reward_seconds
            context = self._context(len(turns), "reward", deadline=deadline)
            try:
                with self.stopwatch.span(SpanKind.REWARD, reward.name):
                    score = await score_chain(reward, trajectory, context)
            except ChainError as error:
                return self._record(stop_reason_for(error), f"{type(error).__name__}: {error}")
        self._emit(Rewarded, turn=len(turns), score=score)
        return self._record(trajectory.stop, None, score)

    def _record(
        self, stop: StopReason, error: str | None, score: Score | None = None
    ) -> Trajectory:
        return Trajectory(
            task=self.attempt.task,
            group_id=self.attempt.group_id,
            chain_id=self.attempt.chain_id,
            messages=self.messages,
            tools=tuple(self.setup.tools.specs),
            streams=tuple(TokenStream(turns=tuple(turns)) for turns in self.streams),
            stop=stop,
            score=score,
            error=error,
            spans=tuple(self.stopwatch.spans),
            attempt=self.attempt.number,
            metadata=json_values(self.metadata, self.attempt.chain_id),
        )

    def _context(self, turn: int, *path: str | int, deadline: float) -> Context:
        return Context(
            task=self.attempt.task,
            group_id=self.attempt.group_id,
            chain_id=self.attempt.chain_id,
            turn=turn,
            seed=self.turn_seeds.child(turn, *path),
            clock=self.clock,
            deadline=deadline,
            environments=self.environments,
            metadata=self.metadata,
        )

    def _on_token(self, turn: int) -> OnToken | None:
        renderer = self.setup.renderer
        if self.attempt.on_event is None or renderer is None:
            return None
        text = TextStream(renderer.decode)

        def on_token(token_id: int, logprob: float) -> None:
            self.stopwatch.report()
            added = "" if token_id in renderer.stop_token_ids else text.add(token_id)
            self._emit(TokenSampled, turn=turn, token_id=token_id, logprob=logprob, text=added)

        return on_token

    def _emit(self, make: Callable[..., Event], *, turn: int, **details: object) -> None:
        if self.attempt.on_event is not None:
            event = make(chain_id=self.attempt.chain_id, turn=turn, **details)
            call_user(self.attempt.on_event, event, "on_event")


_STOP_OF_ERROR: dict[type[Exception], StopReason] = {
    EngineError: StopReason.ENGINE_FAILED,
    EnvError: StopReason.ENV_CRASHED,
    LeaseTimeout: StopReason.LEASE_TIMEOUT,
    RewardError: StopReason.REWARD_FAILED,
    AgentError: StopReason.AGENT_FAILED,
    InfrastructureError: StopReason.ENV_CRASHED,
    ChainError: StopReason.AGENT_FAILED,
    TimeoutError: StopReason.TIME_LIMIT,
}


def _require_messages(messages: Sequence[object]) -> tuple[Message, ...]:
    """Return the messages; raise TypeError if the agent's own code returned anything else."""
    given: tuple[Any, ...] = tuple(messages)
    for message in given:
        if not isinstance(message, Message):
            raise TypeError(f"expected Messages, got {message!r}")
    return given


def stop_reason_for(error: Exception) -> StopReason:
    """Return the stop reason of an error, by its nearest listed base class."""
    return next(_STOP_OF_ERROR[kind] for kind in type(error).__mro__ if kind in _STOP_OF_ERROR)


_log = logging.getLogger(__name__)


def json_values(metadata: Mapping[str, Any], chain_id: str) -> dict[str, Any]:
    """Copy metadata for saving; values without a JSON form become their `repr`."""
    if not metadata:
        return {}
    try:
        json.dumps(metadata)
    except (TypeError, ValueError, RecursionError):
        _log.warning("metadata of chain %s holds values that are not JSON", chain_id)
        return {str(key): _json_or_repr(value) for key, value in metadata.items()}
    return dict(metadata)


def _json_or_repr(value: Any) -> Any:
    try:
        json.dumps(value)
    except (TypeError, ValueError, RecursionError):
        return repr(value)
    return value
