"""Instances behind a real HTTP server, and a server that any language can speak to."""

import asyncio
import socket
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Any
from urllib.parse import urlsplit

import pytest
from tests.resources.http_requests import ask
from tests.resources.pool_environments import TASK, Box, Odd, soon

from agentfly.errors import EnvError, ToolError
from agentfly.resources import EnvironmentManager, Pooling, SessionLimits, environment_server
from agentfly.runtime.http.address import split_token, with_token
from agentfly.types import EnvSpec, Seed, Step

ODD = EnvSpec(Odd)


@asynccontextmanager
async def leased(url: str, **options: Any) -> AsyncIterator[Any]:
    pooling = Pooling(where=url, **options)
    async with (
        EnvironmentManager({Odd: pooling}) as pool,
        pool.lease([ODD], owner="me", deadline=soon()) as environments,
    ):
        yield Threaded(environments[ODD])


class Threaded:
    """Calls from a thread, as tools do: the server's event loop is ours too."""

    def __init__(self, environment: Any) -> None:
        self.environment = environment

    async def __call__(self, name: str, *args: Any) -> Any:
        def call() -> Any:
            value = getattr(self.environment, name)
            return value(*args) if callable(value) else value

        value = await asyncio.get_running_loop().run_in_executor(None, call)
        return await value if asyncio.iscoroutine(value) else value


async def test_it_is_the_same_to_its_user_behind_http() -> None:
    async with environment_server(ODD) as url, leased(url) as odd:
        assert await odd("reset", TASK, Seed(1)) == "REACH 2."
        assert await odd("step", "go") == Step(observation="NOW AT 1.")
        assert await odd("total") == 1
        assert await odd("later", 41) == 42
        with pytest.raises(ToolError, match="put it back"):
            await odd("scold")
        with pytest.raises(RuntimeError, match="KeyError: 'nowhere'"):
            await odd("look_up")
        with pytest.raises(AttributeError, match="color"):
            await odd("color")


async def test_what_breaks_there_is_an_error_here_and_replaced() -> None:
    async with (
        environment_server(ODD) as url,
        EnvironmentManager({Odd: Pooling(where=url, max_uses=9)}) as pool,
    ):
        for action in ("die", "hang"):
            async with pool.lease([ODD], owner="me", deadline=soon()) as environments:
                with pytest.raises(EnvError, match="Odd broke: the server answered 500"):
                    await Threaded(environments[ODD])("step", action)
        async with pool.lease([ODD], owner="me", deadline=soon()) as environments:
            assert await Threaded(environments[ODD])("reset", TASK, Seed(1)) == "REACH 2."
        assert pool.snapshot().stocks[0].crashed == 2


async def test_a_server_that_hangs_is_given_up() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"http://127.0.0.1:{silent.getsockname()[1]}"
        with pytest.raises(EnvError, match=r"making environment Odd at http://.* failed"):
            async with leased(url, make_seconds=0.3):
                pytest.fail("nobody answers")


async def test_nobody_there_is_an_error_too() -> None:
    with socket.create_server(("127.0.0.1", 0)) as closed:
        url = f"http://127.0.0.1:{closed.getsockname()[1]}"
    with pytest.raises(EnvError, match="ConnectionRefusedError"):
        async with leased(url, make_seconds=0.5):
            pytest.fail("nobody is there")


async def test_the_session_of_a_killed_client_expires() -> None:
    Box.made.clear()
    limits = SessionLimits(idle_seconds=2.0)
    async with environment_server(EnvSpec(Box), limits=limits) as url:
        alive = await ask(url, "POST", "/sessions", {})
        dead = await ask(url, "POST", "/sessions", {})
        assert alive[0] == dead[0] == 201
        number = 0
        while not any(box.closed for box in Box.made):
            number += 1
            path = f"/sessions/{alive[1]['session']}/step"
            body = {"number": number, "args": ["go"]}
            assert (await ask(url, "POST", path, body))[1]["value"]["observation"] == (
                f"NOW AT {number}."
            )
        assert [box.closed for box in Box.made] == [0, 1]
        gone = await ask(url, "POST", f"/sessions/{dead[1]['session']}/step", {"number": 1})
        assert gone[0] == 404
    assert [box.closed for box in Box.made] == [1, 1]


async def test_the_protocol_as_it_is_written_down() -> None:
    Box.made.clear()
    async with environment_server(EnvSpec(Box), client_options={"size": (1, 4)}) as url:
        described = {"protocol": 1, "environment": "Box", "options": {"size": [1, 4]}}
        assert await ask(url, "GET", "/", None) == (200, described)
        status, opened = await ask(url, "POST", "/sessions", {"options": {"size": 4}})
        assert (status, sorted(opened["methods"])) == (201, ["reset", "step"])
        session = f"/sessions/{opened['session']}"
        task = {"id": "t", "messages": [], "fields": {"goal": 5}}
        reset = await ask(url, "POST", f"{session}/reset", {"number": 1, "args": [task, 7]})
        assert reset == (200, {"value": "REACH 5."})
        assert await ask(url, "GET", f"{session}/size", None) == (200, {"value": 4})
        step = {"number": 2, "args": ["go"]}
        first = await ask(url, "POST", f"{session}/step", step)
        assert first[1]["value"]["observation"] == "NOW AT 1."
        assert await ask(url, "POST", f"{session}/step", step) == first, "sent twice, done once"
        failed = await ask(url, "POST", f"{session}/step", {"number": 3, "args": ["fail"]})
        assert failed == (422, {"error": {"kind": "RuntimeError", "message": "the box fell down"}})
        for verb, path, body, expected in [
            ("POST", f"{session}/step", {"args": []}, 400),
            ("POST", f"{session}/step", b"{", 400),
            ("POST", f"{session}/step", [], 400),
            ("POST", f"{session}/_private", {"number": 9}, 404),
            ("GET", f"{session}/nothing", None, 422),
            ("GET", f"{session}/step", None, 405),
            ("GET", "/nowhere", None, 404),
            ("DELETE", session, None, 204),
            ("DELETE", session, None, 204),
        ]:
            assert (await ask(url, verb, path, body))[0] == expected, (verb, path, body)
        form = await ask(url, "POST", "/sessions", b"x=1", **{"Content-Type": "text/plain"})
        assert form[0] == 415
        assert [box.closed for box in Box.made] == [1]


async def test_all_instances_in_use_means_ask_again(monkeypatch: pytest.MonkeyPatch) -> None:
    pool = EnvironmentManager({Box: Pooling(max_instances=1)})
    owners = []

    async def wait(url: str) -> None:
        async with leased(url):
            owners.append(pool.snapshot().leases[0].owner)

    async with (
        pool,
        environment_server(EnvSpec(Box), pool=pool) as url,
        asyncio.TaskGroup() as group,
        leased(url),
    ):
        owners.append(pool.snapshot().leases[0].owner)
        monkeypatch.setattr("agentfly.resources.server_sessions.LEASE_SECONDS", 0.05)
        status, answer = await ask(url, "POST", "/sessions", {})
        assert (status, answer["error"]["kind"]) == (503, "LeaseTimeout")
        group.create_task(wait(url))
        await asyncio.sleep(0.2)
    assert len(set(owners)) == 2


@contextmanager
def unreliable(url: str, answers_lost: int) -> Iterator[str]:
    """Pass requests on, but break the connection in place of the first answers of `step`."""
    bare, token = split_token(url)
    target = urlsplit(bare)
    lost = 0

    def pump(client: socket.socket) -> None:
        nonlocal lost
        with client, socket.create_connection((target.hostname, target.port)) as server:
            while request := client.recv(1 << 16):
                while not whole(request):
                    request += client.recv(1 << 16)
                server.sendall(request)
                answer = server.recv(1 << 16)
                while not whole(answer):
                    answer += server.recv(1 << 16)
                if b"/step" in request and lost < answers_lost:
                    lost += 1
                    return
                client.sendall(answer)

    with socket.create_server(("127.0.0.1", 0)) as listener:

        def accept() -> None:
            while True:
                try:
                    client, _ = listener.accept()
                except OSError:
                    return
                threading.Thread(target=pump, args=(client,), daemon=True).start()

        threading.Thread(target=accept, daemon=True).start()
        assert token is not None
        yield with_token(f"http://127.0.0.1:{listener.getsockname()[1]}", token)
        listener.shutdown(socket.SHUT_RDWR)
    assert lost == answers_lost


def whole(message: bytes) -> bool:
    head, _, body = message.partition(b"\r\n\r\n")
    lengths = [line for line in head.split(b"\r\n") if line.lower().startswith(b"content-length")]
    length = int(lengths[0].split(b":")[1]) if lengths else 0
    return b"\r\n\r\n" in message and len(body) >= length


async def test_a_lost_answer_is_asked_for_again_and_nothing_is_done_twice() -> None:
    async with environment_server(EnvSpec(Odd), pool=EnvironmentManager()) as url:
        with unreliable(url, answers_lost=2) as flaky:
            async with leased(flaky, call_seconds=10) as odd:
                await odd("reset", TASK, Seed(1))
                assert (await odd("step", "go")).observation == "NOW AT 1."
                assert (await odd("step", "go")).observation == "NOW AT 2."
