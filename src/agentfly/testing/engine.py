"""Does an engine keep its contract?"""

import asyncio
import math
from collections.abc import Sequence
from dataclasses import replace

from agentfly.errors import DeadlineError, EngineError
from agentfly.runtime.clock import LoopClock
from agentfly.testing.conformance import Findings
from agentfly.types import Completion, Engine, FinishReason, Request, SamplingParams, Seed

_ANSWER_SECONDS = 60.0


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
    with findings.no_error("loading weights"):
        await engine.load_weights(None, 7)
        completion = await _sample(engine, prompt_ids, params)
        findings.expect(
            set(completion.version_of_each()) <= {7},
            f"after load_weights(…, 7) tokens name versions {completion.versions}",
        )
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
) -> Completion:
    request = Request(
        chain_id=f"check/0/{chain}", group_id="check/0", turn=0, seed=Seed(11).child(chain)
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
    completion = await _sample(engine, prompt_ids, params, tokens=streamed)
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
            f"chain {chain} sampled other tokens beside others than alone",
        )
