"""One JVM: a child process that never outlives this one, and the lock of the worlds in it."""

import asyncio
import signal
import threading
from concurrent.futures import CancelledError, Future
from dataclasses import dataclass

from agentfly.environments.scienceworld.simulator.java import class_path, java, package_folder
from agentfly.environments.scienceworld.simulator.py4j_client import Connection, ConnectionLostError
from agentfly.environments.scienceworld.simulator.readers_writer_lock import ReadersWriterLock
from agentfly.errors import AgentFlyError, EnvError
from agentfly.runtime.background import in_background
from agentfly.runtime.process import PIPE, Child, start

OPTIONS = (
    "-Xmx512m",  # Without a limit it takes gigabytes before it collects garbage.
    "-XX:+UseSerialGC",
    "-XX:+ExitOnOutOfMemoryError",  # Half dead, it would answer nonsense.
)
START_SECONDS = 120.0
"""From nothing to listening: half a second, but a hundred times that on a crowded machine."""
LIFETIME = 24 * 3600.0
"""After a day it is replaced, whatever it does."""
OUTPUT_TAIL_BYTES = 300
"""How many bytes of what it printed last an error tells."""
END_SECONDS = 10.0
"""How long to wait for its end."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Address:
    """Where a JVM listens, and what proves that one may speak to it."""

    pid: int
    port: int
    token: str


class Jvm:
    """A JVM that is starting, running or over.

    Its whole life is one coroutine of the keeper.
    """

    def __init__(self) -> None:
        self.lock = ReadersWriterLock()
        """Held by whoever asks it anything."""
        self.worlds = 0
        """How many are in it; counted by the pool."""
        self.idle_since = 0.0
        """When the last of them left; noted by the pool."""
        self._listening: Future[Address] = Future()
        self._over = threading.Event()
        self._command = (str(java()), *OPTIONS, "-classpath", class_path(), *_GATEWAY)
        self._life = in_background(self._live())

    @property
    def alive(self) -> bool:
        """Whether worlds may still be put into it."""
        return self.lock.broken is None

    @property
    def pid(self) -> int:
        """Its process, once it listens."""
        return self._address().pid

    def connect(self) -> Connection:
        """Open a connection; waits until it listens."""
        address = self._address()
        try:
            return Connection(address.port, address.token)
        except ConnectionLostError as error:
            self.end(f"the simulator's JVM can't be reached: {error}")
            raise EnvError(f"the simulator's JVM can't be reached: {error}") from error

    def end(self, reason: str) -> None:
        """Kill it without waiting; whoever is in it fails with this reason."""
        if self.lock.mark_broken(reason):
            # Once only: a second cancellation would hit the killing itself.
            self._life.cancel()

    def wait(self) -> None:
        """Wait for the end of a JVM that is ending."""
        self._over.wait(END_SECONDS)

    def _address(self) -> Address:
        try:
            return self._listening.result(START_SECONDS)
        except CancelledError:
            raise EnvError(self.lock.broken or "the simulator's JVM was ended") from None
        except TimeoutError:
            reason = f"the simulator's JVM did not start within {START_SECONDS:g} s"
            self.end(reason)
            raise EnvError(reason) from None

    async def _live(self) -> None:
        try:
            # Standard input is its lifeline where the kernel does not end it with this process.
            child = await start(
                self._command,
                name="scienceworld",
                lifetime=LIFETIME,
                cwd=package_folder(),  # It looks there for a table, which it would write elsewhere.
                stdin=PIPE,
                stdout=PIPE,
                stderr=PIPE,
            )
            try:
                await self._serve(child)
            finally:
                self.lock.mark_broken("the simulator's JVM was ended")
                await child.close(grace=0)
        except AgentFlyError as error:
            self.lock.mark_broken(f"the simulator's JVM can't be started: {error}")
        finally:
            self._listening.cancel()
            self._over.set()

    async def _serve(self, child: Child) -> None:
        """Hear where it listens, then whatever it prints, until it says no more."""
        assert child.stdout is not None, "asked for"
        assert child.stderr is not None, "asked for"
        async with asyncio.TaskGroup() as hearing:
            complaint = hearing.create_task(_end_of(child.stderr))
            port, token = await child.stdout.readline(), await child.stdout.readline()
            if token and port.strip().isdigit():
                address = Address(pid=child.pid, port=int(port), token=token.decode().strip())
                self._listening.set_result(address)
            said = await _end_of(child.stdout)
        told = complaint.result() or said
        self.lock.mark_broken(_describe_exit(child.pid, await child.wait(), told))


_GATEWAY = ("py4j.GatewayServer", "--die-on-broken-pipe", "--enable-auth", "0")
"""The bridge, which takes any free port and prints it with a token: other users can't speak."""


async def _end_of(stream: asyncio.StreamReader) -> str:
    """Hear a stream out, and return its last words on one line."""
    tail = b""
    while heard := await stream.read(1 << 16):
        tail = (tail + heard)[-OUTPUT_TAIL_BYTES:]
    return " ".join(tail.decode(errors="replace").split())


def _describe_exit(pid: int, code: int, told: str) -> str:
    how = f"by {signal.Signals(-code).name}" if code < 0 else f"with exit code {code}"
    return f"the simulator's JVM (process {pid}) ended {how}" + (f": {told}" if told else "")
