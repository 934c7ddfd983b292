"""Tool-bound rollouts against an ideal schedule of the very same draws.

2,000 chains of 1 to 8 turns, 512 at once. Every latency is drawn in advance from a seed, so that a
discrete-event replay with zero overhead tells how fast these chains could possibly have been. The
CPU of the framework is that of the run less that of the same waits without a framework.

Run with `make bench-rollout`.
"""

import asyncio
import contextlib
import heapq
import json
import math
import resource
import time
from dataclasses import dataclass

from benchmarks.report import report

from agentfly import Agent, Context, ScriptedEngine, ToolResult, tool
from agentfly.chat import CHATML_TOKENS, ByteTokenizer
from agentfly.engines import ScriptedTurn
from agentfly.types import Seed, StopReason, ToolStatus, Trajectory

ROWS, CHAINS_PER_ROW = 250, 8
CONCURRENCY = 512
TOOL_DEADLINE = 2.0
HANGING = 0.02
CLOSE_CALL = 0.25
"""A wait this near to its deadline may end either way on a busy machine."""
SEED = Seed(2026)


@dataclass(frozen=True, slots=True)
class Draws:
    """What one chain will meet: seconds of generation per turn, and of the tool between turns."""

    generation: tuple[float, ...]
    tools: tuple[float, ...]

    @property
    def seconds(self) -> float:
        return sum(self.generation) + sum(min(wait, TOOL_DEADLINE) for wait in self.tools)


def draw(chain_id: str) -> Draws:
    rng = SEED.child(chain_id).random()
    turns = rng.randint(1, 8)

    def log_normal(mean: float, sigma: float) -> float:
        return rng.lognormvariate(math.log(mean) - sigma**2 / 2, sigma)

    return Draws(
        generation=tuple(log_normal(0.2, 0.5) for _ in range(turns)),
        tools=tuple(
            math.inf if rng.random() < HANGING else log_normal(0.1, 1.2) for _ in range(turns - 1)
        ),
    )


ROWS_OF_TASKS = [{"id": f"task-{row}", "question": "How long?"} for row in range(ROWS)]
DRAWS = {
    chain: draw(chain)
    for chain in (f"task-{row}/0/{i}" for row in range(ROWS) for i in range(CHAINS_PER_ROW))
}
CALL = (
    "<tool_call>\n" + json.dumps({"name": "wait", "arguments": {"reason": "so"}}) + "\n</tool_call>"
)


def script(turn: ScriptedTurn) -> str:
    last = turn.request.turn == len(DRAWS[turn.request.chain_id].generation) - 1
    return "It took a while." if last else CALL


@tool(timeout=TOOL_DEADLINE)
async def wait(reason: str, context: Context) -> str:
    """Wait for as long as was drawn.

    Args:
        reason: Why to wait.
    """
    assert context.chain_id is not None
    await asyncio.sleep(DRAWS[context.chain_id].tools[context.turn])
    return f"Waited, {reason}."


class DrawnLatency(ScriptedEngine):
    """Takes exactly as long for each turn as was drawn for it."""

    async def sample(self, prompt_ids, params, *, request, deadline, on_token=None):  # type: ignore[no-untyped-def] # noqa: ANN001, ANN201
        completion = await super().sample(
            prompt_ids, params, request=request, deadline=deadline, on_token=on_token
        )
        await asyncio.sleep(DRAWS[request.chain_id].generation[request.turn])
        return completion


def ideal_makespan() -> float:
    """Replay the draws in order of admission, with as many places and no overhead."""
    free_at = [0.0] * CONCURRENCY
    for drawn in DRAWS.values():
        heapq.heappush(free_at, heapq.heappop(free_at) + drawn.seconds)
    return max(free_at)


async def only_wait() -> None:
    """Wait for all that was drawn, 512 chains at once, without any framework."""
    places = asyncio.Semaphore(CONCURRENCY)

    async def one(drawn: Draws) -> None:
        for turn, seconds in enumerate(drawn.generation):
            await asyncio.sleep(seconds)
            if turn < len(drawn.tools):
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(TOOL_DEADLINE):
                        await asyncio.sleep(drawn.tools[turn])
        places.release()

    async with asyncio.TaskGroup() as group:
        for drawn in DRAWS.values():
            await places.acquire()
            group.create_task(one(drawn))


def cpu_of_waiting() -> float:
    """Return the CPU seconds that the simulated latencies alone take."""
    before = time.process_time()
    asyncio.run(only_wait())
    return time.process_time() - before


def verify(trajectories: tuple[Trajectory, ...]) -> int:
    """Check that every chain did what was drawn for it; return the number of turns."""
    for trajectory in trajectories:
        drawn = DRAWS[trajectory.chain_id]
        assert trajectory.stop is StopReason.ANSWERED, trajectory
        assert len(trajectory.turns) == len(drawn.generation)
        results: list[ToolResult] = [r for turn in trajectory.turns for r in turn.results]
        for result, seconds in zip(results, drawn.tools, strict=True):
            if abs(seconds - TOOL_DEADLINE) > CLOSE_CALL:
                hung = seconds > TOOL_DEADLINE
                assert result.status is (ToolStatus.TIMEOUT if hung else ToolStatus.OK), result
    return sum(len(trajectory.turns) for trajectory in trajectories)


def main() -> None:
    engine = DrawnLatency(script, tokenizer=ByteTokenizer(CHATML_TOKENS))
    agent = Agent(engine, tools=[wait], max_turns=8)
    wall, cpu = time.perf_counter(), time.process_time()
    result = agent.run_sync(
        ROWS_OF_TASKS, num_chains=CHAINS_PER_ROW, max_concurrent_chains=CONCURRENCY
    )
    wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    turns = verify(result.trajectories)
    ideal = ideal_makespan()
    waiting = cpu_of_waiting()
    print(f"{len(result.trajectories)} chains, {turns} turns, {CONCURRENCY} at once")
    report(
        "rollout",
        {
            "makespan_s": wall,
            "replay_s": ideal,
            "makespan_over_replay": wall / ideal,
            "cpu_ms_per_turn": 1000 * (cpu - waiting) / turns,
            "simulation_cpu_ms_per_turn": 1000 * waiting / turns,
            "peak_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
        },
        aims={"makespan_over_replay": "≤ 1.05", "cpu_ms_per_turn": "≤ 0.4", "peak_mb": "< 500"},
    )


if __name__ == "__main__":
    main()
