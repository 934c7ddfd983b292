"""A vLLM server is started when it is needed, and again when it has died."""

import asyncio
import gc
import os
import signal
import stat
import sys
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.engines import vllm_standin
from tests.engines.http_standin import Received, Reply, standing_in
from tests.engines.test_vllm_engine import PROMPT, sample
from tests.engines.test_vllm_weights import WHOLE, torn_folder, weights_folder
from tests.engines.vllm_standin import FakeVllm
from tests.patience import PATIENCE, until

from agentfly.config import EngineSettings
from agentfly.engines import EngineSpec, make_engine
from agentfly.engines.vllm.server_process import VllmServer
from agentfly.engines.vllm.service import VllmService
from agentfly.errors import ConfigError, DeadlineError, EngineError, StaleWeightsError
from agentfly.runtime.clock import LoopClock
from agentfly.testing import check_trainable_engine
from agentfly.types import AdapterFolder, Request, SamplingParams, Seed, WeightsFolder

LONG = SamplingParams(max_tokens=400)


@pytest.fixture
def python(tmp_path: Path) -> str:
    """Return an interpreter that runs the stand-in instead of vLLM's module."""
    script = tmp_path / "python"
    # `python -m vllm.entrypoints.openai.api_server --model FOLDER …`
    script.write_text(
        f'#!/bin/sh\n[ "$2" = vllm.entrypoints.openai.api_server ] || exit 9\n'
        f'shift 3\nexec {sys.executable} {vllm_standin.__file__} "$@"\n'
    )
    script.chmod(script.stat().st_mode | stat.S_IXUSR)
    return str(script)


def delay(python: str) -> None:
    """Have each start say so, and take a second more."""
    script = Path(python)
    script.write_text(script.read_text().replace("shift 3", "echo begun; sleep 1; shift 3"))


@pytest.fixture
def folder(tmp_path: Path) -> WeightsFolder:
    return weights_folder(tmp_path, *WHOLE)


@asynccontextmanager
async def service(tmp_path: Path, **choices: Any) -> AsyncIterator[VllmService]:
    spec = EngineSpec(
        folder=tmp_path,
        load=lambda dtype: None,
        settings=EngineSettings(name="vllm", **choices),
        context_length=512,
        log_folder=tmp_path,
    )
    engine = make_engine(spec)
    assert isinstance(engine, VllmService)
    try:
        yield engine
    finally:
        await engine.close()


def pid_of(engine: VllmService) -> int:
    assert isinstance(engine._server, VllmServer)
    return engine._server.pid


def own_folders(tmp_path: Path) -> list[Path]:
    return list(tmp_path.glob("agentfly-vllm-*"))


def log_of(tmp_path: Path) -> str:
    file = tmp_path / "vllm.log"
    return file.read_text() if file.exists() else ""


@pytest.mark.parametrize("how", ["lacks a tensor", "is cut"])
async def test_it_keeps_the_contract(
    tmp_path: Path, python: str, folder: WeightsFolder, how: str
) -> None:
    slow = {"STANDIN_SECONDS_PER_TOKEN": "0.01"}
    torn = torn_folder(tmp_path / "torn", how)
    async with service(tmp_path, python=python, variables=slow) as engine:
        await check_trainable_engine(engine, PROMPT, lambda version: folder, torn=torn)


async def test_it_starts_at_the_first_request_with_what_the_spec_says(
    tmp_path: Path, python: str
) -> None:
    async with service(tmp_path, python=python, concurrency=7) as engine:
        assert not (tmp_path / "vllm.log").exists()
        assert len((await sample(engine)).token_ids) == 4
        pid = pid_of(engine)
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)
    assert f'"model":"{tmp_path}"' in log_of(tmp_path)


async def test_killed_it_is_started_again_with_the_current_weights(
    tmp_path: Path, python: str, folder: WeightsFolder
) -> None:
    slow = {"STANDIN_SECONDS_PER_TOKEN": "0.05"}
    async with service(tmp_path, python=python, variables=slow) as engine:
        await engine.publish(folder, 3)
        heard: list[int] = []
        loop = asyncio.get_running_loop()
        under_way = [
            loop.create_task(sample(engine, LONG, lambda t, _: heard.append(t))) for _ in range(3)
        ]
        await until(lambda: heard)
        os.kill(pid_of(engine), signal.SIGKILL)
        for task in under_way:
            with pytest.raises(EngineError, match=r"The server died: .* exited with code -9"):
                await task
        async with asyncio.TaskGroup() as group:
            again = [group.create_task(sample(engine)) for _ in range(3)]
        assert {task.result().versions for task in again} == {((3, 4),)}
    assert log_of(tmp_path).count("listening") == 2, "one start for all who wait"


async def test_killed_while_nobody_asks_it_is_started_for_the_next_publish(
    tmp_path: Path, python: str, folder: WeightsFolder
) -> None:
    async with service(tmp_path, python=python) as engine:
        await engine.publish(folder, 1)
        os.kill(pid_of(engine), signal.SIGKILL)
        await engine.publish(folder, 2)
        assert (await sample(engine)).versions == ((2, 4),)


async def test_without_a_folder_its_log_goes_with_it(
    tmp_path: Path, python: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    settings = EngineSettings(name="vllm", python=python)
    engine = make_engine(EngineSpec(folder=tmp_path, load=lambda dtype: None, settings=settings))
    await sample(engine)
    assert own_folders(tmp_path)
    await engine.close()
    del engine
    gc.collect()
    assert not own_folders(tmp_path)


async def test_a_start_that_failed_is_not_tried_by_everybody(tmp_path: Path, python: str) -> None:
    async with service(tmp_path, python=python, arguments=("--fails",)) as engine:
        with pytest.raises(EngineError, match="CUDA out of memory"):
            await sample(engine)
        with pytest.raises(EngineError, match=r"could not be started: .*exited with code 3"):
            await sample(engine)
    assert log_of(tmp_path).count("CUDA out of memory") == 1


async def test_a_joined_server_that_was_started_again_gets_the_weights(
    tmp_path: Path, folder: WeightsFolder
) -> None:
    fake = FakeVllm()
    async with standing_in(fake) as server, service(tmp_path, urls=(server.url,)) as engine:
        await engine.publish(folder, 5)
        assert (await sample(engine)).versions == ((5, 4),)
        fake.label = "default"
        with pytest.raises(StaleWeightsError):
            await sample(engine)
        assert (await sample(engine)).versions == ((5, 4),)
        await engine.close()
        assert await server.all_hung_up()
    assert fake.reloaded == [str(folder.path)] * 2


async def test_a_joined_server_that_lost_its_adapter_gets_it_again(tmp_path: Path) -> None:
    adapter = AdapterFolder(path=tmp_path)
    fake = FakeVllm()
    async with standing_in(fake) as server:
        spec = EngineSpec(
            folder=tmp_path,
            load=lambda dtype: None,
            settings=EngineSettings(name="vllm", urls=(server.url,)),
            lora_rank=4,
        )
        engine = make_engine(spec)
        await engine.publish(adapter, 1)
        fake.adapters.clear()
        fake.label = "default"
        with pytest.raises(StaleWeightsError, match="does not know the adapter 'policy'"):
            await sample(engine)
        assert (await sample(engine)).versions == ((1, 4),)
        await engine.close()


@pytest.mark.parametrize(("device", "seeded"), [("cpu", False), ("cuda", True)])
async def test_a_server_on_a_cpu_gets_no_seeds(tmp_path: Path, device: str, seeded: bool) -> None:
    fake = FakeVllm()
    fake.device = device
    async with standing_in(fake) as server, service(tmp_path, urls=(server.url,)) as engine:
        await sample(engine)
    assert [seed is not None for seed in fake.seeds] == [seeded]


async def test_a_server_that_gives_other_logprobs_is_refused(tmp_path: Path) -> None:
    fake = FakeVllm()
    fake.logprobs_mode = "raw_logprobs"
    async with standing_in(fake) as server, service(tmp_path, urls=(server.url,)) as engine:
        with pytest.raises(ConfigError, match=r"'raw_logprobs'.*--logprobs-mode processed_logp"):
            await sample(engine)


WITHOUT = {
    "dev_mode": (False, "VLLM_SERVER_DEV_MODE=1"),
    "scale_out": (False, "--enable-scale-out"),
    "max_lora_rank": (None, "--enable-lora"),
    "loads_lora": (False, "VLLM_ALLOW_RUNTIME_LORA_UPDATING=1"),
}
"""Options of the stand-in: as they are without an option of vLLM, and its name."""
START = (
    "VLLM_SERVER_DEV_MODE=1 VLLM_ALLOW_RUNTIME_LORA_UPDATING=1 vllm serve MODEL --logprobs-mode "
    "processed_logprobs --generation-config vllm --enable-scale-out --enable-lora "
    "--max-lora-rank 8"
)


@pytest.mark.parametrize("option", WITHOUT)
async def test_joining_a_server_that_lacks_an_option_names_it(tmp_path: Path, option: str) -> None:
    fake = FakeVllm()
    value, name = WITHOUT[option]
    setattr(fake, option, value)
    async with standing_in(fake) as server:
        spec = EngineSpec(
            folder=tmp_path,
            load=lambda dtype: None,
            settings=EngineSettings(name="vllm", urls=(server.url,)),
            lora_rank=8,
        )
        with pytest.raises(ConfigError) as raised:
            await sample(make_engine(spec))
    said, start = str(raised.value).split(". Start it with: ")
    assert said.startswith(f"{server.url} was started without {name}, which training needs")
    assert start == START


async def test_joining_a_server_that_forbids_asks_for_the_key(tmp_path: Path) -> None:
    async def handler(received: Received, reply: Reply) -> None:
        if received.path == "/inference/v1/generate":
            await reply.json({"detail": "Forbidden"}, 403)
        else:
            await fake(received, reply)

    fake = FakeVllm()
    async with standing_in(handler) as server, service(tmp_path, urls=(server.url,)) as engine:
        with pytest.raises(EngineError, match="api_key_env"):
            await engine.publish(WeightsFolder(path=tmp_path), 1)


async def test_joining_a_server_for_smaller_adapters_names_the_rank(tmp_path: Path) -> None:
    async with standing_in(FakeVllm()) as server:
        spec = EngineSpec(
            folder=tmp_path,
            load=lambda dtype: None,
            settings=EngineSettings(name="vllm", urls=(server.url,)),
            lora_rank=20,
        )
        with pytest.raises(ConfigError, match="started without --max-lora-rank 32"):
            await sample(make_engine(spec))


async def test_a_server_for_shorter_chains_is_refused(tmp_path: Path) -> None:
    async with standing_in(FakeVllm()) as server:
        spec = EngineSpec(
            folder=tmp_path,
            load=lambda dtype: None,
            settings=EngineSettings(name="vllm", urls=(server.url,)),
            context_length=1024,
        )
        with pytest.raises(ConfigError, match="up to 512 tokens, and chains may have 1024"):
            await sample(make_engine(spec))


async def test_closed_while_it_starts_nothing_is_left(tmp_path: Path, python: str) -> None:
    async with service(tmp_path, python=python, arguments=("--sick",)) as engine:
        waiting = asyncio.get_running_loop().create_task(sample(engine))
        await until(lambda: "listening" in log_of(tmp_path))
        async with asyncio.timeout(PATIENCE):
            await engine.close()
            with pytest.raises(EngineError, match="closed"):
                await waiting


async def test_a_start_outlives_the_requests_that_wait_for_it(tmp_path: Path, python: str) -> None:
    """Or no server that starts slowly would ever come up again in the middle of a run."""
    delay(python)
    clock = LoopClock()
    request = Request(chain_id="a", group_id="a", turn=0, seed=Seed(0))
    async with service(tmp_path, python=python) as engine:
        with pytest.raises(DeadlineError, match="was not ready within"):
            await engine.sample(PROMPT, LONG, request=request, deadline=clock.now() + 0.3)
        await sample(engine)
    assert log_of(tmp_path).count("begun") == 1


async def test_killed_in_a_pause_it_samples_nothing_before_its_end(
    tmp_path: Path, python: str, folder: WeightsFolder
) -> None:
    async with service(tmp_path, python=python) as engine, asyncio.TaskGroup() as group:
        await engine.publish(folder, 1)
        async with engine.paused():
            os.kill(pid_of(engine), signal.SIGKILL)
            assert engine._engine is not None
            await engine._why_dead(engine._engine)
            waiting = group.create_task(sample(engine))
            await until(lambda: log_of(tmp_path).count("listening") == 2)
            await asyncio.sleep(0.3)
            assert not waiting.done(), "sampled in a pause"
        assert (await waiting).versions == ((1, 4),)


async def test_a_server_that_has_died_can_be_paused(
    tmp_path: Path, python: str, folder: WeightsFolder
) -> None:
    async with service(tmp_path, python=python) as engine:
        await engine.publish(folder, 1)
        os.kill(pid_of(engine), signal.SIGKILL)
        async with engine.paused():
            await engine.publish(folder, 2)
        assert (await sample(engine)).versions == ((2, 4),)


async def test_an_adapter_of_a_rank_that_no_server_takes_is_refused(
    tmp_path: Path, python: str
) -> None:
    settings = EngineSettings(name="vllm", python=python)
    spec = EngineSpec(
        folder=tmp_path,
        load=lambda dtype: None,
        settings=settings,
        lora_rank=1024,
        log_folder=tmp_path,
    )
    engine = make_engine(spec)
    with pytest.raises(ConfigError, match=r"rank 512 at most, got 1024: lower model\.lora\.rank"):
        await sample(engine)
    await engine.close()
