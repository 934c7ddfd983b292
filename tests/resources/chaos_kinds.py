"""Three kinds of environments that crash, hang and close slowly where their task says so.

Each remembers what it was told since its last reset, so that an instance that serves two chains at
once, or is not reset between them, is found out.
"""

import asyncio
import os
import tempfile
import threading
import time
from dataclasses import dataclass
from typing import ClassVar

from agentfly.resources import Pooling
from agentfly.sandbox import PythonSandbox
from agentfly.types import Seed, Step, Task

LAST_WORD = "bye"
HANG_SECONDS = 10_000.0


@dataclass(frozen=True, kw_only=True)
class Fault:
    """What goes wrong with one environment of one chain."""

    what: str = ""
    """`crash`, `hang` or `slow`; empty for a chain that meets no fault."""
    kind: str = ""
    when: str = ""
    """`reset`, `step` or `close`."""
    seconds: float = 0.0
    """How long a slow close takes."""

    @classmethod
    def of(cls, task: Task, kind: str) -> "Fault":
        fault = cls(**task.fields["fault"])
        return fault if fault.kind == kind else cls()

    def at(self, when: str) -> str:
        return self.what if self.when == when else ""


class Synchronous:
    """What two of the kinds have in common."""

    def __init__(self) -> None:
        self.fault = Fault()
        self.marks: list[str] = []

    def reset(self, task: Task, seed: Seed) -> str:
        self.fault = Fault.of(task, type(self).__name__)
        self.marks = [task.id]
        self._misbehave("reset")
        return "COME IN."

    def step(self, action: str) -> Step:
        self.marks.append(action)
        self._misbehave("step")
        return Step(observation=" ".join(self.marks), done=action == LAST_WORD)

    def healthy(self) -> bool:
        return not self.fault.at("close")

    def close(self) -> None:
        self._misbehave("close")

    def _misbehave(self, when: str) -> None:
        what = self.fault.at(when)
        if what == "crash":
            self._crash()
        if what == "hang":
            self._hang()
        if what == "slow":
            time.sleep(self.fault.seconds)

    def _crash(self) -> None:
        raise NotImplementedError

    def _hang(self) -> None:
        raise NotImplementedError


class Room(Synchronous):
    """In this process: its methods run in threads, and it keeps a folder and a file open."""

    pooling = Pooling(max_instances=4, max_uses=40, memory_mb=100, close_seconds=2.0)
    end_of_hanging: ClassVar[threading.Event] = threading.Event()

    def __init__(self) -> None:
        super().__init__()
        self.folder = tempfile.TemporaryDirectory(prefix="room-")
        self.file = os.open(f"{self.folder.name}/log", os.O_WRONLY | os.O_CREAT)

    def close(self) -> None:
        try:
            super().close()
        finally:
            os.close(self.file)
            self.folder.cleanup()

    def _crash(self) -> None:
        raise RuntimeError("the room fell down")

    def _hang(self) -> None:
        self.end_of_hanging.wait(HANG_SECONDS)


class Worker(Synchronous):
    """In a process of its own, which dies of a crash."""

    pooling = Pooling(
        where="process",
        max_instances=2,
        max_uses=40,
        memory_mb=200,
        # A crowded machine is no fault. What hangs is ended with its chain's time.
        make_seconds=600.0,
        reset_seconds=600.0,
        call_seconds=600.0,
        close_seconds=2.0,
    )

    def _crash(self) -> None:
        os._exit(7)

    def _hang(self) -> None:
        time.sleep(HANG_SECONDS)


class Cell:
    """A sandbox: code that kills its interpreter is an observation, and no crash."""

    pooling = Pooling(max_instances=2, max_uses=40, memory_mb=150, close_seconds=2.0)
    code: ClassVar = {"crash": "import os; os.kill(os.getpid(), 9)", "hang": "while True: pass"}

    def __init__(self) -> None:
        self.sandbox = PythonSandbox()
        self.fault = Fault()
        self.marks: list[str] = []

    async def reset(self, task: Task, seed: Seed) -> str:
        self.fault = Fault.of(task, "Cell")
        self.marks = [task.id]
        await self.sandbox.reset(task, seed)
        if self.fault.at("reset") == "crash":
            raise RuntimeError("the cell fell down")
        if self.fault.at("reset") == "hang":
            await asyncio.sleep(HANG_SECONDS)
        return "COME IN."

    async def step(self, action: str) -> Step:
        self.marks.append(action)
        await self.sandbox.run(self.code.get(self.fault.at("step"), f"said = {action!r}"))
        return Step(observation=" ".join(self.marks), done=action == LAST_WORD)

    async def healthy(self) -> bool:
        return not self.fault.at("close")

    async def close(self) -> None:
        try:
            await asyncio.sleep({"hang": HANG_SECONDS}.get(self.fault.at("close"), 0.0))
            await asyncio.sleep(self.fault.seconds)
            if self.fault.at("close") == "crash":
                raise RuntimeError("the cell fell down")
        finally:
            await self.sandbox.close()


KINDS = (Room, Worker, Cell)
