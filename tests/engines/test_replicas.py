"""Several engines behind one: where a chain goes, and what happens when its replica fails."""

import asyncio
import math
from collections import Counter
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from contextlib import asynccontextmanager
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.engines.http_standin import Handler, Received, Reply, standing_in
from tests.engines.vllm_standin import FakeVllm

from agentfly.chat import ByteTokenizer
from agentfly.engines import Endpoint, OpenAICompletions, ScriptedEngine, VllmEngine
from agentfly.engines.replicas import LONGEST_REST, ReplicatedEngine
from agentfly.errors import ConfigError, DeadlineError, EngineError, StaleWeightsError
from agentfly.runtime.clock import LoopClock
from agentfly.runtime.http_retry import Retry
from agentfly.testing import check_engine, run_in_virtual_time
from agentfly.types import (
    Completion,
    FinishReason,
    OnToken,
    Request,
    SamplingParams,
    Seed,
    SharedTensors,
    Weights,
)

SECOND = 1.0


class Replica:
    """An engine that samples its own number after some seconds, or fails on request."""

    def __init__(self, number: int, *, seconds: float = SECOND) -> None:
        self.number = number
        self.seconds = seconds
        self.error: Exception | None = None
        self.fails_after: int | None = None
        """Number of tokens that are streamed before the failure."""
        self.chains: list[str] = []
        self.loaded: list[int] = []
        self.load_error: Exception | None = None
        self.closed = False
        self.most = 0
        self._busy = 0

    async def sample(
        self,
        prompt_ids: Sequence[int],
        params: SamplingParams,
        *,
        request: Request,
        deadline: float,
        on_token: OnToken | None = None,
    ) -> Completion:
        self.chains.append(request.chain_id)
        self._busy += 1
        self.most = max(self.most, self._busy)
        try:
            await asyncio.sleep(self.seconds)
        finally:
            self._busy -= 1
        for _ in range(self.fails_after or 0):
            assert on_token is not None
            on_token(self.number, -1.0)
        if self.error is not None:
            raise self.error
        if on_token is not None:
            on_token(self.number, -1.0)
        return Completion(
            token_ids=(self.number,),
            logprobs=(-1.0,),
            versions=((self.loaded[-1] if self.loaded else 0, 1),),
            finish_reason=FinishReason.STOP,
        )

    context_length: float = math.inf

    @property
    def takes(self) -> frozenset[type[Weights]]:
        return frozenset({SharedTensors})

    @property
    def samples_exactly(self) -> bool:
        return True

    @property
    def shares_tensors(self) -> bool:
        return True

    @asynccontextmanager
    async def paused(self) -> AsyncIterator[None]:
        yield

    async def publish(self, weights: Weights, version: int) -> None:
        await asyncio.sleep(0.1)
        if self.load_error is not None:
            raise self.load_error
        self.loaded.append(version)

    async def close(self) -> None:
        self.closed = True


async def ask(
    engine: ReplicatedEngine, chain: str, on_token: OnToken | None = None, *, seconds: float = 100
) -> int:
    """Return the number of the replica that answered."""
    request = Request(chain_id=chain, group_id="g", turn=0, seed=Seed(0))
    deadline = LoopClock().now() + seconds
    completion = await engine.sample(
        (1,), SamplingParams(), request=request, deadline=deadline, on_token=on_token
    )
    return completion.token_ids[0]


async def ask_all(engine: ReplicatedEngine, chains: Sequence[str]) -> list[int]:
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(ask(engine, chain)) for chain in chains]
    return [task.result() for task in tasks]


def virtual(
    scenario: Callable[[], Coroutine[Any, Any, None]],
) -> Callable[[], None]:
    def test() -> None:
        run_in_virtual_time(scenario())

    test.__name__ = scenario.__name__
    return test


def replicas(count: int) -> tuple[list[Replica], ReplicatedEngine]:
    made = [Replica(number) for number in range(count)]
    return made, ReplicatedEngine(made)


async def test_it_keeps_the_contract_of_an_engine() -> None:
    engines = [ScriptedEngine(["hello"], tokenizer=ByteTokenizer()) for _ in range(3)]
    await check_engine(ReplicatedEngine(engines), (1, 2), params=SamplingParams(max_tokens=4))


@virtual
async def test_new_chains_go_to_the_least_loaded() -> None:
    made, engine = replicas(3)
    made[0].seconds = 10 * SECOND
    async with asyncio.TaskGroup() as group:
        for chain in range(6):
            group.create_task(ask(engine, f"old{chain}"))
        await asyncio.sleep(2 * SECOND)
        # Replica 0 still has its two; the others are free.
        for chain in range(4):
            group.create_task(ask(engine, f"new{chain}"))
    assert [len(replica.chains) for replica in made] == [2, 4, 4]


@virtual
async def test_among_equally_busy_ones_the_one_with_fewer_chains_is_chosen() -> None:
    made, engine = replicas(3)
    for chain in range(9):
        await ask(engine, f"c{chain}")
    assert [len(replica.chains) for replica in made] == [3, 3, 3]


@virtual
async def test_a_chain_stays_with_its_replica_however_busy_that_is() -> None:
    made, engine = replicas(2)
    home = await ask(engine, "a")
    made[home].seconds = 10 * SECOND
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(ask(engine, "a")) for _ in range(5)]
    assert {task.result() for task in tasks} == {home}


@virtual
async def test_a_chain_moves_when_its_replica_fails_and_stays_there() -> None:
    made, engine = replicas(2)
    assert await ask(engine, "a") == 0
    made[0].error = EngineError("died")
    assert await ask(engine, "a") == 1
    made[0].error = None
    await asyncio.sleep(1000)
    assert await ask(engine, "a") == 1
    assert await ask(engine, "b") == 0, "it is used again, for others"


@virtual
async def test_a_failed_replica_is_left_alone_for_longer_and_longer() -> None:
    made, engine = replicas(2)
    made[0].error = EngineError("died")
    made[0].seconds = 0.0
    # The other has many chains, so that replica 0 would be chosen whenever it is up.
    await ask_all(engine, [f"c{n}" for n in range(50)])
    tries = []
    for number in range(400):
        before = len(made[0].chains)
        assert await ask(engine, f"d{number}") == 1
        if len(made[0].chains) > before:
            tries.append(LoopClock().now())
    gaps = [later - earlier for earlier, later in pairwise(tries)]
    assert gaps == sorted(gaps)
    assert gaps[0] < 10
    assert LONGEST_REST <= gaps[-1] <= LONGEST_REST + 2 * SECOND


@virtual
async def test_a_success_wipes_out_earlier_failures() -> None:
    made, engine = replicas(2)
    made[0].seconds = 0.0

    async def rest_after_failure() -> float:
        """Return seconds until replica 0 is asked again."""
        made[0].error = EngineError("died")
        start, count = LoopClock().now(), len(made[0].chains)
        while len(made[0].chains) < count + 2:
            await ask(engine, f"c{LoopClock().now()}")
            await asyncio.sleep(0.1)
        made[0].error = None
        return LoopClock().now() - start

    await ask_all(engine, [f"busy{n}" for n in range(400)])
    first = await rest_after_failure()
    await asyncio.sleep(100)
    assert await ask(engine, "well") == 0
    assert await rest_after_failure() == pytest.approx(first, abs=1.5 * SECOND)


@virtual
async def test_a_request_that_none_can_answer_harms_no_other() -> None:
    made, engine = replicas(3)
    for replica in made:
        replica.error = EngineError("prompt too long")
        replica.seconds = 0.0
    with pytest.raises(EngineError, match=r"replica 0: prompt too long; replica 1: .*replica 2: "):
        await ask(engine, "poison")
    assert [replica.chains for replica in made] == [["poison"]] * 3
    for replica in made:
        replica.error = None
    # All rest at this moment, and are used all the same.
    assert sorted(await ask_all(engine, ["a", "b", "c"])) == [0, 1, 2]


@virtual
async def test_what_was_heard_is_not_said_again_by_another() -> None:
    made, engine = replicas(2)
    made[0].error = EngineError("broke in the middle")
    made[0].fails_after = 2
    heard: list[int] = []
    with pytest.raises(EngineError, match="broke in the middle"):
        await ask(engine, "a", on_token=lambda token, _: heard.append(token))
    assert heard == [0, 0]
    assert made[1].chains == []
    made[0].fails_after = 0
    assert await ask(engine, "b", on_token=lambda token, _: heard.append(token)) == 1


@virtual
async def test_deadlines_and_mistakes_pass_through() -> None:
    made, engine = replicas(2)
    for error in (DeadlineError("too slow"), ConfigError("bad ids")):
        made[0].error = made[1].error = error
        with pytest.raises(type(error)):
            await ask(engine, "a")
    assert len(made[0].chains) + len(made[1].chains) == 2


@virtual
async def test_weights_go_to_all_and_one_without_them_is_not_sampled_from() -> None:
    made, engine = replicas(3)
    await engine.publish(SharedTensors(), 1)
    assert [replica.loaded for replica in made] == [[1]] * 3
    made[0].load_error = EngineError("no memory")
    made[1].load_error = DeadlineError("too slow")
    await engine.publish(SharedTensors(), 2)
    assert set(await ask_all(engine, ["a", "b", "c", "d"])) == {2}
    made[0].load_error = made[1].load_error = None
    await engine.publish(SharedTensors(), 3)
    assert set(await ask_all(engine, ["e", "f", "g"])) == {0, 1, 2}


@virtual
async def test_a_replica_that_comes_back_is_given_the_current_weights_first() -> None:
    made, engine = replicas(2)
    made[0].load_error = EngineError("it is starting again")
    await engine.publish(SharedTensors(), 2)
    made[0].load_error = None
    assert set(await ask_all(engine, ["a", "b"])) == {1}, "its rest is not over"
    await asyncio.sleep(5 * SECOND)
    assert await ask(engine, "c") == 1, "it does not wait for the weights of another"
    assert set(await ask_all(engine, ["d", "e", "f"])) == {0, 1}
    assert [replica.loaded for replica in made] == [[2], [2]]


@virtual
async def test_a_replica_that_was_restarted_is_given_the_current_weights_first() -> None:
    made, engine = replicas(2)
    await engine.publish(SharedTensors(), 2)
    made[0].error = StaleWeightsError("sampled from weights labeled 'default'")
    assert set(await ask_all(engine, ["a", "b"])) == {1}
    made[0].error = None
    assert "lacks the current weights" in engine.troubles[0]
    await asyncio.sleep(5 * SECOND)
    assert await ask(engine, "c") == 1, "it does not wait for the weights of another"
    assert set(await ask_all(engine, ["d", "e", "f"])) == {0, 1}
    assert [replica.loaded for replica in made] == [[2, 2], [2]]


@virtual
async def test_pausing_pauses_all_and_one_that_can_not_is_left_out() -> None:
    class Stubborn(Replica):
        @asynccontextmanager
        async def paused(self) -> AsyncIterator[None]:
            await self.refuse()
            yield

        async def refuse(self) -> None:
            raise EngineError("connection refused")

    engine = ReplicatedEngine([Replica(0), Stubborn(1)])
    async with engine.paused():
        pass
    assert engine.troubles == {
        1: "lacks the current weights: it could not be paused: connection refused"
    }
    assert set(await ask_all(engine, ["a", "b"])) == {0}


@virtual
async def test_one_that_does_not_go_on_after_a_pause_ends_nothing() -> None:
    class Stuck(Replica):
        @asynccontextmanager
        async def paused(self) -> AsyncIterator[None]:
            yield
            raise EngineError("connection refused")

    engine = ReplicatedEngine([Replica(0), Stuck(1)])
    async with engine.paused():
        learned = True
    assert learned
    assert "after a pause: connection refused" in engine.troubles[1]


@virtual
async def test_nobody_comes_back_while_the_weights_may_be_changing() -> None:
    made, engine = replicas(2)
    made[0].load_error = EngineError("restarting")
    await engine.publish(SharedTensors(), 1)
    made[0].load_error = None
    async with engine.paused():
        await asyncio.sleep(5 * SECOND)
        assert await ask(engine, "a") == 1
        assert made[0].loaded == []
    await ask(engine, "b")
    assert made[0].loaded == [1]


@virtual
async def test_all_who_wait_are_answered_by_the_one_that_comes_back() -> None:
    made, engine = replicas(1)
    await engine.publish(SharedTensors(), 1)
    made[0].error = StaleWeightsError("it was started again")
    with pytest.raises(EngineError, match="started again"):
        await ask(engine, "a")
    made[0].error = None
    assert await ask_all(engine, ["a", "b", "c"]) == [0, 0, 0]
    assert made[0].loaded == [1, 1]


class SlowToLoad(Replica):
    """Takes so many seconds for each version."""

    load_seconds = 0.0

    async def publish(self, weights: Weights, version: int) -> None:
        await asyncio.sleep(self.load_seconds)
        await super().publish(weights, version)


@virtual
async def test_a_request_that_gives_up_does_not_tear_the_weights_of_one_that_returns() -> None:
    slow = SlowToLoad(0)
    engine = ReplicatedEngine([slow, Replica(1)])
    slow.load_error = EngineError("restarting")
    await engine.publish(SharedTensors(), 1)
    slow.load_error = None
    slow.load_seconds = 20 * SECOND
    await asyncio.sleep(5 * SECOND)
    begun = LoopClock().now()
    assert await ask(engine, "a", seconds=3 * SECOND) == 1, "the others answer meanwhile"
    assert LoopClock().now() <= begun + SECOND, "the time of a completion"
    await asyncio.sleep(20 * SECOND)
    assert slow.loaded == [1]
    assert not engine.troubles


@virtual
async def test_a_request_waits_until_its_deadline_for_the_only_replica_to_return() -> None:
    slow = SlowToLoad(0)
    engine = ReplicatedEngine([slow])
    slow.load_error = EngineError("restarting")
    with pytest.raises(EngineError):
        await engine.publish(SharedTensors(), 1)
    slow.load_error = None
    slow.load_seconds = 20 * SECOND
    begun = LoopClock().now()
    with pytest.raises(DeadlineError, match="took the weights"):
        await ask(engine, "a", seconds=3 * SECOND)
    assert LoopClock().now() == begun + 3 * SECOND
    await asyncio.sleep(20 * SECOND)
    assert await ask(engine, "a") == 0


@virtual
async def test_weights_that_arrive_late_are_not_taken_for_the_current_ones() -> None:
    slow = SlowToLoad(0)
    engine = ReplicatedEngine([slow, Replica(1)])
    slow.load_error = EngineError("restarting")
    await engine.publish(SharedTensors(), 1)
    slow.load_error = None
    slow.load_seconds = 20 * SECOND
    await asyncio.sleep(5 * SECOND)
    await ask(engine, "a")
    slow.load_seconds = 0.0
    await engine.publish(SharedTensors(), 2)
    await asyncio.sleep(20 * SECOND)
    assert slow.loaded == [2, 1]
    assert engine.troubles == {0: "lacks the current weights: it has version 1"}
    await ask(engine, "b")
    assert slow.loaded == [2, 1, 2]
    assert not engine.troubles


@virtual
async def test_replicas_that_take_no_weights_are_named() -> None:
    completions = OpenAICompletions("http://127.0.0.1:1/v1", model="m")
    with pytest.raises(ConfigError, match="replica 1, a OpenAICompletions, takes no weights"):
        await ReplicatedEngine([Replica(0), completions]).publish(SharedTensors(), 1)


@virtual
async def test_weights_that_none_could_load_are_an_error() -> None:
    made, engine = replicas(2)
    for replica in made:
        replica.load_error = EngineError("no memory")
    with pytest.raises(EngineError, match=r"no replica could take version 4: .*no memory"):
        await engine.publish(SharedTensors(), 4)
    with pytest.raises(EngineError, match="replica 1 lacks the current weights: no memory"):
        await ask(engine, "a")


@virtual
async def test_a_mistake_in_the_weights_is_reported_as_such() -> None:
    made, engine = replicas(2)
    made[1].load_error = ConfigError("which transfer?")
    with pytest.raises(ConfigError, match=r"which transfer\?"):
        await engine.publish(SharedTensors(), 1)


@virtual
async def test_closing_closes_all_even_if_one_can_not() -> None:
    made, engine = replicas(3)

    async def stuck() -> None:
        raise EngineError("stuck")

    made[0].close = stuck  # type: ignore[method-assign]
    with pytest.raises(EngineError, match="stuck"):
        await engine.close()
    assert made[1].closed
    assert made[2].closed
    with pytest.raises(EngineError, match="the engine is closed"):
        await ask(engine, "a")


def test_there_must_be_one() -> None:
    with pytest.raises(ConfigError, match="at least one engine"):
        ReplicatedEngine([])


@virtual
async def test_chains_unheard_of_for_long_are_forgotten() -> None:
    _, engine = replicas(2)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("agentfly.engines.replicas.REMEMBERED_CHAINS", 3)
        for chain in range(10):
            await ask(engine, f"c{chain}")
    assert sorted(engine._assigned) == ["c7", "c8", "c9"]
    assert sum(replica.chains for replica in engine._replicas) == 3


@settings(max_examples=50)
@given(
    outages=st.lists(st.tuples(st.integers(0, 2), st.floats(0, 20), st.floats(0.1, 5)), max_size=6),
    chains=st.integers(1, 12),
)
def test_no_request_is_lost_while_one_replica_lives(
    outages: list[tuple[int, float, float]], chains: int
) -> None:
    """Replicas 0 to 2 come and go; replica 3 is always there."""

    async def main() -> None:
        made, engine = replicas(4)

        async def outage(number: int, start: float, length: float) -> None:
            await asyncio.sleep(start)
            made[number].error = EngineError("away")
            await asyncio.sleep(length)
            made[number].error = None

        async def chain(name: str) -> None:
            for _ in range(10):
                await ask(engine, name)

        async with asyncio.TaskGroup() as group:
            for number, start, length in outages:
                group.create_task(outage(number, start, length))
            for number in range(chains):
                group.create_task(chain(f"c{number}"))
        asked = Counter(name for replica in made for name in replica.chains)
        assert all(asked[f"c{number}"] >= 10 for number in range(chains))
        assert all(replica.under_way == 0 for replica in engine._replicas)
        if not outages:
            assert set(asked.values()) == {10}

    run_in_virtual_time(main())


@virtual
async def test_after_a_rest_one_request_tries_and_the_others_do_not_wait_for_it() -> None:
    made, engine = replicas(2)
    made[0].error = EngineError("died")
    made[0].seconds = 0.0
    await ask_all(engine, [f"c{n}" for n in range(50)])
    asked = len(made[0].chains)
    made[0].seconds = 20 * SECOND
    await asyncio.sleep(5 * SECOND)
    start = LoopClock().now()
    async with asyncio.TaskGroup() as group:
        trial = group.create_task(ask(engine, "d0"))
        await asyncio.sleep(0.1)
        others = [group.create_task(ask(engine, f"d{n}")) for n in range(1, 30)]
        await asyncio.wait(others)
        assert LoopClock().now() - start < 10 * SECOND
    assert len(made[0].chains) == asked + 1
    assert {trial.result(), *(task.result() for task in others)} == {1}


@virtual
async def test_a_trial_that_is_answered_brings_a_replica_back_for_all() -> None:
    made, engine = replicas(2)
    made[0].error = EngineError("died")
    await ask(engine, "a")
    made[0].error = None
    await asyncio.sleep(5 * SECOND)
    assert await ask(engine, "trial") == 0
    assert sorted(await ask_all(engine, ["b", "c", "d", "e"])) == [0, 0, 1, 1]


@virtual
async def test_a_trial_that_is_cancelled_makes_place_for_the_next() -> None:
    made, engine = replicas(2)
    made[0].error = EngineError("died")
    await ask(engine, "a")
    made[0].error = None
    await asyncio.sleep(5 * SECOND)
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.5 * SECOND):
            await ask(engine, "impatient")
    assert await ask(engine, "b") == 0


@virtual
async def test_troubles_say_which_replica_is_out_of_use_and_why() -> None:
    made, engine = replicas(3)
    assert engine.troubles == {}
    made[0].error = EngineError("connection refused")
    made[2].load_error = EngineError("no memory")
    await engine.publish(SharedTensors(), 1)
    await ask(engine, "a")
    assert engine.troubles == {
        0: "down (failures in a row: 1): connection refused",
        2: "lacks the current weights: no memory",
    }
    made[0].error = made[2].load_error = None
    await engine.publish(SharedTensors(), 2)
    await asyncio.sleep(5 * SECOND)
    await ask(engine, "b")
    assert engine.troubles == {}


def test_the_context_is_as_long_as_the_shortest_of_all() -> None:
    class Short(Replica):
        context_length = 4096

    assert ReplicatedEngine([Replica(0)]).context_length == math.inf
    assert ReplicatedEngine([Replica(0), Short(1)]).context_length == 4096
    vllm = VllmEngine("http://127.0.0.1:1", context_length=2048)
    completions = OpenAICompletions("http://127.0.0.1:1/v1", model="m", context_length=1024)
    assert ReplicatedEngine([Short(0), vllm]).context_length == 2048
    assert ReplicatedEngine([vllm, completions]).context_length == 1024


def over_http(urls: Sequence[str], attempts: int = 3) -> ReplicatedEngine:
    retry = Retry(attempts=attempts, first_wait=0.01)
    return ReplicatedEngine([VllmEngine(Endpoint(url=url, retry=retry)) for url in urls])


def unavailable(moments: list[str]) -> Handler:
    async def refuse(received: Received, reply: Reply) -> None:
        moments.append(received.path)
        await reply.json({"error": "starting"}, status=503)

    return refuse


async def test_one_unavailability_is_enough_while_another_replica_is_up() -> None:
    refused: list[str] = []
    async with standing_in(unavailable(refused)) as down, standing_in(FakeVllm()) as up:
        engine = over_http([down.url, up.url])
        await ask(engine, "a")
        await engine.close()
    assert len(refused) == 1


async def test_the_last_replica_gets_all_its_attempts() -> None:
    first: list[str] = []
    last: list[str] = []
    async with standing_in(unavailable(first)) as one, standing_in(unavailable(last)) as two:
        engine = over_http([one.url, two.url])
        with pytest.raises(EngineError, match="attempt 3 of 3"):
            await ask(engine, "a")
        await engine.close()
    assert (len(first), len(last)) == (1, 3)
