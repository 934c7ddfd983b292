"""The foundation of all HTTP servers of the project, on starlette and uvicorn.

address.py      tokens and host names: who may ask; standard library only, used by clients too
messages.py     refusals, JSON bodies and JSON answers
guard.py        every request: host, token, size and time of the body, errors
server.py       starting and stopping, in the running event loop or in a thread; the connections,
                with time limits for headers and for reading answers, and their maximum number

All but address.py need the extra `server`, so they are imported where a server is started.
"""

from agentfly.errors import ConfigError
from agentfly.runtime.extra import missing_packages


def require_server_packages(purpose: str) -> None:
    """Raise ConfigError, with the command that installs them, if server packages are missing."""
    missing = missing_packages(("starlette", "uvicorn"), extra="server", purpose=purpose)
    if missing is not None:
        raise ConfigError(missing)
