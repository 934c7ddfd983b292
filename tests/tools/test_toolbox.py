import asyncio
import contextlib
import subprocess
import sys
from typing import Any

import pytest
from tests.patience import PATIENCE
from tests.tools.tool_calls import call, context, run

from agentfly.errors import ConfigError, EnvError
from agentfly.tools import Toolbox, answer, calculator, finish, tool
from agentfly.types import Context, EnvSpec, ToolCall, ToolResult, ToolSpec, ToolStatus


class Shop:
    def reset(self) -> None: ...
    def close(self) -> None: ...


@tool
def search(query: str, limit: int = 5) -> str:
    """Search."""
    return query.upper() * limit


@tool
def buy(item: str, shop: Shop) -> str:
    """Buy."""
    raise NotImplementedError


@tool
def look(shop: Shop) -> str:
    """Look."""
    raise NotImplementedError


async def result_of(tools: list[Any], call: ToolCall) -> ToolResult:
    return await Toolbox(tools).run_one(call, context())


async def test_an_unknown_tool_is_answered_with_the_existing_ones() -> None:
    result = await result_of([search, finish], call("serach"))
    assert result.status is ToolStatus.UNKNOWN_TOOL
    assert result.observation == (
        "There is no tool 'serach'. Did you mean 'search'? Known: finish, search.\n"
        "You can call: search(query: string, limit: integer = 5); finish(answer: string)"
    )
    result = await result_of([search], call("\ud800"))
    result.observation.encode()
    result = await result_of([], call("search"))
    assert result.observation.endswith("There are no tools: answer in plain text.")


async def test_a_call_that_could_not_be_read() -> None:
    unread = ToolCall(id="1", name="", arguments="", problem="the call has no name")
    result = await result_of([search, finish], unread)
    assert result.status is ToolStatus.MALFORMED
    assert result.observation == (
        "The tool call could not be read: the call has no name\n"
        "You can call: search(query: string, limit: integer = 5); finish(answer: string)"
    )
    cut = ToolCall(id="1", name="finish", arguments='{"ans', problem="it was cut off")
    result = await result_of([search, finish], cut)
    assert result.observation.endswith("You can call: finish(answer: string)")


async def test_a_failure_of_infrastructure_is_raised_as_itself() -> None:
    @tool
    async def crash() -> str:
        """Crash."""
        try:
            raise KeyError("socket")
        except KeyError as error:
            raise EnvError("the shop is gone") from error

    with pytest.raises(EnvError, match="the shop is gone") as caught:
        await result_of([crash], call("crash"))
    assert isinstance(caught.value.__cause__, KeyError)


class Stubborn:
    """A tool of a user's own class, which fits the protocol and ignores its cancellation."""

    spec = ToolSpec(name="stubborn", description="Wait.", parameters={"type": "object"})
    environments = ()

    def __init__(self) -> None:
        self.released = asyncio.Event()

    async def run(self, call: ToolCall, context: Context) -> ToolResult:
        while not self.released.is_set():
            with contextlib.suppress(asyncio.CancelledError):
                await self.released.wait()
        return ToolResult(observation=f"{call.name} in turn {context.turn}")


async def test_a_tool_of_ones_own_class() -> None:
    own = Stubborn()
    own.released.set()
    result = await result_of([own], call("stubborn"))
    assert result.observation == "stubborn in turn 0"
    own.released.clear()
    async with asyncio.timeout(PATIENCE):
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.05):
                await result_of([own], call("stubborn"))
    own.released.set()


def test_environments_are_listed_once() -> None:
    assert Toolbox([buy, look, search]).environments == (EnvSpec(Shop),)


def test_a_call_receives_the_environments_of_its_tool() -> None:
    @tool
    def peek(env: Any, shop: Shop) -> str:
        """Peek."""
        raise NotImplementedError

    class Own(Stubborn):
        environments: Any = (EnvSpec(Shop),)

    toolbox = Toolbox([buy, search, peek, Own()])
    names = ("buy", "search", "peek", "stubborn", "unknown")
    assert [toolbox.received_environments(call(name)) for name in names] == [
        (EnvSpec(Shop),),
        (),
        (None, EnvSpec(Shop)),
        (EnvSpec(Shop),),
        (),
    ]
    assert toolbox.environments == (EnvSpec(Shop),), "the chain's only one is no other one"


def test_names_are_unique() -> None:
    with pytest.raises(ConfigError, match="two tools are named 'search'"):
        Toolbox([search, search])


def test_a_plain_function_is_no_tool() -> None:
    def plain() -> None: ...

    not_a_tool: Any = plain
    with pytest.raises(ConfigError, match="plain is not a tool: decorate it with @tool"):
        Toolbox([not_a_tool])


def test_a_method_of_a_class_leases_an_instance_of_it() -> None:
    class Account:
        @tool
        def pay(self) -> str:
            """Pay."""
            raise NotImplementedError

    assert Toolbox([Account.pay]).environments == (EnvSpec(Account),)
    assert Toolbox([Account().pay]).environments == ()
    unfinished: Any = vars(Account)["pay"]
    with pytest.raises(ConfigError, match="'pay' is a method whose class is not known"):
        Toolbox([unfinished])


async def test_finish_and_answer_end_the_chain() -> None:
    for ending, name in ((finish, "finish"), (answer, "answer")):
        assert ending.spec.name == name
        result = await run(ending, answer=42)
        assert result == ToolResult(observation="42", ends_chain=True)
    assert not (await run(calculator, expression="1+1")).ends_chain


def test_nothing_heavy_is_imported_before_it_is_used() -> None:
    heavy = "('mcp', 'numpy', 'PIL', 'torch', 'transformers')"
    code = f"import sys, agentfly.tools; print(*(m for m in {heavy} if m in sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == ""
