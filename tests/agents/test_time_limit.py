"""A chain's time limit counts its own time, not what it waits for a lease or in a queue."""

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest
from tests.agents.scripts import Counter, call, engine

from agentfly import Agent, EnvSpec, Limits, StopReason, tool
from agentfly.engines import ScriptedEngine
from agentfly.resources import EnvironmentManager, Pooling
from agentfly.rollout.chain_time import TimeLimit
from agentfly.runtime.clock import LoopClock
from agentfly.testing import run_in_virtual_time
from agentfly.types import Completion, Request, SamplingParams, Seed, Trajectory


def taking(seconds: float, script: Sequence[str]) -> ScriptedEngine:
    return engine(script, latency=lambda _: seconds)


async def run_beside_a_holder(agent_options: dict[str, Any], held: float) -> Trajectory:
    """Run a chain while another holds the only instance for so many seconds."""
    pool = EnvironmentManager({Counter: Pooling(max_instances=1)})
    agent = Agent(pool=pool, **agent_options)

    async def hold() -> None:
        async with pool.lease([EnvSpec(Counter)], owner="another", deadline=1e9):
            await asyncio.sleep(held)

    async with asyncio.TaskGroup() as group:
        group.create_task(hold())
        await asyncio.sleep(0.1)
        (trajectory,) = (await agent.run([{"id": "t", "question": "Go."}], retries=0)).trajectories
    await pool.close()
    return trajectory


@tool
def poke(env: Counter) -> str:
    """Poke it."""
    return env.step("poke").observation


SPEAKS_FIRST = {"environment": Counter, "model": taking(3.0, ["go", "go"])}
HAS_A_TOOL = {"tools": [poke], "model": taking(3.0, [call("poke"), "done"])}


@pytest.mark.parametrize("options", [SPEAKS_FIRST, HAS_A_TOOL])
def test_waiting_for_a_lease_is_not_charged(options: dict[str, Any]) -> None:
    limits = Limits(seconds=10, lease_seconds=200)
    trajectory = run_in_virtual_time(run_beside_a_holder({**options, "limits": limits}, held=100))
    assert trajectory.stop in (StopReason.ENV_ENDED, StopReason.ANSWERED)


@pytest.mark.parametrize("options", [SPEAKS_FIRST, HAS_A_TOOL])
def test_after_a_lease_the_limit_holds_again(options: dict[str, Any]) -> None:
    limits = Limits(seconds=5, lease_seconds=200)
    trajectory = run_in_virtual_time(run_beside_a_holder({**options, "limits": limits}, held=100))
    assert trajectory.stop is StopReason.TIME_LIMIT
    assert "time limit of 5 s ran out while waiting for generate" in str(trajectory.error)


def test_the_time_for_a_lease_begins_with_its_first_need() -> None:
    options = {"tools": [poke], "model": taking(30.0, [call("poke"), "done"])}
    limits = Limits(seconds=100, lease_seconds=20)
    trajectory = run_in_virtual_time(run_beside_a_holder({**options, "limits": limits}, held=45))
    assert trajectory.stop is StopReason.ANSWERED


def run_chains(count: int, *, taking_seconds: float, lease_seconds: float) -> list[StopReason]:
    """Run chains that share one environment, and return how they ended."""
    agent = Agent(
        taking(taking_seconds, [call("poke"), "done"]),
        tools=[poke],
        pool=EnvironmentManager({Counter: Pooling(max_instances=1)}),
        limits=Limits(lease_seconds=lease_seconds),
    )
    tasks = [{"id": str(number), "question": "Go."} for number in range(count)]
    result = run_in_virtual_time(agent.run(tasks, retries=0))
    return sorted(trajectory.stop for trajectory in result.trajectories)


def test_a_chain_waits_for_a_lease_as_long_as_others_get_theirs() -> None:
    assert run_chains(9, taking_seconds=15, lease_seconds=20) == [StopReason.ANSWERED] * 9


def test_a_chain_gives_up_waiting_when_nobody_gets_a_lease() -> None:
    stops = run_chains(3, taking_seconds=25, lease_seconds=20)
    assert stops == [StopReason.ANSWERED, StopReason.LEASE_TIMEOUT, StopReason.LEASE_TIMEOUT]


class Queueing:
    """An engine in which every request waits before it is begun."""

    reports_start = True

    def __init__(self, waits: float, takes: float) -> None:
        self._inner = taking(takes, ["It is 4."])
        self.tokenizer = self._inner.tokenizer
        self._waits = waits

    async def sample(
        self, prompt_ids: Sequence[int], params: SamplingParams, *, request: Request, **how: Any
    ) -> Completion:
        await asyncio.sleep(self._waits)
        assert request.on_started is not None
        request.on_started()
        return await self._inner.sample(prompt_ids, params, request=request, **how)

    async def close(self) -> None:
        await self._inner.close()


@pytest.mark.parametrize(
    ("waits", "takes", "stop", "words"),
    [
        (100, 5, StopReason.ANSWERED, "None"),
        (0, 11, StopReason.TIME_LIMIT, "time limit of 10 s"),
        (100, 11, StopReason.TIME_LIMIT, "time limit of 10 s"),
        (300, 1, StopReason.ENGINE_FAILED, "no room for turn 0 within 200 s"),
    ],
)
def test_waiting_in_an_engines_queue_is_not_charged(
    waits: float, takes: float, stop: StopReason, words: str
) -> None:
    queueing = Queueing(waits, takes)
    renderer = Agent(taking(0.0, [])).model.renderer
    limits = Limits(seconds=10, queue_seconds=200)
    agent = Agent(queueing, renderer=renderer, limits=limits)
    (trajectory,) = run_in_virtual_time(agent.run("2+2?", retries=0)).trajectories
    assert trajectory.stop is stop
    assert words in str(trajectory.error)


class TwoParts(Queueing):
    """One whose turns end in the middle, so that each is sampled in two requests."""

    def goes_on(self, completion: Completion) -> bool:
        self.parts += 1
        return self.parts == 1

    parts = 0


def test_every_request_of_a_turn_may_wait_in_the_queue() -> None:
    queueing = TwoParts(waits=100, takes=4)
    renderer = Agent(taking(0.0, [])).model.renderer
    assert renderer is not None
    renderer.goes_on = queueing.goes_on  # type: ignore[attr-defined]
    agent = Agent(queueing, renderer=renderer, limits=Limits(seconds=10, queue_seconds=200))
    (trajectory,) = run_in_virtual_time(agent.run("2+2?", retries=0)).trajectories
    assert (trajectory.stop, queueing.parts) == (StopReason.ANSWERED, 2)


def test_waits_side_by_side_stop_the_time_once() -> None:
    async def main() -> tuple[float, bool]:
        clock = LoopClock()
        start, limit = clock.now(), TimeLimit(clock, 10)
        first, second = limit.stop(), limit.stop()
        await asyncio.sleep(5)
        first.end()
        first.end()
        await asyncio.sleep(5)
        assert limit.deadline == start + 20, "it moves as long as the time stands still"
        second.end()
        await asyncio.sleep(9)
        return limit.deadline - start, limit.is_over

    assert run_in_virtual_time(main()) == (20, False)


async def test_the_local_engine_reports_when_it_begins() -> None:
    torch = pytest.importorskip("torch")
    from agentfly.engines.local import LocalEngine
    from agentfly.models import load_model, resolve_model

    model = load_model(resolve_model("tiny-random"), dtype=torch.float32, device="cpu")
    local, events = LocalEngine(model, max_running=1), []

    async def sample(name: str) -> None:
        request = Request(
            chain_id=name,
            group_id=name,
            turn=0,
            seed=Seed(0).child(name),
            on_started=lambda: events.append(f"{name} began"),
        )
        params = SamplingParams(max_tokens=4)
        await local.sample([5, 6, 7], params, request=request, deadline=float("inf"))
        events.append(f"{name} ended")

    async with asyncio.TaskGroup() as group:
        for name in ("first", "second"):
            group.create_task(sample(name))
    await local.close()
    assert sorted(events) == ["first began", "first ended", "second began", "second ended"]
    assert events.index("first began") < events.index("second began")
    assert events[0] == "first began"
    assert events[-1] == "second ended"
