"""The stage that publishes: an engine gets the weights of each step, in a form that it takes.

the learner's own tensors     engines in this process
an adapter's folder           where adapters are trained
a stream of tensors           engines with a way for them, such as NCCL
a folder of all weights       every other engine
"""

import asyncio
import shutil
from collections.abc import AsyncIterator, Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import TypeVar

from agentfly.errors import ConfigError
from agentfly.types import Learner, SharedTensors, TrainableEngine, Weights

Check = Callable[[int], Awaitable[None]]
"""Called with a version after it was published; raises if the engine samples from another one."""


@asynccontextmanager
async def publishing(
    learner: Learner, engine: TrainableEngine, folder: Path, check: Check
) -> AsyncIterator["Publisher"]:
    """Make a publisher that leaves no folder behind.

    Args:
        learner: Has the weights in training.
        engine: What samples from them.
        folder: For weights that go by files; the engine must be able to read it.
        check: Compares the engine with the learner, where it has weights of its own.
    """
    shutil.rmtree(folder, ignore_errors=True)  # of a run that was killed
    with ThreadPoolExecutor(1, thread_name_prefix="agentfly-publisher") as thread:
        try:
            yield Publisher(learner, engine, folder, thread, check)
        finally:
            shutil.rmtree(folder, ignore_errors=True)


class Publisher:
    """Gives an engine the weights of a learner, version by version."""

    def __init__(
        self,
        learner: Learner,
        engine: TrainableEngine,
        folder: Path,
        thread: ThreadPoolExecutor,
        check: Check,
    ) -> None:
        self._learner = learner
        self._engine = engine
        self._folder = folder.absolute()
        self._thread = thread
        self._check = check
        self._form = _form(learner, engine)

    async def publish_first(self, version: int) -> None:
        """Publish the weights before the first step, unless the engine was made of them."""
        if self._form is not SharedTensors:
            await self.publish(version)

    async def publish(self, version: int) -> None:
        """Have the engine sample from the weights as they are now."""
        give = partial(self._learner.weights, self._form, self._path(version))
        weights = await uninterrupted(give, self._thread)
        await self._engine.publish(weights, version)
        self._remove_others(version)
        if self._form is not SharedTensors:
            await self._check(version)

    def _path(self, version: int) -> Path:
        """Return a folder for each version: an engine may still read the one before."""
        return self._folder / f"version_{version}"

    def _remove_others(self, version: int) -> None:
        """Keep what an engine that starts again will need, and nothing else."""
        if self._folder.is_dir():
            for path in self._folder.iterdir():
                if path != self._path(version):
                    shutil.rmtree(path, ignore_errors=True)


def _form(learner: Learner, engine: TrainableEngine) -> type[Weights]:
    for form in learner.gives:
        if form in engine.takes:
            return form
    known = ", ".join(sorted(form.__name__ for form in engine.takes))
    raise ConfigError(
        f"{type(engine).__name__} can't be trained: it takes {known or 'no weights'}, expected "
        f"one of {', '.join(form.__name__ for form in learner.gives)}"
    )


T = TypeVar("T")


async def uninterrupted(function: Callable[[], T], thread: ThreadPoolExecutor) -> T:
    """Run a function to its end off the event loop.

    A cancelled waiter goes on waiting: half an update would leave weights that belong to no step.
    The cancellation is delivered at the await after this one.
    """
    loop, task = asyncio.get_running_loop(), asyncio.current_task()
    assert task is not None, "a coroutine runs in a task"
    future = loop.run_in_executor(thread, function)
    cancelled = False
    while not future.done():
        try:
            await asyncio.wait([future])
        except asyncio.CancelledError:
            task.uncancel()
            cancelled = True
    if cancelled:
        loop.call_soon(task.cancel)
    return future.result()
