"""Where instances live. All of them are lent in the same way.

here.py      in this process
process.py   in a process each, by frames.py over a socket to worker.py, the program in it
http.py      behind an environment server
remote.py    what instances outside this process have in common
"""

from agentfly.resources.homes.here import make_here
from agentfly.resources.homes.http import make_over_http
from agentfly.resources.homes.instance import Home, Instance
from agentfly.resources.homes.process import make_in_process
from agentfly.runtime.names import look_up

__all__ = ["HOMES", "Home", "Instance", "home_of"]

HOMES: dict[str, Home] = {
    "here": make_here,
    "process": make_in_process,
    "http": make_over_http,
    "https": make_over_http,
}
"""By what `Pooling.where` begins with. Another kind of place is another entry."""


def home_of(where: str) -> Home:
    """Look up how instances are made there.

    >>> home_of("http://localhost:8700") is make_over_http
    True
    """
    return look_up(where.partition("://")[0], HOMES, "place for environments")
