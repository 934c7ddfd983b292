"""Heavy tools and rewards as tasks of the cluster, each call in a process of its own."""

import asyncio
import functools
import importlib
import inspect
import pickle
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import ray
from ray import cloudpickle
from ray.exceptions import RayError, TaskCancelledError

from agentfly.cluster.nodes import Need
from agentfly.cluster.worker import import_paths
from agentfly.cluster.worker_actor import OutputLines, add_import_paths, answered
from agentfly.errors import ConfigError, EnvError
from agentfly.resources.placement.worker import Answer
from agentfly.types import Heavy

OnLines = Callable[[Sequence[str]], None]
"""Takes what a call printed and logged."""


class HeavyTasks:
    """Sends calls of heavy functions to nodes with free resources."""

    def __init__(self, on_lines: OnLines) -> None:
        self.sent = 0
        self._on_lines = on_lines

    def offload(
        self, function: Callable[..., Any], heavy: Heavy, name: str
    ) -> Callable[..., Awaitable[Any]]:
        """Return an async function that calls another on the cluster.

        Its caller's deadline cancels it, and that ends the process on the node. A node that dies is
        an EnvError: a failure of infrastructure.
        """
        pickled = _pickled(function, name)
        need = Need(cpus=heavy.cpus, gpus=heavy.gpus, memory_mb=heavy.memory_mb)

        @functools.wraps(function)
        async def call(*args: Any, **kwargs: Any) -> Any:
            self.sent += 1
            task = _run.options(**need.options, max_retries=0, scheduling_strategy="SPREAD")
            reference = task.remote(import_paths(), pickled, cloudpickle.dumps((args, kwargs)))
            try:
                frame, lines = await asyncio.wrap_future(reference.future())
            except asyncio.CancelledError:
                ray.cancel(reference, force=True)
                raise
            except (RayError, TaskCancelledError) as error:
                reason = str(error).strip().splitlines()[0]
                raise EnvError(f"{name} was lost on the cluster: {reason}") from error
            self._on_lines(lines)
            return _value(frame)

        return call


@ray.remote
def _run(paths: Sequence[str], function: bytes, arguments: bytes) -> tuple[bytes, tuple[str, ...]]:
    add_import_paths(paths)
    output = _output()

    async def work() -> Any:
        called = pickle.loads(function)
        args, kwargs = pickle.loads(arguments)
        result = called(*args, **kwargs)
        return await result if inspect.isawaitable(result) else result

    frame = asyncio.run(answered(work()))
    return frame, output.take()[0]


@functools.cache
def _output() -> OutputLines:
    """Return the lines of this process, which may run many tasks one after the other."""
    lines = OutputLines()
    lines.install()
    return lines


class _ByName:
    """A function that is imported where it runs, with whatever its module holds."""

    def __init__(self, module: str, name: str) -> None:
        self._module = module
        self._name = name

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return _find(self._module, self._name)(*args, **kwargs)


def _pickled(function: Callable[..., Any], name: str) -> bytes:
    module, path = getattr(function, "__module__", ""), getattr(function, "__qualname__", "")
    try:
        if module not in ("__main__", None) and _find(module, path) is function:
            return pickle.dumps(_ByName(module, path))
    except (ImportError, AttributeError, ValueError):
        pass  # Defined inside of a function, or a partial: sent as a whole.
    try:
        whole: bytes = cloudpickle.dumps(function)
    except Exception as error:
        raise ConfigError(
            f"{name} is heavy and can't be sent to another machine: {error}. Define its function "
            "at the top of a module"
        ) from error
    return whole


def _find(module: str, path: str) -> Callable[..., Any]:
    """Return a module's function, under the tool or reward that was made of it."""
    found: Any = importlib.import_module(module)
    for part in path.split("."):
        found = getattr(found, part)
    plain: Callable[..., Any] = inspect.unwrap(found)
    return plain


def _value(frame: bytes) -> Any:
    answer = pickle.loads(frame)
    assert isinstance(answer, Answer), "tasks answer with nothing else"
    if answer.error is not None:
        raise answer.error
    return answer.value
