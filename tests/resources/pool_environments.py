"""Environments that worker processes can import, and how tests lease them."""

import asyncio
import os
import time
from collections.abc import Callable
from typing import ClassVar

from agentfly.errors import ToolError
from agentfly.resources import Pooling
from agentfly.runtime.clock import LoopClock
from agentfly.types import Seed, Step, Task

TASK = Task(id="t", messages=(), fields={"goal": 2})


def soon(seconds: float = 30.0) -> float:
    return LoopClock().now() + seconds


async def until(holds: Callable[[], bool]) -> None:
    for _ in range(3000):
        if holds():
            return
        await asyncio.sleep(0.01)
    raise AssertionError("it never came true")


class Box:
    """Counts; and remembers who was made, who lives and who was closed twice."""

    made: ClassVar[list["Box"]] = []

    def __init__(self, size: int = 1) -> None:
        self.size = size
        self.total = 0
        self.closed = 0
        Box.made.append(self)

    def reset(self, task: Task, seed: Seed) -> str:
        self.total = 0
        return f"REACH {task.fields.get('goal')}."

    def step(self, action: str) -> Step:
        if action == "fail":
            raise RuntimeError("the box fell down")
        self.total += 1
        return Step(observation=f"NOW AT {self.total}.", done=self.total >= 2)

    def close(self) -> None:
        self.closed += 1


class Crate(Box):
    """Another kind."""


class Odd(Box):
    """Does in its own process whatever one asks of it."""

    pooling = Pooling(where="process", max_instances=2, max_uses=3, call_seconds=0.6)

    def step(self, action: str) -> Step:
        if action == "die":
            os._exit(3)
        if action == "hang":
            time.sleep(1000)
        if action == "rubbish":
            return Unreadable()  # type: ignore[return-value]
        if action == "unsendable":
            return lambda: None  # type: ignore[return-value]
        if action == "exit":
            raise SystemExit(1)
        return super().step(action)

    def pid(self) -> int:
        return os.getpid()

    def scold(self) -> None:
        raise ToolError("put it back")

    def look_up(self) -> None:
        raise KeyError("nowhere")

    async def later(self, value: int) -> int:
        await asyncio.sleep(0.01)
        return value + 1

    def grow(self, megabytes: int) -> None:
        self.ballast = bytearray(os.urandom(1 << 20) * megabytes)

    def talk(self) -> str:
        print("this must not be taken for an answer")
        return "said"


class Unreadable:
    """Is sent well, and fails when it is read."""

    def __reduce__(self) -> tuple[object, ...]:
        return os.kill, ("not a pid", 0)


def broken() -> Box:
    raise OSError("no such box")
