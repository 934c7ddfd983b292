"""The connection of this process to a Ray cluster: joined or started, quiet, bounded in time."""

import asyncio
import logging
import os
import socket
from collections.abc import AsyncIterator, Awaitable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager, contextmanager, suppress
from typing import Any

import ray
import ray._private.worker
from ray._common.utils import get_ray_address_file
from ray._private.services import canonicalize_bootstrap_address

from agentfly.config import ClusterSettings
from agentfly.errors import ConfigError, DeadlineError, boundary

CONNECT_SECONDS = 120.0
"""Time limit of joining or starting a cluster, and of leaving it."""
ATTEMPTS = 3
"""Starts of a cluster on this machine, to each of which Ray itself gives 30 s."""
TOO_SLOW = ("timed out during startup", "Timed out waiting for file")
"""What Ray says when its own processes did not start in time."""
REACH_SECONDS = 10.0
"""Time limit of reaching the head of a cluster."""
NAMESPACE = "agentfly"
ADDRESS_VARIABLE = "RAY_ADDRESS"
"""Variable in which Ray looks for the address of a running cluster first."""

TOKEN_NEEDED = (
    "A cluster that asks for a token takes the one in ~/.ray/auth_token of its head: copy that "
    "file to this machine and, to join by an address, set RAY_AUTH_MODE=token"
)

_VARIABLES = {
    "RAY_USAGE_STATS_ENABLED": "0",
    # Ray warns in every process that a later version will behave as this does now.
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",
    # Ray would start workers at 15: environments and engines would starve beside a busy learner.
    "RAY_worker_niceness": "0",
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
        thread = await _joined(settings)
        try:
            yield
        finally:
            await _leave(thread)


async def _joined(settings: ClusterSettings) -> ThreadPoolExecutor:
    """Join or start the cluster; return the thread from which to leave it.

    In a thread of its own Ray leaves the handlers of signals alone. The processes of a cluster that
    is started here are killed by the kernel when the thread that started them ends.
    """
    for attempt in range(ATTEMPTS):
        thread = ThreadPoolExecutor(1, thread_name_prefix="agentfly-cluster")
        connecting = asyncio.get_running_loop().run_in_executor(thread, _connect, settings)
        try:
            await _bounded(connecting, settings.ray)
        except BaseException as error:
            await _leave(thread)
            too_slow = any(said in str(error) for said in TOO_SLOW)
            if not too_slow or attempt == ATTEMPTS - 1:
                raise
            _log.warning("this machine is too busy for Ray to start in time: trying again")
        else:
            return thread
    raise AssertionError("the last attempt raises or returns")


async def _leave(thread: ThreadPoolExecutor) -> None:
    leaving = asyncio.get_running_loop().run_in_executor(thread, ray.shutdown)
    await asyncio.wait([leaving], timeout=CONNECT_SECONDS)
    thread.shutdown(wait=False)


def _connect(settings: ClusterSettings) -> None:
    address = _found_address() if settings.ray == "auto" else settings.ray
    if ":" in address:
        _require_answer(address, f", named by {_places()}," if settings.ray == "auto" else "")
    try:
        # By "auto", not by what was found: Ray sends its token only to clusters it found itself.
        ray.init(**_arguments(settings))
    except ConnectionError as error:
        if settings.ray == "local":
            raise
        raise ConfigError(f"{error}, though {address} answers. {TOKEN_NEEDED}") from error
    _log.info("connected to the Ray cluster at %s", ray.get_runtime_context().gcs_address)


def _require_answer(address: str, named: str) -> None:
    """Raise ConfigError if nothing answers: Ray would try for long, and then end this process."""
    host, _, port = address.rpartition(":")
    try:
        socket.create_connection((host, int(port)), timeout=REACH_SECONDS).close()
    except OSError as error:
        text = f"the Ray cluster at {address}{named} does not answer: {error}"
        raise ConfigError(text) from error


def _found_address() -> str:
    """Return the address of the cluster that runs here, looked for where Ray looks for it."""
    with suppress(ConnectionError):
        if address := canonicalize_bootstrap_address("auto"):
            return str(address)
    raise ConfigError(
        f'ray = "auto" found no running cluster: {_places()} names none, and no head of a cluster '
        "runs on this machine"
    )


def _places() -> str:
    """Return where the address of a running cluster is looked for."""
    return f"{ADDRESS_VARIABLE} or {get_ray_address_file(None)}"


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
