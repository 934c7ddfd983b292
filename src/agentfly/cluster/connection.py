"""The connection of this process to a Ray cluster: joined or started, quiet, bounded in time."""

import asyncio
import functools
import logging
import os
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from typing import Any

import ray
import ray._private.worker

from agentfly.config import ClusterSettings
from agentfly.errors import ConfigError, DeadlineError, boundary
from agentfly.resources.placement.instance import in_manager_thread

CONNECT_SECONDS = 60.0
"""Time limit of joining or starting a cluster, and of leaving it."""
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
    with _messages_logged():
        try:
            await _bounded(functools.partial(ray.init, **_arguments(settings)), settings.ray)
            yield
        finally:
            # Off the main thread, Ray leaves the handlers of signals alone.
            await in_manager_thread(ray.shutdown, "leave the cluster")


async def _bounded(connect: functools.partial[Any], where: str) -> None:
    doing = f"connecting to the Ray cluster {where!r}"
    way_out = (
        'Start one with `ray start --head`, give its address, or write ray = "local" to start '
        "one on this machine"
    )
    try:
        async with asyncio.timeout(CONNECT_SECONDS):
            with boundary(ConfigError, doing):
                await in_manager_thread(connect, "join the cluster")
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
        _log.info("Ray: %s", "\n".join(lines))

    module.print_to_stdstream = log
    try:
        yield
    finally:
        module.print_to_stdstream = printing
