"""`PythonSandbox`: a Python interpreter for untrusted code, as an environment."""

import asyncio
import base64
import binascii
import secrets
from contextlib import suppress
from typing import Any

from agentfly.errors import ConfigError, EnvError, ToolError
from agentfly.sandbox.box import Box, BoxFailedError
from agentfly.sandbox.cell import CellResult, CellStatus, harmless
from agentfly.sandbox.channel import SandboxDiedError
from agentfly.sandbox.isolation import Isolation
from agentfly.sandbox.levels import Level, choose
from agentfly.sandbox.limits import SandboxLimits
from agentfly.types import Image, Seed, Step, Task

FILE_SECONDS = 10.0
"""For reading, writing or listing files."""
_AFRESH = "The interpreter starts afresh: variables and files are gone."
_DEATHS = {
    "memory": "All processes together held more than the memory limit of {memory_mb} MB. ",
    "cpu": "The CPU limit of {cpu_seconds} s for a process was reached. ",
    "nonsense": "The interpreter's own machinery was disturbed. ",
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
            preload: Packages to import once for all sandboxes, beside numpy and sympy.
            readable: Folders outside that code may read, at their own paths.
            isolation: A level to insist on; the best that needs no daemon if not given.
            unsafe: Run without isolation where none can be had.
        """
        if isolation is not None and isolation not in tuple(Isolation):
            known = ", ".join(Isolation)
            raise ConfigError(f"unknown isolation {isolation!r}. Known: {known}")
        self.limits = limits or SandboxLimits()
        self._level = Level(
            preload=tuple(preload),
            readable=tuple(readable),
            isolation=None if isolation is None else Isolation(isolation),
            unsafe=unsafe,
        )
        self._box: Box | None = None
        self._seed = secrets.randbits(32)
        self._turn = asyncio.Lock()

    async def reset(self, task: Task | None = None, seed: Seed | None = None) -> str:
        """Start a fresh interpreter: nothing of the last one is left. It says nothing first.

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
        """Tell whether the interpreter answers; one that was not started yet will be when used."""
        try:
            return self._box is None or (await self.run("")).ok
        except EnvError:
            return False

    async def run(self, code: str) -> CellResult:
        """Run a cell; the variables of earlier cells are there."""
        return await self._execute({"op": "run", "code": code})

    async def step(self, action: str) -> Step:
        """Run a cell as any environment takes an action: for clients that know no `CellResult`."""
        result = await self.run(action)
        info = {"status": str(result.status), "limit": result.limit}
        return Step(observation=result.observation, info=info)

    async def shell(self, command: str) -> CellResult:
        """Run a command of `/bin/sh` in the scratch folder, in the same isolation."""
        return await self._execute({"op": "shell", "command": command})

    async def read_file(self, path: str) -> bytes:
        """Return a file's content; ToolError if it can't be read."""
        content = await self._file_request({"op": "read", "path": path})
        try:
            return base64.b64decode(content)
        except (TypeError, binascii.Error) as error:
            raise ToolError(f"{path} could not be read") from error

    async def write_file(self, path: str, content: str | bytes) -> None:
        """Write a file and make its folders; ToolError if it can't be written."""
        data = content.encode() if isinstance(content, str) else content
        encoded = base64.b64encode(data).decode()
        await self._file_request({"op": "write", "path": path, "data": encoded})

    async def list_files(self, path: str = ".") -> list[str]:
        """Return the files below a folder, sorted; ToolError if there is no such folder."""
        names = await self._file_request({"op": "list", "path": path})
        return [harmless(str(name)) for name in names] if isinstance(names, list) else []

    async def _execute(self, request: dict[str, Any]) -> CellResult:
        async with self._turn:
            box = self._box or await self._start()
            try:
                return _result(await self._answer(box, request), self.limits)
            except SandboxDiedError as death:
                await self._discard()
                if box.announces_its_end and death.cause is None and death.code is None:
                    raise EnvError("the server of the sandbox has crashed") from death
                return self._obituary(death)
            except (KeyError, TypeError, ValueError):
                await self._discard()
                return self._obituary(SandboxDiedError("nonsense", None))
            except BaseException:
                # A cell that nobody waits for any more must not go on, nor its state be used.
                await self._discard()
                raise

    async def _answer(self, box: Box, request: dict[str, Any]) -> dict[str, Any]:
        """Ask, wait, interrupt, wait, give up."""
        await box.channel.send(request)
        answer = await _within(self.limits.seconds, box)
        if answer is None:
            await box.interrupt()
            answer = await _within(self.limits.grace_seconds, box)
        if answer is None:
            raise SandboxDiedError("time", None)
        return answer

    async def _file_request(self, request: dict[str, Any]) -> Any:
        async with self._turn:
            box = self._box or await self._start()
            try:
                await box.channel.send(request)
                answer = await _within(FILE_SECONDS, box)
            except SandboxDiedError:
                answer = None
            except BaseException:
                await self._discard()
                raise
            if answer is None:
                await self._discard()
                raise ToolError(f"The interpreter did not answer. {_AFRESH}")
        if problem := answer.get("problem"):
            raise ToolError(harmless(str(problem)))
        return answer.get("result")

    async def _start(self) -> Box:
        try:
            server = await choose(self._level)
            self._box = await server.spawn(self.limits, self._seed)
        except BoxFailedError as error:
            raise EnvError(f"no sandbox could be made: {error}") from error
        return self._box

    async def _discard(self) -> None:
        box, self._box = self._box, None
        if box is not None:
            with suppress(BoxFailedError):  # Its server has gone, and took it along.
                await box.close()

    def _obituary(self, death: SandboxDiedError) -> CellResult:
        limits = self.limits.to_dict()
        if death.cause == "time":
            said = "The cell ran longer than {seconds:g} s, did not stop when interrupted, and was "
            said = said.format(**limits) + "killed. "
        elif death.cause in _DEATHS:
            said = _DEATHS[death.cause].format(**limits)
        else:
            said = f"The interpreter ended itself ({_ending(death.code)}). "
        limit = death.cause if death.cause in ("time", "memory", "cpu") else None
        return CellResult(status=CellStatus.KILLED, limit=limit, note=said + _AFRESH)


async def _within(seconds: float, box: Box) -> dict[str, Any] | None:
    try:
        async with asyncio.timeout(seconds):
            return await box.channel.answer()
    except TimeoutError:
        return None


def _result(answer: dict[str, Any], limits: SandboxLimits) -> CellResult:
    notes = [answer["note"]] if answer["note"] else []
    if answer["interrupted"]:
        text = f"Interrupted after {limits.seconds:g} s, the time limit. Variables are kept."
        notes.append(text)
    if ended := answer["processes_ended"]:
        notes.append(f"{ended} background process(es) were ended with the cell.")
    images = tuple(Image(data=base64.b64decode(image)) for image in answer["images"])
    return CellResult.read(answer, images=images, note=harmless(" ".join(map(str, notes))))


def _ending(code: int | None) -> str:
    if code is None:
        return "nobody knows how"
    return f"by signal {-code}" if code < 0 else f"exit code {code}"
