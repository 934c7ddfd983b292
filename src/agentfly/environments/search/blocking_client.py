"""A blocking JSON client for one server, with retries within a time limit."""

from typing import TypeVar

from pydantic import BaseModel

from agentfly.errors import DeadlineError, EnvError, HttpError
from agentfly.runtime.background import run_blocking
from agentfly.runtime.clock import LoopClock
from agentfly.runtime.http_client import Call, Endpoint, HttpClient, HttpResponse

M = TypeVar("M", bound=BaseModel)

SECONDS = 20.0
"""Time limit of one request with all retries; less than the timeout of a tool call."""


class BlockingClient:
    """A client of a server that answers in JSON; failures of the server raise EnvError."""

    def __init__(self, endpoint: Endpoint, *, seconds: float = SECONDS) -> None:
        self._clock = LoopClock()
        self._server = HttpClient(endpoint, self._clock)
        self._seconds = seconds

    def ask(self, call: Call, kind: type[M], expected: str) -> M:
        """Return the answer as an object of this kind; error messages call it `expected`."""
        try:
            return run_blocking(self._ask(call, kind, expected))
        except (HttpError, DeadlineError) as error:
            raise EnvError(str(error)) from error

    async def _ask(self, call: Call, kind: type[M], expected: str) -> M:
        async def read(answer: HttpResponse) -> M:
            return await answer.json(kind, expected)

        return await self._server.request(call, read, deadline=self._clock.now() + self._seconds)

    def close(self) -> None:
        """Cancel running requests and close the connections."""
        run_blocking(self._server.close())
