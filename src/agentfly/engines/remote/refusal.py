"""From an HTTP status to a typed error that says the way out."""

import time
from email.utils import parsedate_to_datetime

from agentfly.engines.remote.retry import UnavailableError
from agentfly.errors import EngineError

EXCERPT = 300
"""Characters of a server's own words that an error message repeats."""

_WAY_OUT = {
    401: "Is api_key_env the name of the variable that holds this server's key?",
    403: "Is api_key_env the name of the variable that holds this server's key?",
    404: "Check the server's url (most end in /v1) and the model's name",
    405: "Check the server's url (most end in /v1)",
}


class NotFoundError(EngineError):
    """The server has no such route, or no such model."""


def refusal(where: str, status: int, body: bytes, retry_after: str | None) -> EngineError:
    """Return what to raise for an answer that is not a success."""
    said = f"{where} answered {status}: {excerpt(body) or 'nothing else'}"
    if status == 429 or status >= 500:
        return UnavailableError(said, retry_after=seconds_of(retry_after))
    if 300 <= status < 400:
        return EngineError(f"{said}. Redirects are not followed: give the final url")
    kind = NotFoundError if status == 404 else EngineError
    return kind(". ".join(filter(None, (said, _WAY_OUT.get(status)))))


def excerpt(body: bytes) -> str:
    """Return the beginning of what a server said, on one line."""
    text = " ".join(body[: 4 * EXCERPT].decode(errors="replace").split())
    return text if len(text) <= EXCERPT else f"{text[:EXCERPT]}…"


def seconds_of(retry_after: str | None) -> float | None:
    """Read a Retry-After header: seconds or a date. What can't be read is no wish.

    >>> seconds_of("2.5"), seconds_of("soon")
    (2.5, None)
    """
    if retry_after is None:
        return None
    try:
        return max(0.0, float(retry_after))
    except ValueError:
        pass
    try:
        moment = parsedate_to_datetime(retry_after)
    except ValueError:
        return None
    return max(0.0, moment.timestamp() - time.time())
