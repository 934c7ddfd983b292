"""The connection of this process to a Ray cluster: joined or started, quiet, bounded in time."""

import asyncio
import logging
import os
import socket
from collections.abc import AsyncIterator, Awaitable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager, contextmanager
from typing import Any

import ray
import ray._private.worker

from agentfly.config import ClusterSettings
from agentfly.errors import ConfigError, DeadlineError, boundary

CONNECT_SECONDS = 60.0
"""Time limit of joining or starting a cluster, and of leaving it."""
REACH_SECONDS = 10.0
"""Time limit of reaching the head of a cluster."""
NAMESPACE = "agentfly"

_VARIABLES = {
    "RAY_USAGE_STATS_ENABLED": "0",
    # Ray warns in every process that a later version will behave as this does now.
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",
}
_log = logging.getLogger(__name__)


@asynccontextmanager
async def connected(settings: ClusterSettings) -> AsyncIterator[None]:
    """Join or start the cluster that the settings name, and leave it at the end.

    A program that is connected already stays connected.
    """
    if ray.is_initialized():
        with _messages_logged():
            yield
        return
    for name, value in _VARIABLES.items():
        os.environ.setdefault(name, value)
    loop = asyncio.get_running_loop()
    # A thread of its own: there Ray leaves the handlers of signals alone, and the processes of a
    # cluster that is started here are killed by the kernel when the thread that started them ends.
    thread = ThreadPoolExecutor(1, thread_name_prefix="agentfly-cluster")
    with _messages_logged():
        try:
            await _bounded(loop.run_in_executor(thread, _connect, settings), settings.ray)
            yield
        finally:
            await asyncio.wait(
                [loop.run_in_executor(thread, ray.shutdown)], timeout=CONNECT_SECONDS
            )
            thread.shutdown(wait=False)


def _connect(settings: ClusterSettings) -> None:
    host, colon, port = settings.ray.rpartition(":")
    if colon:
        # Ray itself would try for long, and then end this process.
        socket.create_connection((host, int(port)), timeout=REACH_SECONDS).close()
    ray.init(**_arguments(settings))


async def _bounded(connecting: Awaitable[None], where: str) -> None:
    doing = f"connecting to the Ray cluster {where!r}"
    way_out = (
        'Start one with `ray start --head`, give its address, or write ray = "local" to start '
        "one on this machine"
    )
    try:
        async with asyncio.timeout(CONNECT_SECONDS):
            with boundary(ConfigError, doing):
                await connecting
    except ConfigError as error:
        raise ConfigError(f"{error}. {way_out}") from error
    except TimeoutError as error:
        raise DeadlineError(f"{doing} took more than {CONNECT_SECONDS:g} s. {way_out}") from error


def _arguments(settings: ClusterSettings) -> dict[str, Any]:
    common: dict[str, Any] = {
        "namespace": NAMESPACE,
        "log_to_driver": False,
        "configure_logging": False,
        "runtime_env": settings.runtime_env or None,
    }
    if settings.ray != "local":
        return {**common, "address": settings.ray}
    store = settings.object_store_mb
    return {
        **common,
        "address": "local",
        "include_dashboard": False,
        "num_cpus": settings.cpus,
        "object_store_memory": None if store is None else int(store * 1e6),
    }


@contextmanager
def _messages_logged() -> Iterator[None]:
    """Send what Ray would print, such as the loss of a node, to the log: the terminal is ours."""
    module = ray._private.worker
    printing = module.print_to_stdstream

    def log(data: Mapping[str, Any], *_: object, **__: object) -> None:
        lines = [str(line) for line in data.get("lines", ()) if "[state-dump]" not in str(line)]
        if text := "\n".join(lines).strip():
            _log.info("Ray: %s", text)

    module.print_to_stdstream = log
    try:
        yield
    finally:
        module.print_to_stdstream = printing
