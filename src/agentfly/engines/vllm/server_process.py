"""A vLLM server: started as a child process and ended with us, or one that runs already."""

import asyncio
import json
import math
import os
import socket
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import BinaryIO, Self

from agentfly.engines.vllm.control import (
    DEV_MODE,
    ENABLE_LORA,
    LOAD_LORA,
    SERVE_OPTIONS,
    Control,
    MissingOptionError,
    ServerInfo,
    missing_option,
    start_command,
)
from agentfly.errors import ConfigError, DeadlineError, EngineError, HttpError
from agentfly.runtime.clock import LoopClock
from agentfly.runtime.http_client import Call, Endpoint, HttpClient, HttpResponse
from agentfly.runtime.http_retry import ONCE
from agentfly.runtime.process import Child, start
from agentfly.types import Clock

POLL_SECONDS = 0.25
"""Seconds between two health checks."""

PROBE_SECONDS = 10.0
"""A health check that takes longer has failed."""

SLOW_PROBE_SECONDS = 60.0
"""The same, where a failure ends a server with requests in flight."""

EXIT_SECONDS = 5.0
"""Seconds for a server that does not answer to exit, before it is called unhealthy."""

DESCRIBE_SECONDS = 300.0
"""Time limit of the first answer: vLLM inspects its machine before, which took up to 24 s."""

WEEK = 7 * 24 * 3600.0

LOG_TAIL = 2000
"""Characters of the log's end that an error message repeats."""

GPU_FILES = (Path("/dev/nvidiactl"), Path("/dev/kfd"))
"""Device files of the drivers for NVIDIA's and AMD's processors."""


def has_gpu() -> bool:
    """Return whether a server that is started here runs on a GPU."""
    return any(file.exists() for file in GPU_FILES)


async def start_vllm(  # noqa: PLR0913 - keyword-only, each a choice of its own
    model: str | Path,
    *,
    log: str | Path,
    port: int | None = None,
    lora: bool = False,
    weight_transfer: str = "nccl",
    arguments: Sequence[str] = (),
    command: Sequence[str] = ("vllm", "serve"),
    environment: Mapping[str, str] | None = None,
    startup_seconds: float = 900.0,
    lifetime: float = WEEK,
    clock: Clock | None = None,
) -> "VllmServer":
    """Start `vllm serve` on this machine, and return when it is healthy.

    Args:
        model: A folder or a hub id.
        log: The file that its output is appended to.
        port: On the loopback interface; by default a free one.
        lora: Whether LoRA adapters will be loaded.
        weight_transfer: vLLM's name of the way that weights come.
        arguments: Further options, such as ("--tensor-parallel-size", "2").
        command: The program.
        environment: Further variables, such as {"CUDA_VISIBLE_DEVICES": "1"}.
        startup_seconds: Time limit for loading the model and becoming healthy.
        lifetime: Seconds after which it is always killed.
        clock: Of the wait; by default the running event loop's.

    Raises:
        ConfigError: There is no such program.
        EngineError: It exited; the message has the end of its log.
        DeadlineError: It did not become healthy in time.
    """
    port = port or _free_port()
    options = (*_options(port, weight_transfer), *((ENABLE_LORA,) if lora else ()))
    with _open(log) as file:
        child = await start(
            [*command, str(model), *options, *arguments],
            name=f"vllm {model}",
            lifetime=lifetime,
            # Its engine is a process of its own, which would keep the GPU's memory.
            guarded=True,
            env={**os.environ, **_environment(lora=lora), **(environment or {})},
            stdout=file,
            stderr=file,
        )
    server = VllmServer(child, Endpoint(url=f"http://127.0.0.1:{port}"), Path(log))
    try:
        await server.become_healthy(startup_seconds, clock or LoopClock())
    except BaseException:
        await server.close()
        raise
    return server


class VllmServer:
    """A running server. Close it, or use it as an asynchronous context manager."""

    def __init__(self, child: Child, endpoint: Endpoint, log: Path) -> None:
        self.endpoint = endpoint
        """Address for engines."""
        self.seeded = has_gpu()
        """Whether it can be sent seeds: on a CPU it may die of one."""
        self.pid = child.pid
        self._child = child
        self._log = log

    async def become_healthy(self, seconds: float, clock: Clock) -> None:
        """Wait until it answers its health check."""
        deadline = clock.now() + seconds
        probe = HttpClient(self.endpoint, clock)
        try:
            while not await _is_healthy(probe, min(deadline, clock.now() + PROBE_SECONDS)):
                self._require_alive()
                if clock.now() >= deadline:
                    raise DeadlineError(
                        f"{self._child.name} was not healthy within {seconds:g} s. "
                        f"{self._last_words()}"
                    )
                await clock.sleep(POLL_SECONDS)
        finally:
            await probe.close()

    async def why_dead(self) -> str | None:
        """Return why it can't answer any more; None while it is healthy."""
        if self._child.returncode is None and await self._answers():
            return None
        # Its connections break before its end can be seen.
        with suppress(TimeoutError):
            async with asyncio.timeout(EXIT_SECONDS):
                await self._child.wait()
        code = self._child.returncode
        how = "runs and is not healthy" if code is None else f"exited with code {code}"
        return f"{self._child.name} {how}; its log is {self._log}"

    async def _answers(self) -> bool:
        clock = LoopClock()
        probe = HttpClient(self.endpoint, clock)
        try:
            return await _is_healthy(probe, clock.now() + SLOW_PROBE_SECONDS)
        finally:
            await probe.close()

    async def close(self) -> None:
        """End it and all its processes."""
        await self._child.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.close()

    def _require_alive(self) -> None:
        code = self._child.returncode
        if code is not None:
            raise EngineError(
                f"{self._child.name} exited with code {code} while it started. {self._last_words()}"
            )

    def _last_words(self) -> str:
        said = self._log.read_bytes()[-LOG_TAIL:].decode(errors="replace").strip()
        return f"Its log, {self._log}, ends with:\n{said}" if said else f"{self._log} is empty"


async def join_vllm(
    endpoint: Endpoint, *, context_length: float, lora_rank: int | None = None
) -> "JoinedServer":
    """Ask a running server how it was started, and refuse one that can't be trained through.

    Args:
        endpoint: Where it is.
        context_length: Longest sequence that will be asked for; infinite where it is not known.
        lora_rank: Value of --max-lora-rank for the adapters that will be loaded; None without any.

    Raises:
        ConfigError: It was started without what training needs.
        EngineError: It can't be reached.
    """
    clock = LoopClock()
    server = HttpClient(endpoint, clock)
    control, deadline = Control(server, lora_rank=lora_rank), clock.now() + DESCRIBE_SECONDS
    try:
        info = await control.describe(deadline=deadline)
        await control.require_token_ids(deadline=deadline)
        _require_lora(endpoint.url, info, lora_rank)
    except MissingOptionError as error:
        raise ConfigError(str(error)) from error
    finally:
        await server.close()
    if info.logprobs_mode != "processed_logprobs":
        raise ConfigError(
            f"{endpoint.url} gives log-probabilities of the kind {info.logprobs_mode!r}, and "
            "training needs 'processed_logprobs'. Start it with: " + start_command(lora_rank)
        )
    if math.isfinite(context_length) and info.max_model_len < context_length:
        raise ConfigError(
            f"{endpoint.url} takes sequences of up to {info.max_model_len} tokens, and chains may "
            f"have {context_length:g}. Lower rollout.context_length, or start it with a larger "
            "--max-model-len"
        )
    return JoinedServer(endpoint, info)


def _require_lora(url: str, info: ServerInfo, lora_rank: int | None) -> None:
    """Raise MissingOptionError unless adapters of this rank can be loaded."""
    if lora_rank is None:
        return
    if info.max_lora_rank is None:
        raise missing_option(url, ENABLE_LORA, lora_rank=lora_rank)
    if not info.loads_lora:
        raise missing_option(url, LOAD_LORA, lora_rank=lora_rank)
    if info.max_lora_rank < lora_rank:
        raise missing_option(url, f"--max-lora-rank {lora_rank}", lora_rank=lora_rank)


class JoinedServer:
    """A running server, as `VllmService` needs it."""

    def __init__(self, endpoint: Endpoint, info: ServerInfo) -> None:
        self.endpoint = endpoint
        self.seeded = info.device != "cpu"

    async def why_dead(self) -> str | None:
        """Return None: whether it comes back is not known here."""
        return None

    async def close(self) -> None:
        """Leave it running."""


async def _is_healthy(server: HttpClient, deadline: float) -> bool:
    try:
        call = Call(method="GET", path="/health")
        await server.request(call, HttpResponse.body, deadline=deadline, retry=ONCE)
    except (HttpError, DeadlineError):
        return False
    return True


def _options(port: int, weight_transfer: str) -> tuple[str, ...]:
    return (
        *("--host", "127.0.0.1", "--port", str(port)),
        *SERVE_OPTIONS,
        *("--weight-transfer-config", json.dumps({"backend": weight_transfer})),
    )


def _environment(*, lora: bool) -> dict[str, str]:
    """Switch on the routes that training needs; they are for the loopback interface only."""
    variables = (DEV_MODE, LOAD_LORA) if lora else (DEV_MODE,)
    return dict(variable.split("=") for variable in variables)


def _open(log: str | Path) -> BinaryIO:
    return Path(log).open("ab")


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port
