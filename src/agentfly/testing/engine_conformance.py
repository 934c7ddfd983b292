"""Conformance checkers for engines and for trainable engines."""

import asyncio
import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import cast

from agentfly.errors import AgentFlyError, ConfigError, DeadlineError, EngineError
from agentfly.runtime.clock import LoopClock
from agentfly.testing.conformance import Findings
from agentfly.types import (
    Completion,
    Engine,
    FinishReason,
    Request,
    SamplingParams,
    Seed,
    TrainableEngine,
    Weights,
)

_ANSWER_SECONDS = 60.0
_PAUSE_SECONDS = 0.2
"""Duration of a pause during which no token may be sampled."""


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
    tokens: list[int] | None = None,
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
            on_token=None if tokens is None else lambda token, _: tokens.append(token),
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
        tokens=streamed,
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
    with findings.no_error("pausing"):
        await _check_pause(findings, engine, prompt_ids)
    with findings.no_error("publishing between two completions"):
        await engine.publish(weights, 1)
        completion = await _sample(engine, prompt_ids, SamplingParams(max_tokens=8))
        findings.expect(
            set(completion.version_of_each()) == {1},
            f"after publish(…, 1) tokens name versions {completion.versions}",
        )
    with findings.no_error("publishing in the middle of a completion"):
        await _check_publish_under_way(findings, engine, prompt_ids, publish_as(2))
    if torn is not None:
        with findings.no_error("sampling before and after weights that can't be read"):
            await _check_torn(findings, engine, prompt_ids, torn)
    with findings.error(ConfigError, "publishing None"):
        await engine.publish(cast(Weights, None), 3)
    await engine.close()
    findings.report()


async def _check_pause(
    findings: Findings, engine: TrainableEngine, prompt_ids: Sequence[int]
) -> None:
    tokens: list[int] = []
    params = SamplingParams(max_tokens=8)
    async with asyncio.TaskGroup() as group:
        async with engine.paused():
            waiting = group.create_task(_sample(engine, prompt_ids, params, tokens=tokens))
            await LoopClock().sleep(_PAUSE_SECONDS)
            findings.expect(not tokens, f"{len(tokens)} tokens were sampled while it was paused")
        await waiting
    findings.expect(bool(tokens), "a request that waited for the end of a pause got no token")


async def _check_publish_under_way(
    findings: Findings, engine: TrainableEngine, prompt_ids: Sequence[int], weights: Weights
) -> None:
    """Publish after the first token: a prefix of the tokens is old, the rest is new."""
    tokens: list[int] = []
    params = SamplingParams(max_tokens=64)
    async with asyncio.TaskGroup() as group:
        under_way = group.create_task(_sample(engine, prompt_ids, params, tokens=tokens))
        while not tokens and not under_way.done():
            await LoopClock().sleep(0.005)
        await engine.publish(weights, 2)
    versions = [version for version, _ in under_way.result().versions]
    findings.expect(
        versions in ([1, 2], [1], [2]), f"a completion names versions {versions}, expected 1 then 2"
    )
    after = await _sample(engine, prompt_ids, SamplingParams(max_tokens=8))
    findings.expect(set(after.version_of_each()) == {2}, f"after it: {after.versions}")


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
