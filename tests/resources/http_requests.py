"""Requests to a server of the tests, as programs in other languages send them."""

import asyncio
import http.client
import json
from typing import Any
from urllib.parse import urlsplit

from tests.patience import PATIENCE

from agentfly.runtime.http.address import split_token


async def ask(url: str, verb: str, path: str, body: Any, **headers: str) -> tuple[int, Any]:
    """Send a request with the token of the address; return status and JSON."""

    def exchange() -> tuple[int, Any]:
        bare, token = split_token(url)
        connection = http.client.HTTPConnection(urlsplit(bare).netloc, timeout=PATIENCE)
        text = body if isinstance(body, bytes | None) else json.dumps(body).encode()
        sent = {"Content-Type": "application/json", "Authorization": f"Bearer {token}", **headers}
        connection.request(verb, path, text, {k: v for k, v in sent.items() if v})
        response = connection.getresponse()
        answer = response.read()
        connection.close()
        return response.status, json.loads(answer) if answer else None

    return await asyncio.get_running_loop().run_in_executor(None, exchange)
