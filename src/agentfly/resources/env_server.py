"""Serve an environment: `environment_server` while a block runs, `serve_environment` forever."""

import asyncio
import sys
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace

from agentfly.resources import http_protocol
from agentfly.resources.client_options import ClientOptions, OfferedOptions, SessionLimits
from agentfly.resources.manager import EnvironmentManager
from agentfly.resources.pooling import pooling_of
from agentfly.runtime.clock import LoopClock
from agentfly.runtime.http import require_server_packages
from agentfly.runtime.http.address import Listen, split_token
from agentfly.runtime.ordered import one_error
from agentfly.types import EnvSpec, Pool

BODY_SECONDS = 30.0
"""Time limit for the whole body of a request; a client that takes longer is refused."""


async def serve_environment(
    spec: EnvSpec,
    *,
    host: str = "127.0.0.1",
    port: int = 8700,
    token: str | None = None,
    allowed_hosts: tuple[str, ...] = (),
    client_options: ClientOptions | None = None,
    limits: SessionLimits | None = None,
) -> None:
    """Serve an environment until this is cancelled; write its address to standard error once.

    The address carries the token, unless that was given. The arguments are those of
    `environment_server`.
    """
    async with environment_server(
        spec,
        host=host,
        port=port,
        token=token,
        allowed_hosts=allowed_hosts,
        client_options=client_options,
        limits=limits,
    ) as url:
        shown = url if token is None else split_token(url)[0]
        # Not by a logger: the address carries the token, and logs are kept.
        sys.stderr.write(f"serving {spec.name} at {shown}\n")
        sys.stderr.flush()
        await asyncio.Event().wait()


@asynccontextmanager
async def environment_server(
    spec: EnvSpec,
    *,
    host: str = "127.0.0.1",
    port: int = 0,
    token: str | None = None,
    allowed_hosts: tuple[str, ...] = (),
    client_options: ClientOptions | None = None,
    limits: SessionLimits | None = None,
    pool: Pool | None = None,
) -> AsyncIterator[str]:
    """Serve an environment in the background; yield the address, which carries the token.

    Args:
        spec: What to serve.
        host: Which of this machine's addresses to listen on.
        port: 0 means any that is free.
        token: The secret that every request must carry; a new one is made if not given.
        allowed_hosts: Names by which clients may address the server, besides `host` itself and
            `localhost`.
        client_options: Options that clients may choose, each with the values to choose from; the
            environment's own attribute `client_options` if not given, and none without one.
        limits: How many sessions there may be, and how long they live without a request.
        pool: Where the instances come from; by default a manager of the server's own.
    """
    require_server_packages("an environment server")
    from agentfly.resources.server_sessions import Sessions, routes
    from agentfly.runtime.http.guard import Application, BodyLimits
    from agentfly.runtime.http.server import serving

    listen = Listen(host=host, port=port, token=token, allowed_hosts=allowed_hosts)
    options = OfferedOptions(spec, client_options)
    async with AsyncExitStack() as stack:
        if pool is None:
            pool = await stack.enter_async_context(_own_manager(spec))
        sessions = Sessions(
            options=options, pool=pool, clock=LoopClock(), limits=limits or SessionLimits()
        )
        stack.push_async_callback(sessions.close_all)
        stack.enter_context(one_error())
        tasks = await stack.enter_async_context(asyncio.TaskGroup())
        stack.callback(tasks.create_task(sessions.expire()).cancel)
        name = getattr(spec.factory, "__qualname__", "environment")
        application = Application(
            routes=routes(name, sessions),
            limits=BodyLimits(max_bytes=http_protocol.MAX_BYTES, seconds=BODY_SECONDS),
        )
        yield await stack.enter_async_context(serving(application, listen))


def _own_manager(spec: EnvSpec) -> EnvironmentManager:
    pooling = pooling_of(spec.factory)
    if "://" in pooling.where:
        # That is how clients find this very server.
        pooling = replace(pooling, where="here", token=None)
    return EnvironmentManager({spec.factory: pooling})
