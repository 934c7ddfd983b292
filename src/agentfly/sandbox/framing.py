r"""Messages between a sandbox and its owner, each after its length in four bytes.

A request is one JSON object. An answer is a small JSON head and raw parts, so that reading it
is always cheap, even if a hostile sandbox sent it:

    request   {"op": "run", "code": "print(1)", "number": 1}
    answer    head length | {"number": 1, …, "parts": [["stdout", 2], ["value", 1]]} | 1\n | 2
"""

import json
import struct
from collections.abc import Iterable
from typing import Any, NamedTuple

HEADER = struct.Struct("<I")
MAX_HEAD_BYTES = 4096
MAX_PARTS = 64

Part = tuple[str, bytes]


class NonsenseError(ValueError):
    """The bytes are not a message of this protocol."""


class Answer(NamedTuple):
    """An answer whose framing was checked, and nothing else of it."""

    head: dict[str, Any]
    parts: list[Part]


def frame(body: bytes) -> bytes:
    r"""Put the length in front.

    >>> frame(b"hi")
    b'\x02\x00\x00\x00hi'
    """
    return HEADER.pack(len(body)) + body


def pack(message: dict[str, Any]) -> bytes:
    """Return a request as bytes, with its length."""
    return frame(json.dumps(message).encode())


def unpack(body: bytes) -> dict[str, Any]:
    """Read a request; raise NonsenseError if it is not a JSON object."""
    try:
        message = json.loads(body)
    except (ValueError, RecursionError) as error:
        raise NonsenseError(f"not JSON: {error}") from error
    if not isinstance(message, dict):
        raise NonsenseError(f"expected a JSON object, got {type(message).__name__}")
    return message


def pack_answer(head: dict[str, Any], parts: Iterable[Part]) -> bytes:
    """Return an answer as bytes, with its length."""
    parts = list(parts)
    sizes = [[name, len(data)] for name, data in parts]
    text = json.dumps({**head, "parts": sizes}).encode()
    return frame(b"".join((HEADER.pack(len(text)), text, *(data for _, data in parts))))


def unpack_answer(body: bytes) -> Answer:
    """Read an answer; raise NonsenseError if it is none.

    >>> unpack_answer(pack_answer({"number": 1}, [("value", b"2")])[HEADER.size:])
    Answer(head={'number': 1}, parts=[('value', b'2')])
    """
    start = HEADER.size + _head_size(body)
    head = unpack(body[HEADER.size : start])
    parts = []
    for name, size in _sizes(head.pop("parts", None)):
        parts.append((name, body[start : start + size]))
        start += size
    if start != len(body):
        raise NonsenseError(f"parts of {start} bytes in a message of {len(body)}")
    return Answer(head, parts)


def _head_size(body: bytes) -> int:
    if len(body) < HEADER.size:
        raise NonsenseError(f"a message of {len(body)} bytes")
    size: int = HEADER.unpack_from(body)[0]
    if size > min(MAX_HEAD_BYTES, len(body) - HEADER.size):
        raise NonsenseError(f"a head of {size} bytes in a message of {len(body)}")
    return size


def _sizes(parts: object) -> list[tuple[str, int]]:
    if not isinstance(parts, list) or len(parts) > MAX_PARTS:
        raise NonsenseError("no list of parts")
    for part in parts:
        match part:
            case [str(), int(size)] if type(size) is int and size >= 0:
                pass
            case _:
                raise NonsenseError(f"no name and size of a part: {part!r:.80}")
    return [(name, size) for name, size in parts]
