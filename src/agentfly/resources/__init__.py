"""The central manager that leases environment instances to chains.

manager.py         the interface: lease, snapshot, close; the requests of one event loop
pooling.py         settings of a kind's instances: where, how many, for how long; the budget
queue.py           the waiters; allocation.py: who is next
pool.py            the instances of one kind, and their leases
maintenance.py     making, checking and ending instances in the background
placement/         where instances live: in this process, in a process each, behind HTTP
env_server.py      the environment server; http_protocol.py: its protocol;
                   client_options.py: what clients may choose; server_sessions.py: their instances
snapshot.py        who holds what and since when, as data, as text and as a file
"""

from agentfly.resources.client_options import ClientOptions, SessionLimits
from agentfly.resources.env_server import environment_server, serve_environment
from agentfly.resources.manager import EnvironmentManager
from agentfly.resources.pooling import Pooling
from agentfly.resources.snapshot import Report, Snapshot, ask, reporting

__all__ = [
    "ClientOptions",
    "EnvironmentManager",
    "Pooling",
    "Report",
    "SessionLimits",
    "Snapshot",
    "ask",
    "environment_server",
    "reporting",
    "serve_environment",
]
