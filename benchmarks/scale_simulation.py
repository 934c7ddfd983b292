"""A simulation of many chains on many nodes, from CPU times that `benchmarks.scale` measures."""

import heapq
import math
import random
from dataclasses import dataclass

SATURATED = 0.9
"""Share of the time above which a process is a bottleneck."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Simulated:
    """What a simulation of many chains says."""

    chains_per_s: float
    ideal_per_s: float
    driver_share: float
    """Share of the time in which the run's own process is busy."""
    node_share: float
    """The same of the busiest core of the nodes, one per node."""
    wait_p99_s: float
    """Seconds that an event of a chain waits for the run's own process."""

    @property
    def bottleneck(self) -> str:
        if max(self.driver_share, self.node_share) < SATURATED:
            return "none: the generation itself, and the number of environments"
        return "the run's own process" if self.driver_share > self.node_share else "the nodes"


def simulate(
    chains: int,
    nodes: int,
    *,
    turns: int,
    driver_ms: float,
    node_ms: float,
    turn_seconds: float,
) -> Simulated:
    """Simulate chains whose every turn passes through one driver and then one core of a node.

    A turn is a generation, then a share of the driver's and of the node's CPU time of a chain,
    each taken in the order of arrival.

    Args:
        chains: Number of chains at once; each that ends is followed by another.
        nodes: Number of nodes, of which each has one core for its environments.
        turns: Number of turns of a chain.
        driver_ms: CPU time of a chain in the run's own process.
        node_ms: CPU time of a chain on its node.
        turn_seconds: Mean duration of a turn's generation.
    """
    rng = random.Random(7)
    driver_each, node_each = driver_ms / 1e3 / turns, node_ms / 1e3 / turns
    driver_free, node_free = 0.0, [0.0] * nodes
    driver_busy, node_busy = 0.0, [0.0] * nodes
    ready = [(rng.uniform(0, turn_seconds), chain) for chain in range(chains)]
    heapq.heapify(ready)
    waits, finished = [], 0
    end, half = 6 * turn_seconds, 3 * turn_seconds
    while ready[0][0] < end:
        now, chain = heapq.heappop(ready)
        begin = max(now, driver_free)
        driver_free = begin + driver_each
        node = chain % nodes
        node_begin = max(driver_free, node_free[node])
        node_free[node] = node_begin + node_each
        if now >= half:  # after the chains have settled
            waits.append(begin - now)
            driver_busy += driver_each
            node_busy[node] += node_each
            finished += 1
        heapq.heappush(ready, (node_free[node] + rng.uniform(0.5, 1.5) * turn_seconds, chain))
    seconds = end - half
    waits.sort()
    return Simulated(
        chains_per_s=min(finished / turns, seconds / driver_each / turns) / seconds,
        ideal_per_s=chains / (turn_seconds * turns),
        driver_share=min(1.0, driver_busy / seconds),
        node_share=min(1.0, max(node_busy) / seconds),
        wait_p99_s=waits[math.ceil(len(waits) * 0.99) - 1],
    )
