"""Against a real server in a process of its own, over stdio and over HTTP."""

import asyncio
import os
import socket
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest
import pytest_asyncio
from mcp import Client
from mcp.server import Server
from mcp.shared.message import SessionMessage
from mcp.types import JSONRPCNotification, ListToolsResult, PaginatedRequestParams
from mcp.types import Tool as ServerTool
from tests.patience import PATIENCE
from tests.tools.tool_calls import call, context, run

from agentfly.errors import ConfigError, DeadlineError, EnvError
from agentfly.runtime.process import PIPE, start
from agentfly.tools import FunctionTool, mcp, mcp_connection, mcp_tools
from agentfly.types import Image, ToolStatus

# One loop for all: the connections are shared by tests that do them no harm.
pytestmark = pytest.mark.asyncio(loop_scope="module")

SCRIPT = str(Path(__file__).with_name("mcp_server.py"))
STDIO = [sys.executable, SCRIPT, "stdio"]
GREETING = f"""print("a banner, where only messages belong", flush=True)
import runpy, sys
sys.argv[1:] = ["stdio"]
runpy.run_path({SCRIPT!r}, run_name="__main__")"""

Tools = dict[str, FunctionTool[..., Any]]


@asynccontextmanager
async def tools_of(server: str | list[str], **options: Any) -> AsyncIterator[Tools]:
    async with mcp_tools(server, **options) as tools:
        yield {tool.spec.name: tool for tool in tools}


@contextmanager
def http_server() -> Iterator[tuple[str, "subprocess.Popen[str]"]]:
    """A server on a free port of this machine."""
    command = [sys.executable, SCRIPT, "http"]
    pipe, nowhere = subprocess.PIPE, subprocess.DEVNULL
    with subprocess.Popen(command, stdout=pipe, stderr=nowhere, text=True) as process:
        try:
            assert process.stdout is not None
            port = int(process.stdout.readline())
            wait_until_listening(port)
            yield f"http://127.0.0.1:{port}/mcp", process
        finally:
            process.kill()


def wait_until_listening(port: int) -> None:
    give_up = time.monotonic() + PATIENCE
    while True:
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
        except OSError:
            assert time.monotonic() < give_up
            time.sleep(0.05)
        else:
            return


@pytest_asyncio.fixture(scope="module", loop_scope="module", params=["stdio", "http"])
async def tools(request: pytest.FixtureRequest) -> AsyncIterator[Tools]:
    if request.param == "stdio":
        async with tools_of(STDIO) as found:
            yield found
    else:
        with http_server() as (url, _):
            async with tools_of(url) as found:
                yield found


async def test_the_schema_and_the_name_are_fit_for_models(tools: Tools) -> None:
    add = tools["math_add"]
    assert add.spec.description == "Add two integers."
    assert add.spec.parameters == {
        "type": "object",
        "properties": {"a": {"type": "integer"}, "b": {"type": "integer", "default": 1}},
        "required": ["a"],
    }


async def test_a_call_and_a_wrong_one(tools: Tools) -> None:
    result = await run(tools["math_add"], a="41")
    assert (result.observation, result.info) == ("42", {"structured_content": {"result": 42}})
    assert (await run(tools["math_add"], a="x")).status is ToolStatus.BAD_ARGUMENTS


async def test_a_tools_error_is_an_observation(tools: Tools) -> None:
    refused = await run(tools["refuse"], why="rain")
    assert refused.status is ToolStatus.ERROR
    assert "refused because of rain" in refused.observation


async def test_a_servers_error_is_an_observation_only_if_the_model_can_correct_it(
    tools: Tools,
) -> None:
    told = await run(tools["fail"], code=1)
    assert (told.status, told.observation) == (ToolStatus.ERROR, "the server says no")
    with pytest.raises(EnvError, match="the server says no"):
        await run(tools["fail"], code=2)


async def test_every_kind_of_content(tools: Tools) -> None:
    painted = await run(tools["paint"])
    assert painted.observation == "a cat"
    assert painted.images == (Image(data=b"\x89PNG cat", media_type="image/png"),)
    assert (await run(tools["nothing"])).observation == "done"
    assert (await run(tools["numbers"])).observation == '{"n": 1}'
    assert (await run(tools["mixture"])).observation.splitlines() == [
        "a note",
        "[resource file:///data.bin]",
        "[resource file:///page.html]",
        "[audio of type audio/wav]",
    ]


async def test_all_pages_of_a_long_list_are_fetched() -> None:
    async def page(_: object, asked: PaginatedRequestParams | None) -> ListToolsResult:
        number = int(asked.cursor) if asked and asked.cursor else 0
        listed = ServerTool(name=f"tool_{number}", input_schema={"type": "object"})
        return ListToolsResult(tools=[listed], next_cursor=str(number + 1) if number < 2 else None)

    async with Client(Server("long", on_list_tools=page)) as client:
        names = [tool.name for tool in await mcp._list_tools(client)]
    assert names == ["tool_0", "tool_1", "tool_2"]


async def test_many_calls_at_once(tools: Tools) -> None:
    async with asyncio.TaskGroup() as group:
        naps = [group.create_task(run(tools["nap"], seconds=0.3)) for _ in range(10)]
        adds = [group.create_task(run(tools["math_add"], a=i)) for i in range(10)]
    assert [nap.result().observation for nap in naps] == ["rested"] * 10
    assert [task.result().observation for task in adds] == [str(i + 1) for i in range(10)]


async def test_the_chains_own_deadline_is_raised(tools: Tools) -> None:
    with pytest.raises(DeadlineError):
        await tools["nap"].run(call("nap", '{"seconds": 60}'), context(seconds=0.2))
    assert (await run(tools["math_add"], a=1)).observation == "2"


async def test_a_slow_tool_is_reported_and_a_hung_server_is_replaced(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(mcp, "PROBE_SECONDS", 1.0)
    async with tools_of(STDIO, timeout=2.0) as tools:
        before = int((await run(tools["pid"])).observation)
        slow = await run(tools["nap"], seconds=60)
        assert slow.status is ToolStatus.TIMEOUT
        assert slow.observation.startswith("tool 'nap' did not answer within 2 s and was stopped.")
        assert int((await run(tools["pid"])).observation) == before
        with pytest.raises(EnvError, match=r"MCP server .* hangs"):
            await run(tools["freeze"])
        after = int((await run(tools["pid"])).observation)
        assert after != before
    assert not alive(before)
    assert not alive(after)


async def test_a_server_that_dies_is_infrastructure_and_is_replaced(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async with tools_of(STDIO) as tools:
        async with asyncio.TaskGroup() as group:
            calls = [group.create_task(failure_of(tools[name])) for name in ("die", "nap")]
        assert [type(made.result()) for made in calls] == [EnvError, EnvError]
        assert "Connection closed" in str(calls[0].result())
        assert (await run(tools["math_add"], a=1)).observation == "2"
        monkeypatch.setattr(mcp_connection, "CLOSE_SECONDS", 0.0)
    assert "can't be closed: abandoned" in caplog.text


async def test_a_server_over_http_that_dies_takes_nothing_with_it() -> None:
    with http_server() as (url, process):
        async with tools_of(url) as tools:
            assert isinstance(await failure_of(tools["die"]), EnvError)
            process.wait(20)
            with pytest.raises(EnvError, match="can't be reached"):
                await run(tools["math_add"], a=1)


async def failure_of(tool: FunctionTool[..., Any]) -> BaseException | None:
    arguments = {"seconds": 60} if tool.spec.name == "nap" else {}
    try:
        await run(tool, **arguments)
    except EnvError as error:
        return error
    return None


async def test_the_server_sees_only_what_it_is_given_and_ends_with_the_block(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("SECRET_KEY", "s3cret")
    servers = []

    async def work() -> None:
        async with tools_of([sys.executable, "-c", GREETING], env={"GIVEN": "yes"}) as tools:
            assert (await run(tools["variable"], name="SECRET_KEY")).observation == "unset"
            assert (await run(tools["variable"], name="GIVEN")).observation == "yes"
            servers.append(int((await run(tools["pid"])).observation))
            raise KeyError("an error of the user's own")

    with pytest.raises(KeyError, match="an error of the user's own"):
        await work()
    assert not alive(*servers)


def alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


@pytest.mark.parametrize(
    ("server", "error", "message"),
    [
        (["/no/such/program"], ConfigError, "can't be started"),
        ([sys.executable, "-c", "exit()"], EnvError, "can't be reached.*Connection closed"),
        ("http://127.0.0.1:9/mcp", EnvError, "can't be reached: ConnectError"),
        ("python server.py", ConfigError, "an address that starts with http"),
        ([], ConfigError, "a command as a list"),
    ],
)
async def test_servers_that_cannot_be_had(
    server: str | list[str], error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        async with mcp_tools(server):
            raise AssertionError("never reached")


async def test_what_cannot_be_said_closes_the_line() -> None:
    said = SessionMessage(JSONRPCNotification(jsonrpc="2.0", method="hello"))
    to_client, from_server = anyio.create_memory_object_stream[SessionMessage | Exception](1)
    to_server, from_client = anyio.create_memory_object_stream[SessionMessage](2)
    gone = await start([sys.executable, "-c", ""], name="gone", lifetime=60, stdin=PIPE)
    async with gone, from_server, to_server, from_client:
        await gone.wait()
        assert gone.stdin is not None
        for _ in range(2):
            await to_server.send(said)
        await mcp_connection._write(from_client, gone.stdin, to_client)
        with pytest.raises(anyio.EndOfStream):
            await from_server.receive()


async def test_a_server_that_never_answers_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mcp_connection, "CONNECT_SECONDS", 1.0)
    silent = [sys.executable, "-c", "import time; time.sleep(600)"]
    with pytest.raises(EnvError, match="can't be reached: TimeoutError"):
        async with mcp_tools(silent):
            raise AssertionError("never reached")


async def test_without_the_package_the_error_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(ConfigError, match=r"pip install 'agentfly\[mcp\]'"):
        async with mcp_tools(STDIO):
            raise AssertionError("never reached")
