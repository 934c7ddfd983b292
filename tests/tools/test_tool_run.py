import asyncio
import functools
import inspect
import logging
import threading
from collections.abc import Iterator
from typing import Any, assert_type

import pytest
from tests.patience import PATIENCE, HandMovedClock, until, wait_until
from tests.tools.tool_calls import call, context, run

from agentfly.errors import DeadlineError, EngineError, EnvError, ToolError
from agentfly.runtime.threads import shared_threads
from agentfly.tools import FunctionTool, tool
from agentfly.types import Context, Tool, ToolStatus


@tool
def add(a: int, b: int = 1) -> int:
    """Add two integers."""
    return a + b


@tool
async def add_later(a: int, b: int = 1) -> int:
    """Add two integers, later."""
    await asyncio.sleep(0)
    return a + b


class Account:
    def __init__(self, balance: int) -> None:
        self.balance = balance

    @tool
    def pay(self, amount: int) -> int:
        """Pay into the account."""
        self.balance += amount
        return self.balance

    @tool(name="look")
    async def show(self) -> int:
        """Show the balance."""
        return self.balance

    @tool
    @staticmethod
    def rate(years: int) -> float:
        """Tell the rate."""
        return 0.5 * years


class Greeter:
    """Greets."""

    def __init__(self, word: str) -> None:
        self.word = word

    def __call__(self, name: str) -> str:
        """Greet someone.

        Args:
            name: Whom.
        """
        return f"{self.word}, {name}"


async def test_a_function_is_a_tool_and_still_a_function() -> None:
    as_tool: Tool = add
    assert (await run(as_tool, a=2)).observation == "3"
    assert add(2, b=3) == 5
    assert_type(add(2), int)
    assert add.__doc__ == "Add two integers."
    assert str(inspect.signature(add)) == "(a: int, b: int = 1) -> int"


async def test_an_async_function() -> None:
    assert (await run(add_later, a=2)).observation == "3"
    assert await add_later(2, b=3) == 5


async def test_methods_are_bound_to_their_instance() -> None:
    mine, yours = Account(10), Account(100)
    assert (await run(mine.pay, amount=5)).observation == "15"
    assert (await run(yours.pay, amount=5)).observation == "105"
    assert (await run(mine.show)).observation == "15"
    assert (await run(mine.rate, years=3)).observation == "1.5"
    assert mine.pay(1) == 16
    assert Account.pay(mine, 1) == 17
    assert list(Account.pay.spec.parameters["properties"]) == ["amount"]
    assert (mine.pay.spec.name, mine.show.spec.name) == ("pay", "look")


async def test_a_bound_method_can_be_made_a_tool() -> None:
    class Plain:
        def scale(self, factor: int) -> int:
            """Scale."""
            return 2 * factor

    assert (await run(tool(Plain().scale), factor=4)).observation == "8"


async def test_a_partial_hides_what_it_fills() -> None:
    def fetch(url: str, key: str, retries: int = 3) -> str:
        """Fetch a page."""
        return f"{url} {key} {retries}"

    by_name = tool(functools.partial(fetch, key="secret"))
    assert by_name.spec.name == "fetch"
    assert by_name.spec.description == "Fetch a page."
    assert list(by_name.spec.parameters["properties"]) == ["url", "retries"]
    assert "secret" not in str(by_name.spec)
    assert (await run(by_name, url="u")).observation == "u secret 3"
    by_place = tool(functools.partial(fetch, "u"), name="fetch_u")
    assert list(by_place.spec.parameters["properties"]) == ["key", "retries"]
    assert (await run(by_place, key="k")).observation == "u k 3"


async def test_a_callable_object() -> None:
    greet = tool(Greeter("Ahoy"), name="greet")
    assert greet.spec.description == "Greet someone."
    assert greet.spec.parameters["properties"]["name"]["description"] == "Whom."
    assert (await run(greet, name="Ada")).observation == "Ahoy, Ada"
    assert tool(Greeter("Hi")).spec.name == "Greeter"


async def test_name_and_description_can_be_given() -> None:
    made = tool(name="plus", description="Sum.")(add.function)
    assert (made.spec.name, made.spec.description) == ("plus", "Sum.")
    assert tool(add.function, description="Sum.").spec.name == "add"


async def test_tool_errors_are_shown_word_for_word() -> None:
    @tool
    def open_door(key: str) -> str:
        """Open the door."""
        raise ToolError(f"The key {key!r} doesn't fit.\nTry another.")

    result = await run(open_door, key="7")
    assert result.status is ToolStatus.ERROR
    assert result.observation == "The key '7' doesn't fit.\nTry another."


@pytest.mark.parametrize("is_async", [False, True])
async def test_other_exceptions_are_shown_briefly_and_logged(
    is_async: bool, caplog: pytest.LogCaptureFixture
) -> None:
    def fail() -> str:
        """Fail."""
        raise KeyError("boom" * 1000)

    async def fail_later() -> str:
        """Fail."""
        return fail()

    with caplog.at_level(logging.WARNING):
        result = await run(tool(fail_later if is_async else fail, name="fail"))
    assert result.status is ToolStatus.ERROR
    assert result.observation.startswith("tool 'fail' failed: KeyError: 'boomboom")
    assert len(result.observation) == 500
    assert "Traceback" in caplog.text
    assert 'raise KeyError("boom" * 1000)' in caplog.text


@pytest.mark.parametrize("is_async", [False, True])
async def test_exit_in_a_tool_ends_only_the_call(is_async: bool) -> None:
    def leave() -> str:
        """Leave."""
        raise SystemExit(3)

    async def leave_later() -> str:
        """Leave."""
        return leave()

    result = await run(tool(leave_later if is_async else leave, name="leave"))
    assert result.status is ToolStatus.ERROR
    assert result.observation.endswith("raised SystemExit: 3")


@pytest.mark.parametrize("error", [EnvError("gone"), EngineError("gone")])
async def test_failures_of_infrastructure_are_raised(error: Exception) -> None:
    @tool
    def step() -> str:
        """Step."""
        raise error

    with pytest.raises(type(error), match="gone"):
        await run(step)


async def test_a_call_past_its_limit_is_reported_and_the_chain_goes_on() -> None:
    @tool(timeout=0.1)
    async def dig(depth: int) -> str:
        """Dig."""
        await asyncio.sleep(60)
        raise NotImplementedError

    result = await run(dig, depth=1)
    assert result.status is ToolStatus.TIMEOUT
    assert result.observation == (
        "tool 'dig' did not answer within 0.1 s and was stopped. Ask for less, or try another way."
    )


async def test_the_chains_own_deadline_is_raised() -> None:
    @tool(timeout=30)
    async def dig() -> str:
        """Dig."""
        await asyncio.sleep(60)
        raise NotImplementedError

    async with asyncio.timeout(PATIENCE):
        with pytest.raises(DeadlineError):
            await dig.run(call("dig"), context(seconds=0.1))


async def test_a_timeout_inside_a_tool_is_the_tools_own_error() -> None:
    @tool
    def fetch() -> str:
        """Fetch."""
        raise TimeoutError("no route")

    result = await run(fetch)
    assert result.status is ToolStatus.ERROR
    assert result.observation == "tool 'fetch' failed: TimeoutError: no route"


async def test_a_tool_may_say_itself_that_time_ran_out() -> None:
    @tool
    def fetch() -> str:
        """Fetch."""
        raise DeadlineError("the archive did not answer within 2 s")

    result = await run(fetch)
    assert result.status is ToolStatus.TIMEOUT
    assert result.observation.startswith("the archive did not answer within 2 s and was stopped")


async def test_an_async_tool_that_swallows_its_cancellation_does_not_hang_the_chain() -> None:
    released = asyncio.Event()

    @tool(timeout=0.05)
    async def stubborn() -> str:
        """Never give up."""
        while not released.is_set():
            try:
                await released.wait()
            except asyncio.CancelledError:
                continue
        return "released"

    async with asyncio.timeout(PATIENCE):
        result = await run(stubborn)
    assert result.status is ToolStatus.TIMEOUT
    released.set()


@pytest.fixture
def gate() -> Iterator[threading.Event]:
    """A gate that hung threads wait at; always opened at the end."""
    opened = threading.Event()
    yield opened
    opened.set()
    wait_until(lambda: not shared_threads().abandoned)


async def test_a_hundred_hung_calls_starve_nobody(gate: threading.Event) -> None:
    begun: list[int] = []

    @tool(timeout=60)
    def hang() -> str:
        """Hang."""
        begun.append(threading.get_ident())
        gate.wait()
        return "late"

    clock = HandMovedClock()
    async with asyncio.TaskGroup() as group:
        hung = [group.create_task(hang.run(call("hang"), context(clock=clock))) for _ in range(100)]
        await until(lambda: len(begun) == 100)
        quick = [await run(add, a=i) for i in range(20)]
        assert not any(task.done() for task in hung), "the quick ones waited for the hung ones"
        clock.pass_deadlines()
    assert [result.observation for result in quick] == [str(i + 1) for i in range(20)]
    assert {task.result().status for task in hung} == {ToolStatus.TIMEOUT}
    assert shared_threads().abandoned == ("tool 'hang'",) * 100
    assert (await run(add, a=1)).observation == "2"


async def test_a_synchronous_tool_blocks_nobody(gate: threading.Event) -> None:
    @tool
    def wait() -> str:
        """Wait for the other."""
        assert gate.wait(20)
        return "opened"

    async with asyncio.TaskGroup() as group:
        waiting = group.create_task(run(wait))
        await asyncio.sleep(0.05)
        gate.set()
    assert waiting.result().observation == "opened"


async def test_each_call_gets_the_context_it_was_run_with() -> None:
    @tool
    def draw(context: Context) -> float:
        """Draw."""
        return context.rng.random()

    first, second = await run(draw), await run(draw)
    assert first.observation == second.observation


def test_nothing_but_the_function_is_needed_to_call_it() -> None:
    @tool
    def secret(word: str, context: Any = None) -> str:
        """Whisper."""
        return f"{word} {context}"

    assert secret("psst") == "psst None"
    assert isinstance(secret, FunctionTool)
