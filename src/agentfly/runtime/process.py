"""The one way in which child processes are started, registered and ended.

    child = await start(["java", "-jar", "world.jar"], name="scienceworld", lifetime=3600.0,
                        stdin=PIPE, stdout=PIPE)
    async with child:
        ...

Nothing that is started here is left behind:

- `close` ends the child and its whole process group, and waits for its end.
- If this process dies, `kill -9` included, the kernel kills the child (on Linux). What is below it
  is ended at once if the child is guarded. Otherwise it, and on other systems the child itself, is
  ended by the next `reap`, from the records of `agentfly.runtime.process_registry`.
- A child that outlives its lifetime is killed with its group by this process or, should this one
  hang, by the `reap` of any other.

A grandchild that opens a session of its own escapes `close`; `reap` finds it only if this process
died. Linux ties a child to the *thread* that started it: an event loop outside the main thread
takes its children with it when its thread ends.
"""

import asyncio
import logging
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import cache, partial
from pathlib import Path
from subprocess import DEVNULL, PIPE
from types import TracebackType
from typing import IO, Any, Self

from agentfly.errors import ConfigError, DeadlineError
from agentfly.runtime import launch
from agentfly.runtime.launch import TOKEN_VARIABLE
from agentfly.runtime.process_registry import Reaped, Record, intend, reap
from agentfly.runtime.threads import WorkerThreads

__all__ = ["DEVNULL", "PIPE", "Child", "Reaped", "Stdio", "reap", "start"]

START_SECONDS = 30.0
"""From fork to exec: far more than it takes, even on a crowded machine."""
GRACE_SECONDS = 5.0
"""Time between SIGTERM and SIGKILL, in which a child may clean up."""
KILL_SECONDS = 10.0
"""A process that is there this long after SIGKILL hangs in the kernel: it is given up."""
POLL_SECONDS = 0.02
"""Interval of checks whether a child has exited."""
LINE_LIMIT = 1 << 24
"""The longest line, in bytes, that can be read from a child by `readline`."""

Stdio = int | IO[bytes] | None
"""As in `subprocess`: PIPE, DEVNULL, an open file, or None to share this process's own."""

_log = logging.getLogger(__name__)


async def start(  # noqa: PLR0913 - keyword-only, each a choice of its own
    command: Sequence[str | Path],
    *,
    name: str,
    lifetime: float,
    env: Mapping[str, str] | None = None,
    cwd: str | Path | None = None,
    guarded: bool = False,
    stdin: Stdio = DEVNULL,
    stdout: Stdio = None,
    stderr: Stdio = None,
) -> "Child":
    """Start a command in a session of its own, and return once it runs.

    Args:
        command: The program and its arguments; no shell reads them.
        name: What to call it in messages.
        lifetime: Seconds after which it is always killed.
        env: Replaces the whole environment.
        cwd: The folder to start in.
        guarded: Whether its whole group ends as soon as it has ended, however that came (on Linux):
            for programs that start processes of their own.
        stdin: PIPE gives the child a `stdin` to write to.
        stdout: PIPE gives the child a `stdout` to read from.
        stderr: PIPE gives the child a `stderr` to read from.

    Raises:
        ConfigError: There is no such program or folder, or it can't be run.
    """
    environment = dict(os.environ if env is None else env)
    options = {"cwd": cwd, "stdin": stdin, "stdout": stdout, "stderr": stderr}
    record = intend(name=name, lifetime=lifetime)
    popen, status = _spawn(
        [str(part) for part in command], environment, options, record, guarded=guarded
    )
    child = Child(popen, record, status, lifetime=lifetime)
    try:
        async with asyncio.timeout(START_SECONDS):
            await child._open()
    except TimeoutError as error:
        await child.close(grace=0)
        raise DeadlineError(f"{name} did not start within {START_SECONDS:g} s") from error
    except BaseException:
        await child.close(grace=0)
        raise
    return child


def _spawn(
    command: list[str],
    environment: dict[str, str],
    options: dict[str, Any],
    record: Record,
    *,
    guarded: bool,
) -> tuple[subprocess.Popen[bytes], IO[bytes]]:
    """Fork the launcher; the pipe that it is given is closed by the command's exec."""
    try:
        status, written = os.pipe()
    except OSError:
        record.remove()
        raise
    added_by_python = "" if "LC_CTYPE" in environment else "LC_CTYPE"
    guard = "guarded" if guarded else ""
    arguments = (record.path, os.getpid(), written, added_by_python, guard, *command)
    try:
        popen = subprocess.Popen(
            [sys.executable, "-I", "-S", launch.__file__, *map(str, arguments)],
            env={**environment, TOKEN_VARIABLE: record.token},
            pass_fds=(written,),
            start_new_session=True,
            **options,
        )
    except OSError as error:
        os.close(status)
        record.remove()
        raise ConfigError(f"{record.name} can't be started: {error}") from error
    finally:
        os.close(written)
    return popen, os.fdopen(status, "rb", buffering=0)


class Child:
    """A running child process. Close it, or use it as an asynchronous context manager."""

    stdin: asyncio.StreamWriter | None = None
    stdout: asyncio.StreamReader | None = None
    stderr: asyncio.StreamReader | None = None

    def __init__(
        self,
        popen: subprocess.Popen[bytes],
        record: Record,
        status: IO[bytes],
        *,
        lifetime: float,
    ) -> None:
        self.name = record.name
        self.pid = popen.pid
        self._popen = popen
        self._record = record
        self._status = status
        self._pipes = [pipe for pipe in (popen.stdin, popen.stdout, popen.stderr, status) if pipe]
        """Pipes that no transport has taken over yet."""
        self._transports: list[asyncio.ReadTransport | asyncio.WriteTransport] = []
        self._ending = threading.Lock()
        self._ended = False
        self._end_of_life = asyncio.get_running_loop().call_later(lifetime, self._expire)

    @property
    def returncode(self) -> int | None:
        """The exit code, negative for a signal; None while it runs.

        The child is left a zombie until `close`, which keeps its number, and that of its group,
        from being given to strangers. (Python on macOS can't, before 3.13.)
        """
        if self._popen.returncode is not None or not hasattr(os, "waitid"):
            return self._popen.poll()
        try:
            found = os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)
        except ChildProcessError:
            return self._popen.poll()  # Another part of this program has reaped it.
        if found is None:
            return None
        return found.si_status if found.si_code == os.CLD_EXITED else -found.si_status

    async def wait(self) -> int:
        """Wait until it exits by itself, under a deadline of the caller's own."""
        while (code := self.returncode) is None:  # noqa: ASYNC110 - there is no portable event
            await asyncio.sleep(POLL_SECONDS)
        return code

    async def close(self, *, grace: float = GRACE_SECONDS) -> None:
        """End the child and its group: SIGTERM, then after `grace` seconds SIGKILL.

        It runs in a thread, so that it completes even if this call is cancelled, while waiting
        for a thread or later. What can't be killed stays on record for `reap`. Closing twice does
        nothing.
        """
        self._end_of_life.cancel()
        if self.stdin:
            self.stdin.close()
        try:
            await _closers().run(partial(self._end, grace), name=f"close {self.name}")
        except BaseException:
            self._end_without_waiting(grace)
            raise
        finally:
            for end in (*self._transports, *self._pipes):
                end.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.close()

    async def _open(self) -> None:
        """Connect the pipes, and read from the launcher whether the command runs."""
        if self._popen.stdin:
            self.stdin = await self._writer(self._popen.stdin)
        if self._popen.stdout:
            self.stdout = await self._reader(self._popen.stdout)
        if self._popen.stderr:
            self.stderr = await self._reader(self._popen.stderr)
        problem = await (await self._reader(self._status)).read()
        if problem:
            raise ConfigError(
                f"{self.name} can't be started: {problem.decode(errors='replace')}. "
                "Is the program installed and executable?"
            )

    async def _reader(self, pipe: IO[bytes]) -> asyncio.StreamReader:
        reader = asyncio.StreamReader(limit=LINE_LIMIT)
        transport, _ = await asyncio.get_running_loop().connect_read_pipe(
            lambda: asyncio.StreamReaderProtocol(reader), pipe
        )
        self._take_over(pipe, transport)
        return reader

    async def _writer(self, pipe: IO[bytes]) -> asyncio.StreamWriter:
        loop = asyncio.get_running_loop()
        transport, protocol = await loop.connect_write_pipe(
            lambda: asyncio.StreamReaderProtocol(asyncio.StreamReader()), pipe
        )
        self._take_over(pipe, transport)
        return asyncio.StreamWriter(transport, protocol, None, loop)

    def _take_over(
        self, pipe: IO[bytes], transport: asyncio.ReadTransport | asyncio.WriteTransport
    ) -> None:
        self._pipes.remove(pipe)
        self._transports.append(transport)

    def _expire(self) -> None:
        _log.warning("%s outlived its lifetime: killed", self.name)
        self._signal(signal.SIGKILL)

    def _end_without_waiting(self, grace: float) -> None:
        """Make sure that a thread ends it: a queued call is dropped when its caller gives up."""
        if not self._ended and not self._ending.locked():
            name = f"agentfly:close {self.name}"
            threading.Thread(target=self._end, args=(grace,), name=name, daemon=True).start()

    def _end(self, grace: float) -> None:
        with self._ending:
            if self._ended:
                return
            if grace > 0:
                self._signal(signal.SIGTERM)
                self._exits_within(grace)
            # Also where the child has exited: what is below it may not have.
            self._signal(signal.SIGKILL)
            if not self._exits_within(KILL_SECONDS):
                _log.error("%s: process %d can't be killed", self.name, self.pid)
                return
            self._popen.wait()
            self._record.remove()
            self._ended = True

    def _exits_within(self, seconds: float) -> bool:
        deadline = time.monotonic() + seconds
        while self.returncode is None:
            if time.monotonic() >= deadline:
                return False
            time.sleep(POLL_SECONDS)
        return True

    def _signal(self, number: signal.Signals) -> None:
        """Signal the whole group; once the child is reaped, the number may be another process's."""
        if self._popen.returncode is None:
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(self.pid, number)


@cache
def _closers() -> WorkerThreads:
    """Threads of their own: closing must not wait for hung tools."""
    return WorkerThreads(size=256)
