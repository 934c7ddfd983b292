"""How a sandbox and its owner talk: JSON objects, each after its length in four bytes."""

import json
import struct
from typing import Any

HEADER = struct.Struct("<I")
MAX_BYTES = 32 << 20
"""No message is longer; whoever announces one that is, is not to be trusted."""


def pack(message: dict[str, Any]) -> bytes:
    r"""Return a message as bytes.

    >>> pack({"op": "ping"})
    b'\x0e\x00\x00\x00{"op": "ping"}'
    """
    body = json.dumps(message).encode()
    return HEADER.pack(len(body)) + body


def unpack(body: bytes) -> dict[str, Any]:
    """Read a message; raise ValueError if it is not a JSON object."""
    message = json.loads(body)
    if not isinstance(message, dict):
        raise ValueError(f"expected a JSON object, got {type(message).__name__}")
    return message
