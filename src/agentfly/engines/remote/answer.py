"""Reading a server's answer as it comes in: bounded in size, and checked against what is expected.

A server may answer anything at any speed. The deadline around the request ends a slow one; here,
one that never stops talking or talks rubbish becomes an `EngineError`.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator
from typing import TYPE_CHECKING, TypeVar

from pydantic import BaseModel, ValidationError

from agentfly.engines.remote.connection import broken, import_httpx
from agentfly.engines.remote.refusal import excerpt
from agentfly.engines.remote.retry import UnavailableError
from agentfly.errors import EngineError

if TYPE_CHECKING:
    import httpx2

M = TypeVar("M", bound=BaseModel)

MAX_BYTES = 64 * 2**20
"""Far more than any completion with its log-probabilities."""

_END_OF_STREAM = "[DONE]"


class Answer:
    """The body of one response."""

    def __init__(self, response: httpx2.Response, where: str) -> None:
        self._response = response
        self._where = where

    async def body(self) -> bytes:
        """Return it whole."""
        return b"".join([chunk async for chunk in self._chunks()])

    async def json(self, kind: type[M], expected: str) -> M:
        """Return it as an object of this kind, which people know as `expected`."""
        return self.read(await self.body(), kind, expected)

    def read(self, data: str | bytes, kind: type[M], expected: str) -> M:
        """Read one JSON text, or say what was expected in its place."""
        try:
            return kind.model_validate_json(data)
        except ValidationError as error:
            first = error.errors(include_url=False)[0]
            place = ".".join(map(str, first["loc"])) or "the whole"
            said = excerpt(data.encode() if isinstance(data, str) else data)
            raise EngineError(
                f"{self._where} should have answered {expected}, but {place}: {first['msg']}. "
                f"It answered: {said or 'nothing'}"
            ) from error

    async def events(self) -> AsyncGenerator[str, None]:
        """Yield the data of each server-sent event until the server says that it is done."""
        rest = b""
        async for chunk in self._chunks():
            *lines, rest = (rest + chunk).split(b"\n")
            for line in lines:
                data = _data(line)
                if data == _END_OF_STREAM:
                    return
                if data:
                    yield data
        raise UnavailableError(f"{self._where} ended its stream without saying {_END_OF_STREAM}")

    async def _chunks(self) -> AsyncGenerator[bytes, None]:
        size = 0
        try:
            async for chunk in self._response.aiter_bytes():
                size += len(chunk)
                if size > MAX_BYTES:
                    raise EngineError(
                        f"{self._where} answered more than {MAX_BYTES // 2**20} MiB; expected one "
                        "completion"
                    )
                yield chunk
        except import_httpx().TransportError as error:
            raise broken(self._where, error) from error


def _data(line: bytes) -> str:
    """Return what a line of an event stream carries; empty for comments and other fields."""
    return line[5:].decode(errors="replace").strip() if line.startswith(b"data:") else ""
