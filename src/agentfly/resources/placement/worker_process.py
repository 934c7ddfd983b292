"""Instances in a process each, where blocking, crashing or leaking does no harm to others."""

import asyncio
import functools
import json
import os
import pickle
import signal
import socket
import sys
import threading
import time
from typing import Any
from weakref import WeakKeyDictionary

from agentfly.errors import ConfigError, EnvError, boundary
from agentfly.resources.placement.instance import (
    BrokenInstanceError,
    RemoteInstance,
    in_manager_thread,
)
from agentfly.resources.placement.worker import (
    LOADING_VARIABLE,
    Answer,
    Channel,
    Load,
    Request,
    pack,
)
from agentfly.resources.pooling import Pooling
from agentfly.runtime.process import Child, reap, start
from agentfly.types import Clock, EnvSpec

LONGEST_LEASE = 24 * 3600.0
"""Added to `max_age` for the lifetime after which a process is always ended."""
STARTS_AT_ONCE = 8
"""Python processes that start together share the cores: more would only start later."""
AFTERMATH_SECONDS = 1.0
"""Maximum wait for the exit code of a process that closed its socket."""

_PROGRAM = (
    "import json, sys; sys.path[:] = json.loads(sys.argv[1]); "
    "from agentfly.resources.placement.worker import main; main()"
)


async def make_in_worker(spec: EnvSpec, pooling: Pooling, clock: Clock) -> "WorkerInstance":
    """Start a process that makes an instance."""
    del clock  # Processes live in real time.
    load = _load(spec)
    await in_manager_thread(_reap_once, "reap")
    async with _starts():
        deadline = time.monotonic() + pooling.make_seconds
        try:
            instance = await _started(spec, pooling)
        except TimeoutError as error:
            raise EnvError(f"making environment {spec.name} failed: {error}") from error
        try:
            load_it = functools.partial(instance.load, load, deadline)
            await in_manager_thread(load_it, f"make {spec.name}")
        except BaseException:
            await instance.end()
            raise
    return instance


async def _started(spec: EnvSpec, pooling: Pooling) -> "WorkerInstance":
    ours, theirs = socket.socketpair()
    try:
        child = await start(
            [sys.executable, "-P", "-c", _PROGRAM, json.dumps(sys.path)],
            name=f"environment {spec.name}",
            lifetime=pooling.max_age + LONGEST_LEASE,
            stdin=theirs.fileno(),
        )
    except BaseException:
        ours.close()
        raise
    finally:
        theirs.close()
    return WorkerInstance(spec, pooling, child, Channel(ours))


class WorkerInstance(RemoteInstance):
    """An instance in a process of its own."""

    def __init__(self, spec: EnvSpec, pooling: Pooling, child: Child, channel: Channel) -> None:
        super().__init__(spec, pooling, {})
        self._child = child
        self._channel = channel
        self._memory_mb = 0.0
        self._ending = threading.Lock()
        self._ended = False

    @property
    def unfit(self) -> str | None:
        """Why it must not be lent again: broken, dead, or grown beyond its memory."""
        if self._fault is None and self._child.returncode is not None:
            return f"its process ended with code {self._child.returncode}"
        limit = self._pooling.memory_mb
        if self._fault is None and limit and self._memory_mb > limit:
            return f"its process takes {self._memory_mb:.0f} MB, more than {limit:g}"
        return self._fault

    def load(self, load: Load, deadline: float) -> None:
        """Let the process make the environment."""
        doing = f"making environment {self.name}"
        with boundary(EnvError, doing):
            try:
                self.methods = self._converse(pack(load), deadline)
            except BrokenInstanceError as error:
                reason = str(error) or f"it took more than {self._pooling.make_seconds:g} s"
                raise EnvError(f"{doing} failed: {reason}") from error

    def _exchange(
        self, name: str, args: tuple[Any, ...], kwargs: dict[str, Any], deadline: float
    ) -> Any:
        frame = pack(Request(name=name, args=args, kwargs=kwargs))
        return self._converse(frame, deadline)

    def _converse(self, frame: bytes, deadline: float) -> Any:
        try:
            self._channel.send(frame, deadline)
            answer = self._channel.receive(deadline)
        except TimeoutError as error:
            raise BrokenInstanceError from error
        except (EOFError, OSError) as error:
            raise BrokenInstanceError(f"its process {self._how_it_ended()}") from error
        except Exception as error:
            raise BrokenInstanceError(f"its process sent rubbish: {error!r}") from error
        if not isinstance(answer, Answer):
            raise BrokenInstanceError(f"its process sent rubbish: {answer!r}")
        self._memory_mb = answer.memory_mb
        if answer.error is not None:
            raise answer.error
        return answer.value

    def _how_it_ended(self) -> str:
        give_up_at = time.monotonic() + AFTERMATH_SECONDS
        while (code := self._child.returncode) is None and time.monotonic() < give_up_at:
            time.sleep(0.005)
        return "hung up" if code is None else f"ended with code {code}"

    def _stop(self) -> None:
        with self._ending:
            # Until it is ended for good, its number, and that of its group, can't be another's.
            if not self._ended and self._child.returncode is None:
                os.killpg(self._child.pid, signal.SIGKILL)

    async def end(self) -> None:
        """End the process and all below it."""
        with self._ending:
            self._ended = True
        try:
            await self._child.close(grace=0)
        finally:
            self._channel.close()


def _load(spec: EnvSpec) -> Load:
    if (script := os.environ.get(LOADING_VARIABLE)) is not None:
        raise ConfigError(
            f"{script} starts its run while {spec.name}, which it defines, is loaded into a worker "
            "process. Put what starts the run under `if __name__ == '__main__':`"
        )
    try:
        pickled = pickle.dumps(spec)
    except Exception as error:
        raise ConfigError(
            f"environment {spec.name} can't be made in another process: {error}. Define its class "
            "or function at the top of a module, and give it options that can be pickled"
        ) from error
    main = getattr(sys.modules["__main__"], "__file__", None)
    return Load(main=main if b"__main__" in pickled else None, spec=pickled)


_STARTS: WeakKeyDictionary[asyncio.AbstractEventLoop, asyncio.Semaphore] = WeakKeyDictionary()


def _starts() -> asyncio.Semaphore:
    """Return the places of the running loop: a semaphore serves one loop only."""
    return _STARTS.setdefault(asyncio.get_running_loop(), asyncio.Semaphore(STARTS_AT_ONCE))


@functools.cache
def _reap_once() -> None:
    """End what an earlier run left behind when it was killed, before anything new begins."""
    reap()
