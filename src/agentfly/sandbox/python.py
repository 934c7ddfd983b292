"""`PythonSandbox`: a Python interpreter for untrusted code, as an environment."""

import asyncio
import base64
import secrets
import signal
from collections.abc import Callable, Iterable
from contextlib import suppress
from functools import cache, partial
from typing import Any, TypeVar

from agentfly.errors import ConfigError, EnvError, ToolError
from agentfly.runtime.threads import WorkerThreads
from agentfly.sandbox import cell_result
from agentfly.sandbox.box import Box, BoxFailedError, ChannelError, Ending, Fault, Isolation
from agentfly.sandbox.cell_result import CellResult, CellStatus
from agentfly.sandbox.framing import NonsenseError
from agentfly.sandbox.levels import Level, choose
from agentfly.sandbox.limits import SandboxLimits
from agentfly.types import Seed, Step, Task

T = TypeVar("T")

FILE_SECONDS = 10.0
"""Time limit for reading, writing or listing files."""
INLINE_BYTES = 1 << 14
"""Maximum size of an answer read in the event loop; longer ones are read in a thread."""
_AFRESH = "The interpreter starts afresh: variables and files are gone."
_ENDINGS: dict[str | None, str] = {
    "memory": "All processes together held more than the memory limit of {memory_mb} MB. ",
    "cpu": "The CPU limit of {cpu_seconds} s for a process was reached. ",
    Fault.TIME: (
        "The cell ran longer than {seconds:g} s, did not stop when interrupted, and was killed. "
    ),
    Fault.NONSENSE: "The interpreter's own machinery was disturbed. ",
}


class PythonSandbox:
    """A persistent Python interpreter that untrusted code can't get out of.

        sandbox = PythonSandbox()
        await sandbox.run("x = 20")
        (await sandbox.run("x + 1")).value      → "21"

    Variables and files live until `reset` or `close`. What code does wrong, limits included, is a
    `CellResult`; a sandbox that can't be made is an `EnvError`.
    """

    def __init__(
        self,
        *,
        limits: SandboxLimits | None = None,
        preload: tuple[str, ...] = (),
        readable: tuple[str, ...] = (),
        isolation: Isolation | str | None = None,
        unsafe: bool = False,
    ) -> None:
        """Describe a sandbox; it is started by `reset`, or by the first use.

        Args:
            limits: What code may use.
            preload: Packages to import once for all sandboxes, in addition to numpy and sympy.
            readable: Folders outside that code may read, at their own paths.
            isolation: A level to insist on; the best that needs no daemon if not given. The level
                `unsafe` needs `unsafe=True` too.
            unsafe: Run without isolation where none can be had.
        """
        if isolation is not None and isolation not in tuple(Isolation):
            known = ", ".join(Isolation)
            raise ConfigError(f"unknown isolation {isolation!r}. Known: {known}")
        self.limits = limits or SandboxLimits()
        self._level = Level(
            preload=_several("preload", preload),
            readable=_several("readable", readable),
            isolation=None if isolation is None else Isolation(isolation),
            unsafe=unsafe,
        )
        self._box: Box | None = None
        self._seed = secrets.randbits(32)
        self._turn = asyncio.Lock()

    async def reset(self, task: Task | None = None, seed: Seed | None = None) -> str:
        """Start a new interpreter, with nothing of the last one; return an empty observation.

        `seed` seeds the generators of `random` and numpy.
        """
        async with self._turn:
            await self._discard()
            self._seed = secrets.randbits(32) if seed is None else seed.random().getrandbits(32)
            await self._start()
        return ""

    async def close(self) -> None:
        """End the interpreter and everything that it started."""
        await self._discard()

    async def healthy(self) -> bool:
        """Return whether the interpreter answers, or has not been started yet."""
        try:
            return self._box is None or (await self.run("")).ok
        except EnvError:
            return False

    async def run(self, code: str) -> CellResult:
        """Run a cell; the variables of earlier cells are there."""
        return await self._execute({"op": "run", "code": code})

    async def step(self, action: str) -> Step:
        """Run a cell as any environment takes an action, for clients without `CellResult`."""
        result = await self.run(action)
        info = {"status": str(result.status), "limit": result.limit}
        return Step(observation=result.observation, info=info)

    async def shell(self, command: str) -> CellResult:
        """Run a command of `/bin/sh` in the scratch folder, in the same isolation."""
        return await self._execute({"op": "shell", "command": command})

    async def read_file(self, path: str) -> bytes:
        """Return a file's content; ToolError if it can't be read."""
        return await self._request_files({"op": "read", "path": path}, cell_result.read_content)

    async def write_file(self, path: str, content: str | bytes) -> None:
        """Write a file and make its folders; ToolError if it can't be written."""
        data = content.encode("utf-8", "replace") if isinstance(content, str) else content
        encoded = base64.b64encode(data).decode()
        request = {"op": "write", "path": path, "data": encoded}
        await self._request_files(request, cell_result.read_written)

    async def list_files(self, path: str = ".") -> list[str]:
        """Return the files below a folder, sorted; ToolError if there is no such folder."""
        return await self._request_files({"op": "list", "path": path}, cell_result.read_names)

    async def _execute(self, request: dict[str, Any]) -> CellResult:
        most = cell_result.max_cell_bytes(self.limits)
        async with self._turn:
            box = self._box or await self._start()
            try:
                body = await self._answer(box, request, most)
                return await self._read(body, box.channel.number, cell_result.read_cell)
            except ChannelError as error:
                return self._killed_result(error.fault, await self._end(box))
            except BaseException:
                # A cell whose caller has given up must not go on, nor its state be used.
                await self._discard()
                raise

    async def _answer(self, box: Box, request: dict[str, Any], most: int) -> bytes:
        """Send a request and wait; interrupt a cell whose time is up, and wait once more.

        An answer that arrived while this event loop was held up is still taken: the interrupt
        then comes too late for its cell, and is ignored.
        """
        box.channel.send(request)
        body = await _within(self.limits.seconds, box, most)
        if body is None:
            body = await _within(self.limits.grace_seconds, box, most, interrupted=True)
        if body is None:
            raise ChannelError(Fault.TIME)
        return body

    async def _request_files(
        self, request: dict[str, Any], read: Callable[[bytes, int, SandboxLimits], T]
    ) -> T:
        async with self._turn:
            box = self._box or await self._start()
            try:
                box.channel.send(request)
                body = await _within(FILE_SECONDS, box, cell_result.MAX_FILE_BYTES)
                if body is None:
                    raise ChannelError(Fault.TIME)
                return await self._read(body, box.channel.number, read)
            except ChannelError as error:
                await self._end(box)
                raise ToolError(f"The interpreter did not answer. {_AFRESH}") from error
            except ToolError:
                raise
            except BaseException:
                await self._discard()
                raise

    async def _read(
        self, body: bytes, number: int, read: Callable[[bytes, int, SandboxLimits], T]
    ) -> T:
        """Read an answer; a long one in a thread, so that no event loop waits for it."""
        call = partial(read, body, number, self.limits)
        try:
            if len(body) <= INLINE_BYTES:
                return call()
            return await _readers().run(call, name="reading a sandbox's answer")
        except NonsenseError as error:
            raise ChannelError(Fault.NONSENSE, str(error)) from error

    async def _start(self) -> Box:
        try:
            server = await choose(self._level)
            self._box = await server.spawn(self.limits, self._seed)
        except BoxFailedError as error:
            raise EnvError(f"no sandbox could be made: {error}") from error
        return self._box

    async def _end(self, box: Box) -> Ending:
        """End a sandbox that gave no answer, and return how it ended.

        Any end of its process or its channel is the code's own doing, unless this program or its
        fork server brought it about: that is an EnvError.
        """
        if self._box is not box:
            raise EnvError("the sandbox was closed while it was in use")
        self._box = None
        try:
            return await box.end()
        except BoxFailedError as error:
            raise EnvError(f"the machinery of the sandbox has crashed: {error}") from error

    async def _discard(self) -> None:
        box, self._box = self._box, None
        if box is not None:
            with suppress(BoxFailedError):  # Its server has gone, and took it along.
                await box.close()

    def _killed_result(self, fault: Fault, ending: Ending) -> CellResult:
        said = _ENDINGS.get(ending.cause) or _ENDINGS.get(fault)
        if said is None:
            said = f"The interpreter ended itself ({_how(ending.code)}). "
        limit = ending.cause or (str(fault) if fault is Fault.TIME else None)
        note = said.format(**self.limits.to_dict()) + _AFRESH
        return CellResult(status=CellStatus.KILLED, limit=limit, note=note)


def _several(option: str, given: Iterable[str]) -> tuple[str, ...]:
    """Return an option's names; refuse a string, whose characters would be taken for names."""
    if isinstance(given, str):
        raise ConfigError(f"`{option}` takes a tuple of names, got {given!r}: write ({given!r},)")
    return tuple(given)


@cache
def _readers() -> WorkerThreads:
    """Return threads of their own: reading must not wait for hung tools."""
    return WorkerThreads(size=4)


async def _within(
    seconds: float, box: Box, most: int, *, interrupted: bool = False
) -> bytes | None:
    """Wait for an answer, at first for the interrupt if one is due; None if it does not come."""
    try:
        async with asyncio.timeout(seconds):
            if interrupted:
                with suppress(BoxFailedError):  # Its server has gone: so will the channel.
                    await box.interrupt()
            return await box.channel.receive(most)
    except TimeoutError:
        return None


def _how(code: int | None) -> str:
    if code is None or code == -signal.SIGKILL:
        return "it closed its channel or was killed"
    return f"by signal {-code}" if code < 0 else f"exit code {code}"
