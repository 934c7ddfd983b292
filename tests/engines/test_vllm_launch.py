"""The server as a child process: a stand-in with the command line of `vllm serve`."""

import asyncio
import os
import signal
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from tests.engines import vllm_standin
from tests.engines.test_vllm_engine import sample
from tests.patience import PATIENCE

from agentfly.engines.replicas import ReplicatedEngine
from agentfly.engines.vllm import VllmEngine, VllmServer, start_vllm
from agentfly.errors import ConfigError, DeadlineError, EngineError
from agentfly.runtime.http_client import Endpoint
from agentfly.runtime.http_retry import Retry
from agentfly.types import (
    AdapterFolder,
    SamplingParams,
)

COMMAND = (sys.executable, vllm_standin.__file__)
QUICK = Retry(attempts=2, first_wait=0.01)


async def started(folder: Path, **options: Any) -> VllmServer:
    return await start_vllm(
        "some/model", log=folder / "vllm.log", command=COMMAND, startup_seconds=60, **options
    )


def engine_of(server: VllmServer) -> VllmEngine:
    return VllmEngine(Endpoint(url=server.endpoint.url, retry=QUICK), logprobs="processed")


def is_gone(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    return False


async def test_it_starts_with_what_training_needs_serves_and_ends(tmp_path: Path) -> None:
    async with await started(tmp_path, lora=True) as server:
        engine = engine_of(server)
        await engine.publish(AdapterFolder(path=Path("/runs/1")), 1)
        params = SamplingParams(temperature=0.7, max_tokens=4)
        assert (await sample(engine, params)).versions == ((1, 4),)
        await engine.close()
    said = (tmp_path / "vllm.log").read_text()
    assert '"model":"some/model","host":"127.0.0.1"' in said
    assert '"logprobs_mode":"processed_logprobs","generation_config":"vllm"' in said
    assert '"enable_lora":true' in said
    assert is_gone(server.pid)


async def test_a_server_that_dies_while_starting_says_why(tmp_path: Path) -> None:
    with pytest.raises(EngineError, match=r"exited with code 3.*\n.*CUDA out of memory"):
        await started(tmp_path, arguments=("--fails",))


async def test_a_server_that_never_gets_healthy_is_ended_in_time(tmp_path: Path) -> None:
    begun = time.monotonic()
    with pytest.raises(DeadlineError, match="was not healthy within 3 s"):
        await start_vllm(
            "m",
            log=tmp_path / "vllm.log",
            command=COMMAND,
            arguments=("--sick",),
            startup_seconds=3,
        )
    assert time.monotonic() - begun < PATIENCE


async def test_a_missing_program_is_a_mistake(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"can't be started.*Is the program installed"):
        await start_vllm("m", log=tmp_path / "log", command=("no-such-vllm",))


async def test_kill_9_ends_every_waiter_with_a_typed_error(tmp_path: Path) -> None:
    slow = {"STANDIN_SECONDS_PER_TOKEN": "60"}
    async with await started(tmp_path, environment=slow) as server:
        engine = engine_of(server)
        loop = asyncio.get_running_loop()
        waiters = [loop.create_task(sample(engine)) for _ in range(3)]
        await asyncio.sleep(0.3)
        os.kill(server.pid, signal.SIGKILL)
        begun = time.monotonic()
        for waiter in waiters:
            with pytest.raises(EngineError, match="the connection broke"):
                await waiter
        assert time.monotonic() - begun < PATIENCE
        await engine.close()


async def test_no_chain_is_lost_when_one_of_two_servers_is_killed(tmp_path: Path) -> None:
    slow = {"STANDIN_SECONDS_PER_TOKEN": "0.2"}
    async with (
        await started(tmp_path, environment=slow) as doomed,
        await started(tmp_path, environment=slow) as other,
    ):
        engine = ReplicatedEngine([engine_of(doomed), engine_of(other)])
        loop = asyncio.get_running_loop()
        chains = [loop.create_task(sample(engine, chain=f"t/0/{n}")) for n in range(8)]
        await asyncio.sleep(0.3)
        os.kill(doomed.pid, signal.SIGKILL)
        done = [await task for task in chains]
        assert all(len(completion.token_ids) == 4 for completion in done)
        await engine.close()
