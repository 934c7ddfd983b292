"""An environment server: what another pool, in any language, leases over HTTP.

server.py     starting and stopping it
clients.py    what clients may choose, and how much they may hold
app.py        the requests; sessions.py: the instances in clients' hands
"""

from agentfly.resources.serving.clients import ClientOptions, SessionLimits
from agentfly.resources.serving.server import environment_server, serve_environment

__all__ = ["ClientOptions", "SessionLimits", "environment_server", "serve_environment"]
