"""Refusals, JSON bodies and JSON answers of our servers."""

import json
import math
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from http import HTTPStatus
from typing import Any, TypeVar

from starlette.requests import Request
from starlette.responses import Response

from agentfly.errors import DeadlineError
from agentfly.runtime.clock import LoopClock
from agentfly.runtime.invoke import invoke
from agentfly.runtime.threads import shared_threads

T = TypeVar("T")

MAX_DEPTH = 100
"""Levels of lists and objects in a body."""
LARGE = 1 << 16
"""Bytes of JSON above which reading it would delay other requests."""
_HEADERS = {"Cache-Control": "no-store", "X-Content-Type-Options": "nosniff"}


class RefusalError(Exception):
    """A request that is answered with an error.

    Args:
        status: Of the answer.
        kind: One word for programs.
        message: For people: what was wrong, what was expected, the way out.
        headers: Further headers of the answer.
    """

    def __init__(
        self,
        status: HTTPStatus,
        kind: str,
        message: str,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(message)
        self.status = status
        self.kind = kind
        self.headers = dict(headers or {})


def json_refusal(refusal: RefusalError) -> Response:
    """Answer with `{"error": {"kind": ..., "message": ...}}`."""
    body = error_body(refusal.kind, str(refusal))
    return _json(body, refusal.status, refusal.headers)


def error_body(kind: str, message: str) -> bytes:
    """Write an error as JSON."""
    return json.dumps({"error": {"kind": kind, "message": message}}).encode()


def json_answer(value: object, status: HTTPStatus = HTTPStatus.OK) -> Response:
    """Answer with a small value, which must be JSON."""
    return json_bytes(dump(value), status)


def json_bytes(body: bytes, status: HTTPStatus = HTTPStatus.OK) -> Response:
    """Answer with what `dump` has written, in a thread where it may be large."""
    return _json(body, status)


async def read_json(request: Request) -> dict[str, Any]:
    """Read a body that must be a JSON object; an empty one is `{}`."""
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != "application/json":
        raise RefusalError(
            HTTPStatus.UNSUPPORTED_MEDIA_TYPE,
            "ContentType",
            f"the body must be application/json, got {kind[:100]!r}",
        )
    body = await request.body()
    if len(body) > LARGE:
        value = await shared_threads().run(partial(_load, body), name="read JSON")
    else:
        value = _load(body)
    if not isinstance(value, dict):
        raise _bad(f"the body must be a JSON object, got a {type(value).__name__}")
    return value


async def run_in_thread(call: Callable[[], T], *, name: str, seconds: float) -> T:
    """Return what a call gives that blocks its thread; refuse the request when its time is up."""
    clock = LoopClock()
    try:
        result: T = await invoke(call, name=name, clock=clock, deadline=clock.now() + seconds)
    except DeadlineError as error:
        raise RefusalError(HTTPStatus.GATEWAY_TIMEOUT, "Timeout", str(error)) from error
    return result


def dump(value: object) -> bytes:
    """Write JSON that every language can read; raise TypeError or ValueError of anything else.

    >>> dump({"reward": 0.5, "done": True})
    b'{"reward": 0.5, "done": true}'
    """
    try:
        return json.dumps(value, allow_nan=False).encode()
    except RecursionError as error:
        raise ValueError("it is nested too deeply") from error


def _load(body: bytes) -> Any:
    if not body.strip():
        return {}
    try:
        value = json.loads(body, parse_float=_finite, parse_constant=_finite)
    except (ValueError, RecursionError) as error:
        raise _bad(f"the body is not JSON: {str(error)[:200]}") from error
    if _depth_exceeds(value, MAX_DEPTH):
        raise _bad(f"the body has more than {MAX_DEPTH} levels of lists and objects")
    return value


def _finite(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise ValueError(f"{text[:20]} is no number of JSON")
    return number


def _depth_exceeds(value: object, limit: int) -> bool:
    level = _containers([value])
    for _ in range(limit):
        inner = [
            child for one in level for child in (one.values() if isinstance(one, dict) else one)
        ]
        level = _containers(inner)
    return bool(level)


def _containers(values: Iterable[object]) -> list[dict[str, Any] | list[Any]]:
    return [value for value in values if isinstance(value, dict | list)]


def _bad(message: str) -> RefusalError:
    return RefusalError(HTTPStatus.BAD_REQUEST, "BadRequest", message)


def _json(body: bytes, status: HTTPStatus, headers: Mapping[str, str] | None = None) -> Response:
    return Response(body, status, {**_HEADERS, **(headers or {})}, "application/json")
