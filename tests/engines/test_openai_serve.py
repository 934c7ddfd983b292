"""The chat path against a real server: `transformers serve` as a child process."""

import asyncio
import os
import signal
import socket
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio
from tests.patience import PATIENCE

from agentfly.engines.openai import OpenAIChat, OpenAICompletions
from agentfly.errors import EngineError
from agentfly.models import resolve_model
from agentfly.runtime.clock import LoopClock
from agentfly.runtime.http_client import Endpoint
from agentfly.runtime.http_retry import Retry
from agentfly.runtime.process import Child, start
from agentfly.types import Message, Request, SamplingParams, Seed, ToolSpec

pytest.importorskip("fastapi")
pytest.importorskip("openai")

pytestmark = pytest.mark.asyncio(loop_scope="module")

STARTUP_SECONDS = PATIENCE
QUICK = Retry(attempts=2, first_wait=0.05)
QUESTION = [Message(role="user", content="What is 12*34?")]
GREEDY = SamplingParams(temperature=0.0, max_tokens=40)
CALCULATOR = ToolSpec(
    name="calculator",
    description="Work out an expression.",
    parameters={
        "type": "object",
        "properties": {"expression": {"type": "string", "description": "What to work out."}},
        "required": ["expression"],
    },
)


class Serving:
    def __init__(self, model: Path, child: Child, port: int) -> None:
        self.model = str(model)
        self.child = child
        self.endpoint = Endpoint(url=f"http://127.0.0.1:{port}/v1", retry=QUICK)

    def chat(self) -> OpenAIChat:
        return OpenAIChat(self.endpoint, model=self.model)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def serving(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Serving]:
    model = resolve_model("tiny-random")
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    log = tmp_path_factory.mktemp("serve") / "log.txt"
    environment = {**os.environ, "HF_HUB_OFFLINE": "1", "OMP_WAIT_POLICY": "passive"}
    program = Path(sys.executable).parent / "transformers"
    options = ["--host", "127.0.0.1", "--port", str(port), "--device", "cpu"]
    with log.open("wb") as file:
        child = await start(
            [program, "serve", model, *options],
            name="transformers serve",
            lifetime=3 * PATIENCE,
            env=environment,
            stdout=file,
            stderr=file,
        )
    async with child:
        await _listening(child, port, log)
        yield Serving(model, child, port)


async def _listening(child: Child, port: int, log: Path) -> None:
    async with asyncio.timeout(STARTUP_SECONDS):
        while child.returncode is None:
            try:
                _, writer = await asyncio.open_connection("127.0.0.1", port)
            except ConnectionError:
                await asyncio.sleep(0.2)
            else:
                writer.close()
                await writer.wait_closed()
                return
    pytest.fail(f"transformers serve did not start, see {log}")


def soon(seconds: float = PATIENCE) -> float:
    return LoopClock().now() + seconds


async def test_it_talks(serving: Serving) -> None:
    chat = serving.chat()
    first = await chat.reply(QUESTION, (), GREEDY, deadline=soon())
    again = await chat.reply(QUESTION, (), GREEDY, deadline=soon())
    history = [*QUESTION, first, Message(role="user", content="And 2+2?")]
    other = await chat.reply(history, (), GREEDY, deadline=soon())
    await chat.close()
    assert first.role == "assistant"
    assert first.content
    assert again == first
    assert other != first, "the conversation reaches the model"


async def test_tools_reach_the_model(serving: Serving) -> None:
    chat = serving.chat()
    params = SamplingParams(temperature=0.0, max_tokens=40)
    plain = await chat.reply(QUESTION, (), params, deadline=soon())
    with_tools = await chat.reply(QUESTION, (CALCULATOR,), params, deadline=soon())
    await chat.close()
    assert with_tools != plain


async def test_many_at_once(serving: Serving) -> None:
    chat = serving.chat()
    async with asyncio.TaskGroup() as group:
        tasks = [
            group.create_task(chat.reply(QUESTION, (), GREEDY, deadline=soon())) for _ in range(8)
        ]
    await chat.close()
    assert len({task.result().content for task in tasks}) == 1


async def test_a_parameter_that_it_does_not_know_is_refused_not_dropped(serving: Serving) -> None:
    chat = serving.chat()
    with pytest.raises(EngineError, match=r"answered 422: .*top_k"):
        await chat.reply(QUESTION, (), SamplingParams(top_k=5, max_tokens=4), deadline=soon())
    await chat.close()


async def test_as_an_engine_it_is_refused(serving: Serving) -> None:
    """It takes no ids as a prompt, and gives none back."""
    engine = OpenAICompletions(serving.endpoint, model=serving.model)
    request = Request(chain_id="a", group_id="a", turn=0, seed=Seed(0))
    with pytest.raises(EngineError, match="answered 4"):
        await engine.sample((1, 2), SamplingParams(), request=request, deadline=soon())
    await engine.close()


async def test_killed_it_leaves_typed_errors(serving: Serving) -> None:
    """Comes last: afterwards the server is gone."""
    chat = serving.chat()
    params = SamplingParams(max_tokens=1000)
    loop = asyncio.get_running_loop()
    waiters = [
        loop.create_task(chat.reply(QUESTION, (), params, deadline=soon())) for _ in range(64)
    ]
    # Long enough for some to be answered, too short for all.
    await asyncio.sleep(0.3)
    os.kill(serving.child.pid, signal.SIGKILL)
    await asyncio.wait(waiters)
    errors = [error for waiter in waiters if (error := waiter.exception()) is not None]
    assert errors
    assert all(isinstance(error, EngineError) for error in errors)
    assert all("the connection broke" in str(error) for error in errors)
    await chat.close()
