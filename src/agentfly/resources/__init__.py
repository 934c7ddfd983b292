"""The central manager that leases environment instances to chains.

pooling.py      how the instances of a kind are kept: where, how many, for how long; the budget
manager.py      the door: lease, snapshot, close
dispatcher.py   who asks, who gets, who gives back; line.py: who waits; allocation.py: who is next
upkeep.py       making, checking and ending instances in the background; stock.py: what there is
loan.py         an instance in a chain's hands
homes/          where instances live: here, in a process each, behind HTTP
serving/        the environment server; wire.py: the protocol it speaks
snapshot.py     who holds what and since when; report.py: as a file that others can ask for
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
