"""Conformance checkers for engines and for trainable engines."""

import asyncio
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import cast

from agentfly.errors import AgentFlyError, ConfigError, DeadlineError, EngineError
from agentfly.runtime.clock import LoopClock
from agentfly.testing.conformance import Findings
from agentfly.types import (
    Completion,
    Engine,
    FinishReason,
    OnToken,
    Request,
    SamplingParams,
    Seed,
    TrainableEngine,
    Weights,
)

_ANSWER_SECONDS = 60.0
_QUIET_TICKS = 8
"""Ticks without a token after which the tokens from before a pause have all arrived."""
_LEAST_TICK = 0.025
"""Seconds of a tick for engines that take less time per token."""
_MEASURED_TOKENS = 32
_MOST_TOKENS = 512


async def check_engine(
    engine: Engine, prompt_ids: Sequence[int], *, params: SamplingParams | None = None
) -> None:
    """Raise ConformanceError unless the engine keeps its contract; closes the engine at the end."""
    findings = Findings(type(engine).__name__)
    params = params or SamplingParams(max_tokens=8)
    with findings.no_error("sampling"):
        await _check_completion(findings, engine, prompt_ids, params)
    with findings.no_error("sampling the same seed again"):
        await _check_seed(findings, engine, prompt_ids, params)
    with findings.no_error("sampling many at once"):
        await _check_concurrency(findings, engine, prompt_ids, params)
    with findings.error(DeadlineError, "a deadline in the past"):
        await _sample(engine, prompt_ids, params, deadline=LoopClock().now() - 1)
    await engine.close()
    with findings.error(EngineError, "sampling after close"):
        await _sample(engine, prompt_ids, params)
    findings.report()


async def _sample(
    engine: Engine,
    prompt_ids: Sequence[int],
    params: SamplingParams,
    *,
    chain: int = 0,
    deadline: float | None = None,
    on_token: OnToken | None = None,
    on_started: Callable[[], None] | None = None,
) -> Completion:
    request = Request(
        chain_id=f"check/0/{chain}",
        group_id="check/0",
        turn=0,
        seed=Seed(11).child(chain),
        on_started=on_started,
    )
    clock = LoopClock()
    async with clock.timeout_at(clock.now() + _ANSWER_SECONDS):
        return await engine.sample(
            prompt_ids,
            params,
            request=request,
            deadline=math.inf if deadline is None else deadline,
            on_token=on_token,
        )


async def _check_completion(
    findings: Findings, engine: Engine, prompt_ids: Sequence[int], params: SamplingParams
) -> None:
    streamed: list[int] = []
    started: list[int] = []
    completion = await _sample(
        engine,
        prompt_ids,
        params,
        on_token=lambda token, _: streamed.append(token),
        on_started=lambda: started.append(len(streamed)),
    )
    if getattr(engine, "reports_start", False):
        findings.expect(started == [0], f"on_started was called after {started} tokens, not [0]")
    ids = completion.token_ids
    findings.expect(len(ids) <= params.max_tokens, f"{len(ids)} tokens, max {params.max_tokens}")
    findings.expect(tuple(streamed) == ids, f"on_token saw {streamed}, the completion has {ids}")
    findings.expect(all(p <= 1e-6 for p in completion.logprobs), "a logprob is greater than 0")
    if completion.finish_reason is FinishReason.LENGTH:
        findings.expect(len(ids) == params.max_tokens, f"LENGTH after {len(ids)} tokens")
    one = await _sample(engine, prompt_ids, replace(params, max_tokens=1))
    findings.expect(len(one.token_ids) == 1, f"max_tokens=1 gave {len(one.token_ids)} tokens")


async def _check_seed(
    findings: Findings, engine: Engine, prompt_ids: Sequence[int], params: SamplingParams
) -> None:
    first = await _sample(engine, prompt_ids, params)
    again = await _sample(engine, prompt_ids, params)
    findings.expect(
        first.token_ids == again.token_ids,
        f"the same seed gave {first.token_ids}, then {again.token_ids}",
    )


async def _check_concurrency(
    findings: Findings, engine: Engine, prompt_ids: Sequence[int], params: SamplingParams
) -> None:
    alone = [await _sample(engine, prompt_ids, params, chain=chain) for chain in range(4)]
    async with asyncio.TaskGroup() as group:
        tasks = [
            group.create_task(_sample(engine, prompt_ids, params, chain=chain))
            for chain in range(4)
        ]
    for chain, task in enumerate(tasks):
        findings.expect(
            task.result().token_ids == alone[chain].token_ids,
            f"chain {chain} sampled other tokens next to others than alone",
        )


async def check_trainable_engine(
    engine: TrainableEngine,
    prompt_ids: Sequence[int],
    publish_as: Callable[[int], Weights],
    *,
    torn: Weights | None = None,
) -> None:
    """Raise ConformanceError unless a learner can rely on the engine; closes it at the end.

    Args:
        engine: Engine at version 0 of its weights.
        prompt_ids: Any valid prompt.
        publish_as: Returns weights to publish as a version, in a form that the engine takes.
        torn: Weights that can be read only in part, such as a stream that raises or a folder with
            a truncated file: no token may be sampled from them.
    """
    findings = Findings(type(engine).__name__)
    weights = publish_as(1)
    findings.expect(type(weights) in engine.takes, f"it takes no {type(weights).__name__}")
    with findings.no_error("sampling"):
        pace = await _measure_pace(engine, prompt_ids)
        with findings.no_error("pausing"):
            await _check_pause(findings, engine, prompt_ids, pace)
        with findings.no_error("publishing in the middle of a completion"):
            await _check_publish_under_way(findings, engine, prompt_ids, weights, pace)
        with findings.no_error("publishing in a pause"):
            await _check_publish_in_pause(findings, engine, prompt_ids, publish_as(2), pace)
    if torn is not None:
        with findings.no_error("sampling before and after weights that can't be read"):
            await _check_torn(findings, engine, prompt_ids, torn)
    with findings.error(ConfigError, "publishing None"):
        await engine.publish(cast(Weights, None), 3)
    await engine.close()
    findings.report()


async def _check_pause(
    findings: Findings, engine: TrainableEngine, prompt_ids: Sequence[int], pace: "_Pace"
) -> None:
    """Pause under a completion: neither it nor a new request gets a token before the end."""
    under_way, new = _Streamed(), _Streamed()
    params = SamplingParams(max_tokens=8)
    async with asyncio.TaskGroup() as group:
        task = group.create_task(under_way.sample(engine, prompt_ids, pace.long, chain=1))
        await _first_token(task, under_way)
        async with engine.paused():
            ticks = await _until_quiet(task, under_way, pace)
            findings.expect(
                not task.done() or ticks <= _QUIET_TICKS,
                "tokens were sampled while it was paused: a completion went on to its end",
            )
            before, frozen = len(under_way.tokens), not task.done()
            waiting = group.create_task(new.sample(engine, prompt_ids, params))
            await pace.rest()
            late = len(under_way.tokens) - before + len(new.tokens)
            findings.expect(not late, f"{late} tokens were sampled while it was paused")
        await waiting
        while frozen and len(under_way.tokens) == before and not task.done():
            await LoopClock().sleep(pace.tick)
        task.cancel()
    findings.expect(new.tokens, "a request that waited for the end of a pause got no token")


async def _check_publish_under_way(
    findings: Findings,
    engine: TrainableEngine,
    prompt_ids: Sequence[int],
    weights: Weights,
    pace: "_Pace",
) -> None:
    """Publish version 1 after the first token: at least what came before is old."""
    streamed = _Streamed()
    async with asyncio.TaskGroup() as group:
        task = group.create_task(streamed.sample(engine, prompt_ids, pace.long))
        await _first_token(task, streamed)
        old = len(streamed.tokens)
        await engine.publish(weights, 1)
    versions = list(task.result().version_of_each())
    new = versions.count(1)
    findings.expect(
        versions == [0] * (len(versions) - new) + [1] * new and versions[:old] == [0] * old,
        f"publish(…, 1) after {old} of {len(versions)} tokens: they name versions "
        f"{task.result().versions}, expected 0, then 1",
    )
    await _check_version(findings, engine, prompt_ids, 1)


async def _check_publish_in_pause(
    findings: Findings,
    engine: TrainableEngine,
    prompt_ids: Sequence[int],
    weights: Weights,
    pace: "_Pace",
) -> None:
    """Publish version 2 while a completion is frozen: exactly what came before is old."""
    streamed = _Streamed()
    async with asyncio.TaskGroup() as group:
        task = group.create_task(streamed.sample(engine, prompt_ids, pace.long))
        await _first_token(task, streamed)
        async with engine.paused():
            await _until_quiet(task, streamed, pace)
            old = len(streamed.tokens)
            await engine.publish(weights, 2)
    versions = list(task.result().version_of_each())
    findings.expect(
        versions == [1] * old + [2] * (len(versions) - old),
        f"publish(…, 2) in a pause after {old} of {len(versions)} tokens: they name versions "
        f"{task.result().versions}, expected 1 for those before it and 2 for the rest",
    )
    await _check_version(findings, engine, prompt_ids, 2)


async def _check_version(
    findings: Findings, engine: Engine, prompt_ids: Sequence[int], version: int
) -> None:
    completion = await _sample(engine, prompt_ids, SamplingParams(max_tokens=8))
    findings.expect(
        set(completion.version_of_each()) == {version},
        f"after publish(…, {version}) tokens name versions {completion.versions}",
    )


@dataclass(slots=True)
class _Streamed:
    """Tokens of a completion as they come."""

    tokens: list[int] = field(default_factory=list)
    times: list[float] = field(default_factory=list)
    """When the request was made, then when each token came."""

    async def sample(
        self, engine: Engine, prompt_ids: Sequence[int], params: SamplingParams, *, chain: int = 0
    ) -> Completion:
        self.times.append(LoopClock().now())
        return await _sample(engine, prompt_ids, params, chain=chain, on_token=self._add)

    def _add(self, token: int, logprob: float) -> None:
        self.tokens.append(token)
        self.times.append(LoopClock().now())


@dataclass(frozen=True, slots=True, kw_only=True)
class _Pace:
    """Speed of an engine, from which the checks take their waits.

    All waits are counted in ticks, each a sleep of its own: a machine that stands still for a
    while stretches one of them, and the tokens that are due come in the next.
    """

    tick: float
    """Seconds: the longest time between two tokens, at least 0.025."""
    first_token: float
    """Seconds from a request to its first token."""
    long: SamplingParams
    """Parameters of a completion that takes several times as long as it takes to be quiet."""

    async def rest(self) -> None:
        """Wait for longer than an engine that samples needs for a token."""
        ticks = max(_QUIET_TICKS, math.ceil(2 * self.first_token / self.tick))
        for _ in range(ticks):
            await LoopClock().sleep(self.tick)


async def _measure_pace(engine: TrainableEngine, prompt_ids: Sequence[int]) -> _Pace:
    room = int(min(_MOST_TOKENS, engine.context_length - len(prompt_ids)))
    # The first request may have to load a model, or to start a server.
    await _sample(engine, prompt_ids, SamplingParams(max_tokens=1))
    streamed = _Streamed()
    params = SamplingParams(max_tokens=min(room, _MEASURED_TOKENS))
    await streamed.sample(engine, prompt_ids, params)
    begun, *times = streamed.times
    gaps = [after - before for before, after in pairwise(times)]
    tick = max([_LEAST_TICK, *gaps])
    mean = sum(gaps) / len(gaps) if gaps else 0.0
    tokens = math.ceil(4 * _QUIET_TICKS * tick / mean) if mean else room
    return _Pace(
        tick=tick,
        first_token=times[0] - begun if times else 0.0,
        long=SamplingParams(max_tokens=min(room, tokens)),
    )


async def _first_token(task: "asyncio.Task[Completion]", streamed: _Streamed) -> None:
    while not streamed.tokens and not task.done():
        await LoopClock().sleep(0.005)


async def _until_quiet(task: "asyncio.Task[Completion]", streamed: _Streamed, pace: _Pace) -> int:
    """Wait until no more tokens come, or the completion has ended; return for how many ticks."""
    ticks = quiet = 0
    while quiet < _QUIET_TICKS and not task.done():
        before = len(streamed.tokens)
        await LoopClock().sleep(pace.tick)
        ticks += 1
        quiet = quiet + 1 if len(streamed.tokens) == before else 0
    return ticks


async def _check_torn(
    findings: Findings, engine: TrainableEngine, prompt_ids: Sequence[int], torn: Weights
) -> None:
    """Fail to publish: afterwards the engine samples as before, or refuses to sample."""
    greedy = SamplingParams(max_tokens=16, temperature=0)
    before = await _sample(engine, prompt_ids, greedy)
    with findings.error(AgentFlyError, "publishing weights that can't be read"):
        await engine.publish(torn, 3)
    try:
        after = await _sample(engine, prompt_ids, greedy)
    except EngineError:
        return
    findings.expect(
        (after.versions, after.token_ids) == (before.versions, before.token_ids),
        f"a torn update was sampled from: {before.token_ids} of version {before.versions[0][0]} "
        f"before, {after.token_ids} of version {after.versions[0][0]} after",
    )
