"""The placement of environments on a cluster: many instances in each of a few actors.

    manager (one, here) ──► ActorPools ──► PoolActor on node A: instances 0 … 255
       leases, queue           slots  ──► PoolActor on node B: instances 256 … 511

Leases stay with the one central manager. An actor that dies takes its instances with it: those that
are lent break with their next call, those that are idle are replaced.
"""

import itertools
import math
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from ray import cloudpickle

from agentfly.cluster.nodes import Need
from agentfly.cluster.pool_actor import PoolActor
from agentfly.cluster.worker import ClusterWorker, WorkerLostError, Workers
from agentfly.config import ClusterSettings
from agentfly.errors import ConfigError, EnvError
from agentfly.resources.placement import Placement, placement_of
from agentfly.resources.placement.instance import BrokenInstanceError, RemoteInstance
from agentfly.resources.pooling import Pooling
from agentfly.runtime.clock import in_seconds
from agentfly.types import Clock, EnvSpec

ATTEMPTS = 3
"""Actors in which making an instance is tried, if one after the other is lost."""
ANSWER_SECONDS = 5.0
"""Added to a time limit that the node itself keeps, for the way there and back."""


class ActorPools:
    """All pool actors of a run, by kind of environment."""

    def __init__(self, workers: Workers, settings: ClusterSettings, *, concurrency: int) -> None:
        """Prepare; actors start when they are needed.

        Args:
            workers: Starts actors on nodes.
            settings: Of the cluster.
            concurrency: Chains at once: the instances that are needed are spread over all nodes.
        """
        self._workers = workers
        self._settings = settings
        self._concurrency = concurrency
        self._hosts: dict[tuple[EnvSpec, Pooling], list[_Host]] = {}
        self._numbers = itertools.count()

    def placement_of(self, where: str) -> Placement:
        """Return how instances are made: on the cluster, unless a server has them already."""
        return placement_of(where) if "://" in where else self._make

    async def _make(self, spec: EnvSpec, pooling: Pooling, clock: Clock) -> "ActorInstance":
        """Make an instance in an actor with a free slot; where that is lost, in another."""
        del clock  # Other machines live in real time.
        reason = ""
        for _ in range(ATTEMPTS):
            host = self._host_with_room(spec, pooling)
            instance = ActorInstance(spec, pooling, host, next(self._numbers))
            try:
                await instance.open()
            except WorkerLostError as error:
                await instance.end()
                reason = str(error)
            except BaseException:
                await instance.end()
                raise
            else:
                return instance
        raise EnvError(f"making environment {spec.name} failed {ATTEMPTS} times: {reason}")

    def _host_with_room(self, spec: EnvSpec, pooling: Pooling) -> "_Host":
        """Take a slot in the emptiest actor; start one where all are full."""
        hosts = self._hosts.setdefault((spec, pooling), [])
        hosts[:] = [host for host in hosts if host.worker.lost is None]
        free = [host for host in hosts if host.used < host.capacity]
        if not free:
            free = [self._start(spec, pooling)]
            hosts += free
        chosen = min(free, key=lambda host: host.used)
        chosen.used += 1
        return chosen

    def _start(self, spec: EnvSpec, pooling: Pooling) -> "_Host":
        each = Need(cpus=pooling.cpus, memory_mb=pooling.memory_mb)
        node = self._workers.nodes.choose(each, spec.name)
        wanted = min(pooling.max_instances, self._concurrency)
        share = math.ceil(wanted / max(1, len(self._workers.nodes.alive)))
        capacity = min(share, self._settings.instances_per_actor, node.fits(each))
        worker = self._workers.start(
            PoolActor,
            _pickled(spec),
            pooling,
            kind="pool",
            purpose=spec.name,
            need=each.times(capacity),
            node=node,
        )
        return _Host(worker, capacity, self._settings.start_seconds)


class _Host:
    """One actor with its slots."""

    def __init__(self, worker: ClusterWorker, capacity: int, start_seconds: float) -> None:
        self.worker = worker
        self.capacity = capacity
        self.used = 0
        self._start_seconds = start_seconds
        self._answered = False

    async def make(self, number: int, seconds: float) -> Mapping[str, bool]:
        """Make an instance; the first one waits for the actor to start."""
        wait = seconds + ANSWER_SECONDS + (0.0 if self._answered else self._start_seconds)
        try:
            methods: Mapping[str, bool] = await self.worker.call("make", number, seconds=wait)
        except TimeoutError as error:
            # The node itself keeps a shorter limit: an actor that misses it too is of no use.
            reason = self.worker.lose(f"it did not answer within {in_seconds(wait)}")
            raise WorkerLostError(reason) from error
        self._answered = True
        return methods


class ActorInstance(RemoteInstance):
    """An instance in a pool actor."""

    def __init__(self, spec: EnvSpec, pooling: Pooling, host: _Host, number: int) -> None:
        super().__init__(spec, pooling, {})
        self._host = host
        self._number = number
        self._ended = False
        self._unfit: str | None = None

    @property
    def node(self) -> str:
        """Name of the node on which it lives."""
        return self._host.worker.node.name

    @property
    def unfit(self) -> str | None:
        """Why it must not be lent again: broken, worn, or its actor is lost."""
        return self._fault or self._unfit or self._host.worker.lost

    async def open(self) -> None:
        """Make the environment on its node."""
        self.methods = await self._host.make(self._number, self._pooling.make_seconds)

    def attribute(self, name: str) -> Any:
        """Return a method or a value; an async method waits in the event loop.

        A thread for each call would bound how many chains use their environments at once.
        """
        in_thread = super().attribute(name)
        if not self.methods.get(name):
            return in_thread

        async def method(*args: Any, **kwargs: Any) -> Any:
            if not self._one_call_at_a_time.acquire(blocking=False):
                return await in_thread(*args, **kwargs)  # It waits for the call before it.
            try:
                return await self._call_async(name, args, kwargs)
            finally:
                self._one_call_at_a_time.release()

        return method

    async def _call_async(self, name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        seconds = self._seconds_for(name)
        with self._guarded(name, seconds), _breaks():
            value, self._unfit = await self._host.worker.call(
                "call", self._number, name, args, kwargs, seconds=seconds + ANSWER_SECONDS
            )
        return value

    def _exchange(
        self, name: str, args: tuple[Any, ...], kwargs: dict[str, Any], deadline: float
    ) -> Any:
        if name == "close":
            return None  # `end` closes it
        seconds = self._seconds_for(name) + ANSWER_SECONDS
        with _breaks():
            value, self._unfit = self._host.worker.call_blocking(
                "call", self._number, name, args, kwargs, seconds=seconds
            )
        return value

    def _stop(self) -> None:
        """Do nothing: `end` closes what hangs."""

    async def end(self) -> None:
        """Close the environment on its node, and free its slot."""
        if self._ended:
            return
        self._ended = True
        worker = self._host.worker
        seconds = self._pooling.close_seconds + ANSWER_SECONDS
        try:
            if worker.lost is None and not worker.ended:
                await worker.call("close", self._number, seconds=seconds)
        except (WorkerLostError, TimeoutError) as error:
            worker.lose(f"closing an environment failed: {error!r}")
        finally:
            self._host.used -= 1


@contextmanager
def _breaks() -> Iterator[None]:
    """Report a lost or silent actor as a broken instance."""
    try:
        yield
    except WorkerLostError as error:
        raise BrokenInstanceError(str(error)) from error
    except TimeoutError as error:
        raise BrokenInstanceError from error


def _pickled(spec: EnvSpec) -> bytes:
    try:
        pickled: bytes = cloudpickle.dumps(spec)
    except Exception as error:
        raise ConfigError(
            f"environment {spec.name} can't be made on another node: {error}. Define its class or "
            "function at the top of a module, and give it options that can be pickled"
        ) from error
    return pickled
