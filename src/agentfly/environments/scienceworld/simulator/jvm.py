"""One JVM: a child process that never outlives this one, and the lock of its worlds."""

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
    "-Xmx512m",  # Without a limit it grows by gigabytes before it collects garbage.
    "-XX:+UseSerialGC",
    "-XX:+ExitOnOutOfMemoryError",  # After an OutOfMemoryError its answers would be wrong.
)
START_SECONDS = 120.0
"""Time limit of the start. It takes half a second, but a hundred times that under load."""
LIFETIME = 24 * 3600.0
"""Maximum lifetime of a JVM: a day."""
OUTPUT_TAIL_BYTES = 300
"""Maximum bytes of its last output in an error message."""
END_SECONDS = 10.0
"""Time limit of waiting for its end."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Address:
    """Process, port and access token of a JVM."""

    pid: int
    port: int
    token: str


class Jvm:
    """A JVM that is starting, running or ended.

    Its whole life is one coroutine on the background event loop.
    """

    def __init__(self) -> None:
        self.lock = ReadersWriterLock()
        """Held during every call: shared for steps, exclusive for loads."""
        self.simplifications: frozenset[str] = frozenset()
        """Simplifications of all its worlds, which share them; set by the pool."""
        self.worlds = 0
        """Number of worlds in it; set by the pool."""
        self.idle_since = 0.0
        """Time when the last world left; set by the pool."""
        self._listening: Future[Address] = Future()
        self._over = threading.Event()
        self._command = (str(java()), *OPTIONS, "-classpath", class_path(), *_GATEWAY)
        self._life = in_background(self._live())

    @property
    def alive(self) -> bool:
        """Whether it can take more worlds."""
        return self.lock.broken is None

    @property
    def pid(self) -> int:
        """Process id, once it listens."""
        return self._address().pid

    def connect(self) -> Connection:
        """Open a connection, after waiting until the JVM listens."""
        address = self._address()
        try:
            return Connection(address.port, address.token)
        except ConnectionLostError as error:
            self.end(f"the simulator's JVM can't be reached: {error}")
            raise EnvError(f"the simulator's JVM can't be reached: {error}") from error

    def end(self, reason: str) -> None:
        """Kill it without waiting; calls in it fail with this reason."""
        if self.lock.mark_broken(reason):
            # Only once: a second cancellation would interrupt the killing.
            self._life.cancel()

    def wait(self) -> None:
        """Wait until an ending JVM has ended."""
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
            # Where the kernel does not end it with this process, the end of its stdin does.
            child = await start(
                self._command,
                name="scienceworld",
                lifetime=LIFETIME,
                cwd=package_folder(),  # It reads a table here, and writes one elsewhere.
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
        """Read its address, then its output until the end."""
        assert child.stdout is not None, "requested as a pipe"
        assert child.stderr is not None, "requested as a pipe"
        async with asyncio.TaskGroup() as readers:
            errors = readers.create_task(_read_tail(child.stderr))
            port, token = await child.stdout.readline(), await child.stdout.readline()
            if token and port.strip().isdigit():
                address = Address(pid=child.pid, port=int(port), token=token.decode().strip())
                self._listening.set_result(address)
            output = await _read_tail(child.stdout)
        output = errors.result() or output
        self.lock.mark_broken(_describe_exit(child.pid, await child.wait(), output))


_GATEWAY = ("py4j.GatewayServer", "--die-on-broken-pipe", "--enable-auth", "0")
"""Arguments of the py4j server: it takes a free port and prints it with a token, so that no other
user of the machine can connect."""


async def _read_tail(stream: asyncio.StreamReader) -> str:
    """Read a stream to its end, and return its last output on one line."""
    tail = b""
    while chunk := await stream.read(1 << 16):
        tail = (tail + chunk)[-OUTPUT_TAIL_BYTES:]
    return " ".join(tail.decode(errors="replace").split())


def _describe_exit(pid: int, code: int, output: str) -> str:
    how = f"by {signal.Signals(-code).name}" if code < 0 else f"with exit code {code}"
    return f"the simulator's JVM (process {pid}) ended {how}" + (f": {output}" if output else "")
