"""A server for the tests: `python mcp_server.py stdio`, or `python mcp_server.py http`."""

import asyncio
import os
import socket
import sys
import time

from mcp import MCPError
from mcp.server.mcpserver import Image, MCPServer
from mcp.server.mcpserver.exceptions import ToolError
from mcp.types import (
    INTERNAL_ERROR,
    INVALID_PARAMS,
    AudioContent,
    BlobResourceContents,
    CallToolResult,
    EmbeddedResource,
    ResourceLink,
    TextResourceContents,
)

server = MCPServer("test", log_level="CRITICAL")


@server.tool(name="math.add")
def add(a: int, b: int = 1) -> int:
    """Add two integers."""
    return a + b


@server.tool()
def refuse(why: str) -> str:
    """Refuse, as a tool does."""
    raise ToolError(f"refused because of {why}")


@server.tool()
def fail(code: int) -> str:
    """Fail, as a server does."""
    raise MCPError(code={1: INVALID_PARAMS, 2: INTERNAL_ERROR}[code], message="the server says no")


@server.tool()
def paint() -> list[Image | str]:
    """Return a picture and words."""
    return ["a cat", Image(data=b"\x89PNG cat", format="png")]


@server.tool()
def nothing() -> CallToolResult:
    """Return nothing."""
    return CallToolResult(content=[])


@server.tool()
def numbers() -> CallToolResult:
    """Return structured content alone."""
    return CallToolResult(content=[], structured_content={"n": 1})


@server.tool()
def mixture() -> CallToolResult:
    """Return every other kind of content."""
    text = TextResourceContents(uri="file:///note.txt", text="a note")
    blob = BlobResourceContents(uri="file:///data.bin", blob="AAAA")
    return CallToolResult(
        content=[
            EmbeddedResource(resource=text),
            EmbeddedResource(resource=blob),
            ResourceLink(name="page", uri="file:///page.html"),
            AudioContent(data="AAAA", mime_type="audio/wav"),
        ]
    )


@server.tool()
def variable(name: str) -> str:
    """Return an environment variable."""
    return os.environ.get(name, "unset")


@server.tool()
def pid() -> int:
    """Return the server's process."""
    return os.getpid()


@server.tool()
async def nap(seconds: float) -> str:
    """Sleep, and answer others meanwhile."""
    await asyncio.sleep(seconds)
    return "rested"


@server.tool()
async def freeze() -> str:
    """Hang the whole server."""
    time.sleep(600)  # noqa: ASYNC251 - that is the point
    return "thawed"


@server.tool()
def die() -> str:
    """End the server in the middle of a call."""
    os._exit(3)


if __name__ == "__main__":
    if sys.argv[1] == "stdio":
        server.run()
    else:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        print(port, flush=True)
        server.run("streamable-http", port=port)
