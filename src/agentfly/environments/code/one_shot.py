"""A sandbox that forgets everything after each run."""

import asyncio
from typing import Any

from agentfly.sandbox import CellResult, PythonSandbox
from agentfly.types import Seed, Task


class OneShotPython(PythonSandbox):
    """Runs each piece of code in an interpreter of its own."""

    def __init__(self, **options: Any) -> None:
        """Take what `PythonSandbox` takes."""
        super().__init__(**options)
        self._chain_seed = Seed(0)
        self._runs = 0
        self._one_run = asyncio.Lock()

    async def reset(self, task: Task | None = None, seed: Seed | None = None) -> str:
        """Begin a chain, whose runs draw their random numbers from the seed."""
        self._chain_seed, self._runs = seed or Seed(0), 0
        return await super().reset(task, seed)

    async def run(self, code: str) -> CellResult:
        """Run code in a fresh interpreter; calls at the same time wait for each other."""
        async with self._one_run:
            self._runs += 1
            await super().reset(None, self._chain_seed.child("run", self._runs))
            return await super().run(code)
