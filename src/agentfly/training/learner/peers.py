"""The processes of one learner, seen from one of them, and what they exchange.

Objects and numbers go over gloo, on processors; weights and gradients go by FSDP2's own collectives
over the same processes, on GPUs by NCCL. A learner in one process has no peers, and every exchange
returns what it was given.
"""

import fcntl
import json
import os
import socket
import struct
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, TypeVar, cast

import torch
import torch.distributed as dist
from torch import Tensor
from torch._C._distributed_c10d import PrefixStore, TCPStore
from torch.distributed.device_mesh import init_device_mesh

from agentfly.config import LearnerSettings
from agentfly.errors import ConfigError

T = TypeVar("T")

TERMS, READY = "agentfly/terms", "agentfly/ready/"
"""Keys in the store."""
JOINING = timedelta(minutes=10)
"""Longest wait for the first process to be there, and for what it says."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Terms:
    """Settings that all processes need before they can communicate."""

    settings: LearnerSettings
    device: str
    """"cpu" or "cuda"."""

    def dump(self) -> str:
        """Return it as text for the store."""
        return json.dumps({"device": self.device, "settings": self.settings.model_dump()})

    @classmethod
    def load(cls, text: bytes) -> "Terms":
        """Read what `dump` returned."""
        found = json.loads(text)
        settings = LearnerSettings.model_validate(found["settings"])
        return cls(device=found["device"], settings=settings)


@dataclass(frozen=True, slots=True, kw_only=True)
class LearnerRank:
    """Place of one process among those of a learner.

    >>> LearnerRank(rank=1, world_size=2, address="127.0.0.1:29500").node_rank
    1
    """

    rank: int
    """0 for the process that also runs the loop."""
    world_size: int
    address: str
    """`host:port` at which rank 0 serves the store that the others join by."""
    local_rank: int | None = None
    """Number among the processes of its machine, which is that of its GPU; by default its rank."""
    local_world_size: int | None = None
    """Number of processes on its machine; by default all of them."""
    gpu: int | None = None
    """Number of its GPU, among those that it sees; by default its number on its machine."""
    host: str | None = None
    """Address of its machine's interface to the others; by default torch finds one."""

    def __post_init__(self) -> None:
        if not 0 <= self.rank < self.world_size:
            raise ConfigError(
                f"a rank must be from 0 to world_size - 1 = {self.world_size - 1}, got {self.rank}"
            )
        host, _, port = self.address.rpartition(":")
        if not host or not port.isdecimal():
            raise ConfigError(f"an address must be host:port, got {self.address!r}")

    @property
    def node_rank(self) -> int:
        """Number among the processes of its machine."""
        return self.rank if self.local_rank is None else self.local_rank

    @property
    def node_size(self) -> int:
        """Number of processes on its machine."""
        return self.world_size if self.local_world_size is None else self.local_world_size


def torchrun_rank() -> LearnerRank | None:
    """Return the place that torchrun gave this process; None without torchrun, or alone."""
    if int(os.environ.get("WORLD_SIZE", "1")) == 1 or "RANK" not in os.environ:
        return None
    return LearnerRank(
        rank=int(os.environ["RANK"]),
        world_size=int(os.environ["WORLD_SIZE"]),
        address=f"{os.environ['MASTER_ADDR']}:{os.environ['MASTER_PORT']}",
        local_rank=int(os.environ["LOCAL_RANK"]),
        local_world_size=int(os.environ["LOCAL_WORLD_SIZE"]),
    )


def attempt() -> int:
    """Return how often torchrun has started all processes again, after it lost one of them."""
    return int(os.environ.get("TORCHELASTIC_RESTART_COUNT", "0"))


class Peers:
    """A learner's processes; `Peers()` is one without others."""

    def __init__(
        self,
        place: LearnerRank | None = None,
        settings: LearnerSettings | None = None,
        *,
        mesh: Any = None,
        turns: int = 1,
    ) -> None:
        self.place = place
        self.settings = settings or LearnerSettings()
        self.rank = place.rank if place else 0
        self.size = place.world_size if place else 1
        self.mesh = mesh
        """The processes as FSDP2 takes them; None where the model is not sharded."""
        self._turns = turns

    @property
    def is_sharded(self) -> bool:
        """Whether weights are spread over the processes by FSDP2, perhaps over one."""
        return self.mesh is not None

    def from_first(self, value: T) -> T:
        """Return what rank 0 passed."""
        if self.size == 1:
            return value
        values = [value]
        dist.broadcast_object_list(values, src=0, device=torch.device("cpu"))
        return values[0]

    def total(self, numbers: Tensor) -> Tensor:
        """Return the sum over all processes, on the processor."""
        summed = numbers.detach().cpu()
        if self.size > 1:
            summed = summed.clone()
            dist.all_reduce(summed)
        return summed

    def sum(self, number: float) -> float:
        """Return the sum over all processes."""
        return self.total(torch.tensor([number], dtype=torch.float64)).item()

    def all_of(self, value: T) -> list[T]:
        """Return what each process passed, by rank; at other ranks than 0, only its own."""
        if self.size == 1:
            return [value]
        found: list[T | None] | None = [None] * self.size if self.rank == 0 else None
        dist.gather_object(value, found, dst=0)
        return [value] if found is None else cast(list[T], found)

    @contextmanager
    def in_turn(self) -> Iterator[None]:
        """Let the processes of a machine run the block one after the other.

        Each of them may hold a whole model in memory there.
        """
        before = self.place.node_rank if self.place and self.size > 1 else 0
        self._wait(before)
        yield
        self._wait(self._turns - before if self.size > 1 else 0)

    def _wait(self, times: int) -> None:
        for _ in range(times):
            self.total(torch.zeros(1))


def share(sizes: Sequence[int], peers: int) -> list[list[int]]:
    """Deal things to processes, so that the sums of their sizes are about equal.

    >>> share([5, 9, 4, 3], peers=2)
    [[1, 3], [0, 2]]
    """
    hands: list[list[int]] = [[] for _ in range(peers)]
    for index in sorted(range(len(sizes)), key=lambda i: -sizes[i]):
        min(hands, key=lambda hand: sum(sizes[i] for i in hand)).append(index)
    return [sorted(hand) for hand in hands]


@contextmanager
def joined(
    place: LearnerRank, terms: "Terms | None" = None, *, store: Any = None
) -> Iterator[Peers]:
    """Join the other processes, and leave them at the end.

    Args:
        place: The place of this process.
        terms: In the first process, what all of them agree on; the others read it from the store.
        store: The store, if this process serves it already.
    """
    store = store or _join_store(place)
    if terms is not None:
        store.set(TERMS, terms.dump())
    store.set(f"{READY}{place.rank}", b"")
    terms = terms or Terms.load(store.get(TERMS))
    device, within = terms.device, timedelta(seconds=terms.settings.timeout_seconds)
    if device == "cuda":
        torch.cuda.set_device(place.node_rank if place.gpu is None else place.gpu)
    if place.host is not None:
        os.environ["GLOO_SOCKET_IFNAME"] = interface_of(place.host)
    dist.init_process_group(
        "cpu:gloo,cuda:nccl" if device == "cuda" else "gloo",
        store=store,
        rank=place.rank,
        world_size=place.world_size,
        timeout=within,
    )
    try:
        mesh = init_device_mesh(device, (place.world_size,), mesh_dim_names=("shards",))
        turns = torch.tensor([place.node_size])
        dist.all_reduce(turns, dist.ReduceOp.MAX)
        yield Peers(place, terms.settings, mesh=mesh, turns=int(turns))
    finally:
        dist.destroy_process_group()


def serve_store(host: str) -> Any:
    """Serve the store at a free port of one address; its attribute `port` names the port."""
    # By itself the store would listen on all interfaces, and whoever reaches it can write to it.
    listening = socket.create_server((host, 0))
    port = listening.getsockname()[1]
    return TCPStore(
        *(host, port, None),
        is_master=True,
        wait_for_workers=False,
        timeout=JOINING,
        master_listen_fd=listening.detach(),
    )


_GET_ADDRESS = 0x8915
"""Linux's SIOCGIFADDR."""


def interface_of(host: str) -> str:
    """Return the name of the network interface that has an IPv4 address.

    >>> interface_of("127.0.0.1")
    'lo'
    """
    wanted, found = socket.inet_aton(host), []
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asking:
        for _, name in socket.if_nameindex():
            try:
                answer = fcntl.ioctl(asking, _GET_ADDRESS, struct.pack("256s", name.encode()))
            except OSError:  # It has none.
                continue
            found.append(f"{name} {socket.inet_ntoa(answer[20:24])}")
            if answer[20:24] == wanted:
                return name
    raise ConfigError(
        f"no network interface of this machine has the address {host}: it has {', '.join(found)}"
    )


def absent(store: Any, world_size: int) -> list[int]:
    """Return the ranks that have not joined yet."""
    others = range(1, world_size)
    return [rank for rank in others if not store.check([f"{READY}{rank}"])]


def _join_store(place: LearnerRank) -> Any:
    host, _, port = place.address.rpartition(":")
    # torchrun's own process serves it already, and through all restarts.
    served = os.environ.get("TORCHELASTIC_USE_AGENT_STORE") == "True"
    store = TCPStore(
        *(host, int(port), None),
        is_master=place.rank == 0 and not served,
        wait_for_workers=False,
        timeout=JOINING,
    )
    return PrefixStore(f"agentfly/attempt_{attempt()}", store) if served else store
