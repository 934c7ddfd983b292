"""The driver's side of a worker: calls end at a deadline, and its loss is noticed once."""

import asyncio
import itertools
import logging
import pickle
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import ray
from ray.exceptions import (
    ActorDiedError,
    ActorUnavailableError,
    ActorUnschedulableError,
    GetTimeoutError,
    RayError,
    RayTaskError,
)
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from agentfly.cluster.nodes import SUSPECT_SECONDS, Need, Node, Nodes
from agentfly.cluster.worker_actor import WorkerActor, WorkerReport
from agentfly.resources.placement.worker import Answer

MAX_CONCURRENT = 4096
"""Calls that one actor has under way at once."""

_log = logging.getLogger(__name__)


class WorkerLostError(Exception):
    """A worker or its node died, or can't be reached."""


class ClusterWorker:
    """One actor on one node."""

    def __init__(self, *, name: str, purpose: str, need: Need, node: Node, actor: Any) -> None:
        self.name = name
        self.purpose = purpose
        self.node = node
        self.actor = actor
        self.lost: str | None = None
        """Why it can't be used any more."""
        self.ended = False
        self.last_report: WorkerReport | None = None
        self._need = need

    async def call(self, method: str, *args: Any, seconds: float) -> Any:
        """Call a method that answers; raise what it raised, WorkerLostError or TimeoutError."""
        return _value(await self.raw_call(method, *args, seconds=seconds))

    async def raw_call(self, method: str, *args: Any, seconds: float) -> Any:
        """Call any method, and return what Ray returns. A call that is given up is cancelled."""
        with self._losses():
            reference = getattr(self.actor, method).remote(*args)
            try:
                async with asyncio.timeout(seconds):
                    return await asyncio.wrap_future(reference.future())
            except (asyncio.CancelledError, TimeoutError):
                ray.cancel(reference)
                raise

    def call_blocking(self, method: str, *args: Any, seconds: float) -> Any:
        """Do the same in a thread that may wait."""
        with self._losses():
            reference = getattr(self.actor, method).remote(*args)
            try:
                return _value(ray.get(reference, timeout=seconds))
            except GetTimeoutError as error:
                ray.cancel(reference)
                raise TimeoutError(f"{method} of {self.name}") from error

    def post(self, method: str, *args: Any) -> None:
        """Call a method without waiting for it."""
        if self.lost is None and not self.ended:
            getattr(self.actor, method).remote(*args)

    def lose(self, reason: str) -> str:
        """Stop using it, let nothing of it remain, and return why."""
        if self.lost is not None or self.ended:
            return self.lost or f"worker {self.name} has ended"
        self.lost = f"worker {self.name} on node {self.node.name} was lost: {reason}"
        self.node.suspect_until = time.monotonic() + SUSPECT_SECONDS
        _log.warning("%s", self.lost)
        self.end()
        return self.lost

    def end(self) -> None:
        """End the actor at once, with everything that it started."""
        if not self.ended:
            self.ended = True
            self.node.reserve(self._need, self.purpose, sign=-1)
            ray.kill(self.actor, no_restart=True)

    @contextmanager
    def _losses(self) -> Iterator[None]:
        if self.lost is not None or self.ended:
            raise WorkerLostError(self.lose("it has ended"))
        try:
            yield
        except (ActorDiedError, ActorUnavailableError, ActorUnschedulableError) as error:
            raise WorkerLostError(self.lose(str(error).strip().splitlines()[0])) from error
        except RayTaskError:
            raise
        except RayError as error:
            raise WorkerLostError(self.lose(f"{type(error).__name__}: {error}")) from error


def _value(frame: bytes) -> Any:
    answer = pickle.loads(frame)
    assert isinstance(answer, Answer), "workers answer with nothing else"
    if answer.error is not None:
        raise answer.error
    return answer.value


class Workers:
    """All workers of a run, placed over the nodes."""

    def __init__(self, nodes: Nodes) -> None:
        self.nodes = nodes
        self.all: list[ClusterWorker] = []
        self.started: Counter[str] = Counter()
        self._numbers = itertools.count()

    @property
    def lost(self) -> int:
        """Number of workers that were lost so far."""
        return sum(worker.lost is not None for worker in self.all)

    def start(
        self,
        actor_class: type[WorkerActor],
        *args: Any,
        kind: str,
        purpose: str,
        need: Need,
        variables: dict[str, str] | None = None,
        node: Node | None = None,
        strategy: Any = None,
    ) -> ClusterWorker:
        """Start a worker on the node that suits it best; raise EnvError where none has room.

        Args:
            actor_class: The actor, made of `args`.
            *args: What it is made of.
            kind: Begins its name.
            purpose: Workers of one purpose are spread over the nodes.
            need: Resources that it reserves.
            variables: Of its environment.
            node: Where it goes.
            strategy: Ray's strategy that puts it there; by default it is bound to the node.
        """
        node = node or self.nodes.choose(need, purpose)
        actor = (
            _remote(actor_class)
            .options(
                **need.options,
                max_concurrency=MAX_CONCURRENT,
                max_restarts=0,
                max_task_retries=0,
                scheduling_strategy=strategy or NodeAffinitySchedulingStrategy(node.id, soft=False),
                runtime_env={"env_vars": variables} if variables else None,
            )
            .remote(import_paths(), *args)
        )
        name = f"{kind}-{self.started[kind]}"
        self.started[kind] += 1
        node.reserve(need, purpose)
        worker = ClusterWorker(name=name, purpose=purpose, need=need, node=node, actor=actor)
        self.all.append(worker)
        _log.info("worker %s starts on node %s", name, node.name)
        return worker

    def end_all(self) -> None:
        """End all of them at once."""
        for worker in self.all:
            worker.end()


def import_paths() -> list[str]:
    """Return the folders from which this process imports, whatever a worker's folder is."""
    return [str(Path(path).absolute()) for path in sys.path]


_REMOTE: dict[type[WorkerActor], Any] = {}


def _remote(actor_class: type[WorkerActor]) -> Any:
    """Return the class as Ray's, registered once."""
    return _REMOTE.setdefault(actor_class, ray.remote(actor_class))
