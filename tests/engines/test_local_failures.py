"""Cancellation, deadlines, death and closing: every waiter gets a typed end, nothing is left."""

import asyncio
import random
import threading
from collections.abc import Iterator
from typing import Any, cast

import pytest
import torch
from tests.engines.local_models import (
    ask,
    llama,
    named,
    plain_logprobs,
    random_ids,
    request,
    running,
)
from tests.patience import PATIENCE

from agentfly.engines.local import LocalEngine
from agentfly.errors import ConfigError, DeadlineError, EngineError
from agentfly.testing import check_engine
from agentfly.types import (
    NamedTensors,
    SamplingParams,
    SharedTensors,
)

ENDLESS = SamplingParams(max_tokens=900)


async def test_a_cancelled_request_leaves_the_batch() -> None:
    async with running(llama()) as engine:
        task = asyncio.get_running_loop().create_task(ask(engine, random_ids(20), ENDLESS))
        await asyncio.sleep(0.05)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await _settled(engine)
        assert engine.counters["cache_bytes"] == 0
        assert engine.counters["decoded_tokens"] < 900


async def test_a_chain_cancelled_while_it_waits_leaves_no_earlier_turn_behind() -> None:
    async with running(llama()) as engine:
        prompt = random_ids(20)
        await ask(engine, prompt, SamplingParams(max_tokens=4))
        assert engine.counters["cache_bytes"] > 0
        async with engine.paused():
            task = asyncio.get_running_loop().create_task(ask(engine, prompt, ENDLESS))
            await asyncio.sleep(0.01)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
        await _settled(engine)
        assert engine.counters["cache_bytes"] == 0


async def _settled(engine: LocalEngine) -> None:
    """Wait until the engine has run all errands."""
    async with engine.paused():
        pass


async def test_the_deadline_ends_a_request_with_its_own_error() -> None:
    async with running(llama()) as engine:
        with pytest.raises(DeadlineError, match="chain 'c', turn 0"):
            await engine.sample(
                random_ids(20),
                ENDLESS,
                request=request("c"),
                deadline=asyncio.get_running_loop().time() + 0.03,
            )
        await _settled(engine)
        assert engine.counters["cache_bytes"] == 0


async def test_a_deadline_already_past_is_reported_as_such() -> None:
    async with running(llama()) as engine:
        with pytest.raises(DeadlineError, match="turn 0, was asked for after its deadline had"):
            await engine.sample(
                random_ids(20),
                ENDLESS,
                request=request("c"),
                deadline=asyncio.get_running_loop().time() - 1,
            )


async def test_a_thousand_random_cancels_leave_nothing_behind() -> None:
    rng = random.Random(4)
    threads_before = set(threading.enumerate())
    async with running(llama(), max_running=16) as engine:
        prompt = random_ids(30)
        await asyncio.gather(  # noqa: TID251 - exceptions are wanted as values
            *(_cancelled(engine, prompt, i, rng.random() * 0.5) for i in range(1000)),
            return_exceptions=True,
        )
        await _settled(engine)
        assert engine.counters["cache_bytes"] == 0
        assert not engine._core.scheduler.busy
        assert len(engine._core.cache) == 0
        assert len(asyncio.all_tasks()) == 1
        assert not _pending_timers()
        completion = await ask(engine, prompt, SamplingParams(max_tokens=4))
        assert len(completion.token_ids) == 4
    # An idle thread of an earlier test may have ended meanwhile.
    assert not set(threading.enumerate()) - threads_before


async def _cancelled(engine: LocalEngine, prompt: list[int], chain: int, seconds: float) -> None:
    async with asyncio.timeout(seconds):
        await ask(engine, prompt, ENDLESS, request(chain))


def _pending_timers() -> list[Any]:
    loop: Any = asyncio.get_running_loop()
    return [handle for handle in loop._scheduled if not handle.cancelled()]


class Bomb(torch.nn.Module):
    """An activation that raises once it is armed, in whatever copy of the module it sits."""

    armed = False

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if Bomb.armed:
            raise FloatingPointError("boom")
        return torch.nn.functional.silu(x)


async def test_death_of_the_thread_ends_every_waiter(monkeypatch: pytest.MonkeyPatch) -> None:
    model = llama()
    model.model.layers[1].mlp.act_fn = Bomb()
    engine = LocalEngine(model, max_running=2)
    loop = asyncio.get_running_loop()
    tasks = [
        loop.create_task(ask(engine, random_ids(20, seed=i), ENDLESS, request(i))) for i in range(5)
    ]
    await asyncio.sleep(0.05)
    monkeypatch.setattr(Bomb, "armed", True)
    for task in tasks:
        with pytest.raises(EngineError, match="died: FloatingPointError: boom") as caught:
            await task
        assert isinstance(caught.value.__cause__, FloatingPointError)
    with pytest.raises(EngineError, match="died: FloatingPointError: boom"):
        await ask(engine, [1, 2], ENDLESS)
    with pytest.raises(EngineError, match="died"):
        await engine.publish(SharedTensors(), version=1)
    await engine.close()
    assert engine.counters["cache_bytes"] == 0
    assert not [t for t in threading.enumerate() if t.name.startswith("agentfly-engine")]


async def test_closing_ends_every_waiter() -> None:
    engine = LocalEngine(llama())
    task = asyncio.get_running_loop().create_task(ask(engine, random_ids(20), ENDLESS))
    await asyncio.sleep(0.02)
    await engine.close()
    await engine.close()
    with pytest.raises(EngineError, match="closed"):
        await task
    with pytest.raises(EngineError, match="closed"):
        await ask(engine, [1], ENDLESS)
    assert engine.counters["cache_bytes"] == 0


async def test_all_who_close_at_once_are_answered() -> None:
    engine = LocalEngine(llama())
    await ask(engine, random_ids(5), SamplingParams(max_tokens=2))
    async with asyncio.timeout(PATIENCE), asyncio.TaskGroup() as group:
        for _ in range(3):
            group.create_task(engine.close())
    assert not [t for t in threading.enumerate() if t.name.startswith("agentfly-engine")]


def test_one_engine_serves_several_event_loops() -> None:
    engine = LocalEngine(llama())
    prompt = random_ids(20)
    params = SamplingParams(max_tokens=6)
    first = asyncio.run(ask(engine, prompt, params))
    second = asyncio.run(ask(engine, prompt, params))
    asyncio.run(engine.close())
    assert first.token_ids == second.token_ids


def test_a_loop_that_closed_with_a_request_under_way_does_no_harm() -> None:
    engine = LocalEngine(llama())

    async def leave() -> None:
        async with asyncio.timeout(0.02):
            await ask(engine, random_ids(20), ENDLESS)

    with pytest.raises(TimeoutError):
        asyncio.run(leave())
    completion = asyncio.run(ask(engine, random_ids(20), SamplingParams(max_tokens=3)))
    assert len(completion.token_ids) == 3
    asyncio.run(engine.close())


async def test_on_token_hears_every_token_in_the_loops_thread() -> None:
    heard: list[tuple[int, float, int]] = []
    async with running(llama()) as engine:
        completion = await ask(
            engine,
            random_ids(20),
            SamplingParams(max_tokens=9),
            on_token=lambda *token: heard.append((*token, threading.get_ident())),
        )
    assert [h[0] for h in heard] == list(completion.token_ids)
    assert [h[1] for h in heard] == list(completion.logprobs)
    assert {h[2] for h in heard} == {threading.get_ident()}


async def test_an_on_token_that_raises_fails_its_own_request_only() -> None:
    def raises(token_id: int, logprob: float) -> None:
        raise LookupError("mine")

    async with running(llama()) as engine:
        with pytest.raises(LookupError, match="mine"):
            await ask(engine, random_ids(20), ENDLESS, on_token=raises)
        await _settled(engine)
        assert engine.counters["cache_bytes"] == 0
        assert (await ask(engine, random_ids(20), SamplingParams(max_tokens=2))).token_ids


async def test_diverged_weights_fail_the_chain_and_not_the_engine() -> None:
    model = llama()
    async with running(model) as engine:
        broken = {k: torch.full_like(v, torch.nan) for k, v in model.state_dict().items()}
        sane = {k: v.clone() for k, v in model.state_dict().items()}
        await engine.publish(named(broken), version=1)
        with pytest.raises(EngineError, match="version 1: the weights have probably diverged"):
            await ask(engine, random_ids(20), SamplingParams(max_tokens=2))
        await engine.publish(named(sane), version=2)
        assert (await ask(engine, [1, 2], SamplingParams(max_tokens=2))).versions == ((2, 2),)


async def test_weights_that_do_not_fit_are_refused_and_change_nothing() -> None:
    model = llama()
    async with running(model) as engine:
        state = {k: v + 1 for k, v in model.state_dict().items()}
        state.pop("model.norm.weight")
        with pytest.raises(ConfigError, match=r"missing \['model.norm.weight'\]"):
            await engine.publish(named(state), version=1)
        state["model.norm.weight"] = torch.ones(3)
        with pytest.raises(ConfigError, match=r"'model.norm.weight' has shape \(3,\)"):
            await engine.publish(named(state), version=1)
        with pytest.raises(ConfigError, match="got int"):
            await engine.publish(cast(Any, 5), version=1)
        with pytest.raises(ConfigError, match=r"unknown \[3, 'x'\]"):
            await engine.publish(named(cast(Any, {"x": None, 3: None})), version=1)
        completion = await ask(engine, random_ids(9), SamplingParams(max_tokens=3))
    assert completion.versions == ((0, 3),)
    expected = plain_logprobs(llama(), random_ids(9), completion.token_ids)
    assert list(completion.logprobs) == pytest.approx(expected, abs=1e-4)


@pytest.mark.parametrize("value", [None, [1.0], torch.ones(64).numpy()])
async def test_weights_that_are_no_tensors_are_refused_and_change_nothing(value: Any) -> None:
    model = llama()
    state = {k: v + 1 for k, v in model.state_dict().items()} | {"model.norm.weight": value}
    async with running(model) as engine, asyncio.timeout(PATIENCE):
        with pytest.raises(ConfigError, match=r"'model.norm.weight' must be a torch.Tensor, got"):
            await engine.publish(named(state), version=1)
        completion = await ask(engine, random_ids(9), SamplingParams(max_tokens=3))
    assert completion.versions == ((0, 3),)
    expected = plain_logprobs(llama(), random_ids(9), completion.token_ids)
    assert list(completion.logprobs) == pytest.approx(expected, abs=1e-4)


async def test_weights_that_kill_the_thread_fail_whoever_brought_them() -> None:
    model = llama()
    engine = LocalEngine(model)
    # Nothing can be copied out of a tensor without data.
    state = {k: v.to("meta") for k, v in model.state_dict().items()}
    async with asyncio.timeout(PATIENCE):
        with pytest.raises(EngineError, match="the engine's thread died: NotImplementedError"):
            await engine.publish(named(state), version=1)
        with pytest.raises(EngineError, match="the engine's thread died: NotImplementedError"):
            await ask(engine, [1], ENDLESS)
        await engine.close()


async def test_half_of_an_update_in_place_is_never_sampled_from() -> None:
    model = llama()
    state = {k: v + 1 for k, v in model.state_dict().items()}

    def cut_off() -> Iterator[tuple[str, Any]]:
        yield from list(state.items())[:3]
        raise ConnectionError("the node is gone")

    engine = LocalEngine(model)
    async with asyncio.timeout(PATIENCE):
        with pytest.raises(EngineError, match="the engine's thread died: ConnectionError"):
            await engine.publish(NamedTensors(stream=cut_off, in_place=True), version=1)
        with pytest.raises(EngineError, match="the engine's thread died"):
            await ask(engine, [1], ENDLESS)
        await engine.close()


async def test_a_cancelled_pause_does_not_stop_the_engine_for_good() -> None:
    async with running(llama()) as engine:
        async with engine.paused():
            waiting = asyncio.get_running_loop().create_task(_settled(engine))
            await asyncio.sleep(0)
            waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        assert (await ask(engine, random_ids(9), SamplingParams(max_tokens=2))).token_ids


async def test_mistakes_in_a_request_are_reported_at_once() -> None:
    async with running(llama()) as engine:
        with pytest.raises(ConfigError, match="at least one token"):
            await ask(engine, [], ENDLESS)
        with pytest.raises(ConfigError, match="token id 300, expected 0 to 299"):
            await ask(engine, [1, 300], ENDLESS)
        with pytest.raises(ConfigError, match="need a tokenizer"):
            await ask(engine, [1], SamplingParams(stop=("x",)))


@pytest.fixture
def three_threads() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(3)
    yield
    torch.set_num_threads(before)


@pytest.mark.usefixtures("three_threads")
def test_torch_keeps_its_threads_elsewhere() -> None:
    engine = LocalEngine(llama())
    asyncio.run(ask(engine, [1, 2], SamplingParams(max_tokens=2)))
    asyncio.run(engine.close())
    seen: list[int] = []
    thread = threading.Thread(target=lambda: seen.append(torch.get_num_threads()))
    thread.start()
    thread.join()
    assert [torch.get_num_threads(), *seen] == [3, 3]


@pytest.mark.parametrize("deterministic", [False, True])
async def test_it_keeps_the_contract_of_an_engine(deterministic: bool) -> None:
    await check_engine(LocalEngine(llama(), deterministic=deterministic), random_ids(20))
