"""Asking one server, within a time, again after what may pass."""

from typing import TypeVar

from pydantic import BaseModel

from agentfly.errors import DeadlineError, EnvError, HttpError
from agentfly.runtime.background import run_blocking
from agentfly.runtime.clock import LoopClock
from agentfly.runtime.http_client import Call, Endpoint, HttpClient, HttpResponse

M = TypeVar("M", bound=BaseModel)

SECONDS = 20.0
"""For one question with all its attempts: less than a tool call may take."""


class Client:
    """A server that answers in JSON. What it can't answer is an EnvError: nobody's fault here."""

    def __init__(self, endpoint: Endpoint, *, seconds: float = SECONDS) -> None:
        self._clock = LoopClock()
        self._server = HttpClient(endpoint, self._clock)
        self._seconds = seconds

    def ask(self, call: Call, kind: type[M], expected: str) -> M:
        """Return the answer as an object of this kind, which people know as `expected`."""
        try:
            return run_blocking(self._ask(call, kind, expected))
        except (HttpError, DeadlineError) as error:
            raise EnvError(str(error)) from error

    async def _ask(self, call: Call, kind: type[M], expected: str) -> M:
        async def read(answer: HttpResponse) -> M:
            return await answer.json(kind, expected)

        return await self._server.request(call, read, deadline=self._clock.now() + self._seconds)

    def close(self) -> None:
        """End what is under way, and close the connections."""
        run_blocking(self._server.close())
