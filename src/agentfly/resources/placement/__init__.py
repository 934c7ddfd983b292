"""The places where instances live. All of them are lent in the same way.

instance.py         the interface, and the base of instances outside this process
in_process.py       in this process
worker_process.py   in a process each, over a socket to worker.py, the program in it
http_instance.py    behind an environment server
"""

from agentfly.resources.placement.http_instance import make_over_http
from agentfly.resources.placement.in_process import make_in_process
from agentfly.resources.placement.instance import Instance, Placement
from agentfly.resources.placement.worker_process import make_in_worker
from agentfly.runtime.names import look_up

__all__ = ["PLACEMENTS", "Instance", "Placement", "placement_of"]

PLACEMENTS: dict[str, Placement] = {
    "here": make_in_process,
    "process": make_in_worker,
    "http": make_over_http,
    "https": make_over_http,
}
"""The functions that make instances, by the scheme of `Pooling.where`."""


def placement_of(where: str) -> Placement:
    """Look up how instances are made there.

    >>> placement_of("http://localhost:8700") is make_over_http
    True
    """
    return look_up(where.partition("://")[0], PLACEMENTS, "place for environments")
