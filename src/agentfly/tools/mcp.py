"""Tools of an MCP server, over stdio or streamable HTTP. Needs `agentfly[mcp]`."""

import base64
import functools
import importlib.util
import json
import re
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from agentfly.errors import ConfigError, DeadlineError
from agentfly.runtime.clock import in_seconds
from agentfly.tools.from_schema import tool_from_schema
from agentfly.tools.function import DEFAULT_SECONDS, FunctionTool
from agentfly.tools.mcp_connection import CONNECT_SECONDS, Connection, over_http, over_stdio
from agentfly.tools.tool_result import DONE, PICTURE
from agentfly.types import Image, ToolResult, ToolStatus

if TYPE_CHECKING:
    from mcp import Client
    from mcp.types import CallToolResult, ContentBlock
    from mcp.types import Tool as ServerTool

PROBE_SECONDS = 5.0
"""After a timed-out call, a server that lists its tools within this time is busy, not hung."""


@asynccontextmanager
async def mcp_tools(
    server: str | Sequence[str],
    *,
    env: Mapping[str, str] | None = None,
    headers: Mapping[str, str] | None = None,
    timeout: float = DEFAULT_SECONDS,
    max_length: int | None = None,
) -> AsyncIterator[tuple[FunctionTool[..., Any], ...]]:
    """Connect to a server and yield its tools, which work until the block is left.

    Errors that a tool reports are observations for the model. A dead or hanging server is an
    EnvError, after which the next call reconnects.

    Args:
        server: The address of a server (streamable HTTP), or the command that starts one (stdio).
        env: Additional environment variables for the command.
        headers: Additional HTTP headers, for example for authorization.
        timeout: Maximum seconds of one call.
        max_length: Maximum characters of an observation.

    Example:
        async with mcp_tools(["python", "weather_server.py"]) as tools:
            agent = Agent(model, tools=tools)
    """
    _require_installed()
    connection = _connection(server, env, headers)
    try:
        offered = await connection.request(_list_tools, seconds=CONNECT_SECONDS)
        yield tuple(_tool(connection, tool, timeout, max_length) for tool in offered)
    finally:
        await connection.close()


def _require_installed() -> None:
    if importlib.util.find_spec("mcp") is None:
        raise ConfigError("tools of MCP servers need the package mcp: pip install 'agentfly[mcp]'")


def _connection(
    server: str | Sequence[str], env: Mapping[str, str] | None, headers: Mapping[str, str] | None
) -> Connection:
    if server and not isinstance(server, str):
        return Connection(server[0], functools.partial(over_stdio, server, env))
    if isinstance(server, str) and server.startswith(("http://", "https://")):
        return Connection(server, functools.partial(over_http, server, headers))
    raise ConfigError(
        "an MCP server is an address that starts with http:// or https://, or a command as a list "
        f'such as ["python", "server.py"], got {server!r}'
    )


async def _list_tools(client: "Client") -> "list[ServerTool]":
    page = await client.list_tools(cache_mode="bypass")
    tools = page.tools
    while page.next_cursor is not None:
        page = await client.list_tools(cursor=page.next_cursor)
        tools = [*tools, *page.tools]
    return tools


def _tool(
    connection: Connection, offered: "ServerTool", timeout: float, max_length: int | None
) -> FunctionTool[..., Any]:
    return tool_from_schema(
        # A server may use dots and slashes, which call formats don't allow.
        re.sub(r"[^a-zA-Z0-9_-]", "_", offered.name)[:64],
        offered.description or offered.title or offered.name,
        offered.input_schema,
        functools.partial(_call, connection, offered.name, timeout),
        # `_call` enforces the timeout itself, and then needs time to check the server.
        timeout=timeout + CONNECT_SECONDS + PROBE_SECONDS,
        max_length=max_length,
    )


async def _call(
    connection: Connection, tool: str, seconds: float, /, **arguments: Any
) -> ToolResult:
    try:
        answer = await connection.request(
            lambda client: client.call_tool(tool, arguments), seconds=seconds
        )
    except DeadlineError:
        await connection.require_alive(_list_tools, seconds=PROBE_SECONDS)
        raise DeadlineError(f"tool {tool!r} did not answer within {in_seconds(seconds)}") from None
    return _to_result(answer)


def _to_result(answer: "CallToolResult") -> ToolResult:
    images = tuple(
        Image(data=base64.b64decode(block.data), media_type=block.mime_type)
        for block in answer.content
        if block.type == "image"
    )
    text = "\n".join(said for block in answer.content if (said := _text(block)))
    structured = answer.structured_content
    if not text and structured is not None:
        text = json.dumps(structured, ensure_ascii=False)
    result = ToolResult(
        observation=text or (PICTURE if images else DONE),
        images=images,
        info={} if structured is None else {"structured_content": structured},
    )
    return replace(result, status=ToolStatus.ERROR) if answer.is_error else result


def _text(block: "ContentBlock") -> str:
    match block.type:
        case "text":
            return block.text
        case "resource":
            return str(getattr(block.resource, "text", f"[resource {block.resource.uri}]"))
        case "resource_link":
            return f"[resource {block.uri}]"
        case "audio":
            return f"[audio of type {block.mime_type}]"
        case _:
            return ""
