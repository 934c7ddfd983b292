"""A thousand hostile requests, after which a server is as it was."""

import asyncio
import json
import logging
import os
import secrets
import sys
import threading
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar
from urllib.parse import urlsplit

import pytest
from tests.patience import PATIENCE
from tests.resources.http_requests import ask
from tests.resources.pool_environments import Box, soon, until
from tests.resources.server_fuzzer import Attack, Fuzzer

from agentfly.resources import (
    EnvironmentManager,
    Pooling,
    SessionLimits,
    env_server,
    environment_server,
)
from agentfly.runtime import threads
from agentfly.runtime.http import guard, server
from agentfly.runtime.http.address import split_token
from agentfly.sandbox import PythonSandbox, SandboxLimits
from agentfly.types import EnvSpec, Step

REQUESTS = 1000
AT_ONCE = 12
SEED = 20250807
LIMITS = SandboxLimits(seconds=10.0, memory_mb=128)
EXPECTED = {
    *(200, 201, 204, 400, 401, 403, 404, 405, 408, 409, 413, 415, 422, 429, 431, 501, 503),
}
"""Never 500: none of these requests is a fault of the server."""


class Sandbox(PythonSandbox):
    """Remembers what it was made with."""

    made: ClassVar[list["Sandbox"]] = []

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.options = options
        Sandbox.made.append(self)


class Toy(Box):
    """A counter in a folder, whose size alone clients may choose."""

    client_options: ClassVar[dict[str, Any]] = {"size": (1, 2)}
    options: ClassVar[list[dict[str, Any]]] = []

    def __init__(self, folder: str, size: int = 1, **others: Any) -> None:
        super().__init__(size)
        self.folder = folder
        Toy.options.append({"folder": folder, "size": size, **others})

    def add(self, number: int) -> int:
        self.total += number
        return self.total

    def _secret(self) -> str:
        return (Path(self.folder) / "secret.txt").read_text()


@dataclass
class Target:
    """One server, and what came of the attacks on it."""

    url: str
    pool: EnvironmentManager
    fuzzer: Fuzzer
    statuses: Counter[int] = field(default_factory=Counter)
    heard: bytearray = field(default_factory=bytearray)


@pytest.mark.skipif(sys.platform != "linux", reason="needs Linux namespaces")
@pytest.mark.timeout(300)
async def test_a_thousand_hostile_requests_change_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(threads, "IDLE_SECONDS", 0.2)
    monkeypatch.setattr(guard, "DRAIN_SECONDS", 0.1)
    monkeypatch.setattr(env_server, "BODY_SECONDS", 2.0)
    monkeypatch.setattr(server, "HEAD_SECONDS", 2.0)
    monkeypatch.setattr(server, "LINGER_SECONDS", 0.5)
    caplog.set_level(logging.ERROR)
    complaints: list[dict[str, Any]] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, one: complaints.append(one))
    secret = secrets.token_hex(16)
    planted = tmp_path / "secret.txt"
    planted.write_text(secret)

    async with AsyncExitStack() as stack:
        code = await stack.enter_async_context(
            target(EnvSpec(Sandbox, (("limits", LIMITS),)), planted, SEED)
        )
        toy = await stack.enter_async_context(
            target(EnvSpec(Toy, (("folder", str(tmp_path)),)), planted, SEED + 1)
        )
        await use_honestly(code, toy)
        await until(lambda: leased(code) == leased(toy) == 0)
        threads_before, descriptors_before = servers_threads(), open_descriptors()

        async with asyncio.TaskGroup() as tasks:
            over = asyncio.Event()
            honest = [tasks.create_task(play_honestly(one, over)) for one in (code, toy)]
            turns = iter(range(REQUESTS))
            attackers = [
                tasks.create_task(attack_in_turn(turns, (code, toy))) for _ in range(AT_ONCE)
            ]
            await asyncio.wait(attackers)
            over.set()
        assert all(task.result() > 0 for task in honest)

        for one in (code, toy):
            assert secret.encode() not in one.heard, "a file was read"
            assert one.statuses.keys() <= EXPECTED, one.statuses
            assert one.statuses[201] >= 5, one.statuses
            assert one.statuses[200] + one.statuses[422] >= 10, one.statuses
        answered = code.statuses + toy.statuses
        assert answered.total() > REQUESTS * 0.8, answered
        assert len(answered) >= 12, answered
        print(dict(sorted(answered.items())))

        assert {str(made.options) for made in Sandbox.made} == {str({"limits": LIMITS})}
        sizes = [{"folder": str(tmp_path), "size": size} for size in (1, 2)]
        assert all(options in sizes for options in Toy.options)

        await until(lambda: leased(code) == leased(toy) == 0)  # The abandoned are ended.
        await until(lambda: servers_threads() <= threads_before)
        await until(lambda: open_descriptors() <= descriptors_before)
        await use_honestly(code, toy)
    assert [r.getMessage() for r in caplog.records if r.name.startswith("agentfly.runtime")] == []
    assert complaints == []


@asynccontextmanager
async def target(spec: EnvSpec, planted: Path, seed: int) -> AsyncIterator[Target]:
    limits = SessionLimits(total=40, per_client=30, idle_seconds=5.0)
    async with (
        EnvironmentManager({spec.factory: Pooling(max_instances=40)}) as pool,
        environment_server(spec, pool=pool, limits=limits) as url,
    ):
        fuzzer = Fuzzer(seed, str(split_token(url)[1]), str(planted))
        yield Target(url=url, pool=pool, fuzzer=fuzzer)


def leased(target: Target) -> int:
    return sum(pool.leased for pool in target.pool.snapshot().stocks)


def servers_threads() -> set[threading.Thread]:
    """Return all threads but those in which this test asks."""
    return {one for one in threading.enumerate() if not one.name.startswith("asyncio_")}


def open_descriptors() -> int:
    return len(os.listdir("/proc/self/fd"))  # noqa: PTH208


async def use_honestly(code: Target, toy: Target) -> None:
    """Lease both through the manager of another program, as a trainer does."""
    table = {Sandbox: Pooling(where=code.url), Toy: Pooling(where=toy.url)}
    async with EnvironmentManager(table) as pool:
        sandbox = EnvSpec(Sandbox)
        async with pool.lease([sandbox], owner="me", deadline=soon(60)) as environments:
            step = await environments[sandbox].step("6 * 7")
            assert step == Step(observation="42", info={"status": "ok", "limit": None})
        counter = EnvSpec(Toy, (("size", 2),))
        async with pool.lease([counter], owner="me", deadline=soon(60)) as environments:
            assert await asyncio.to_thread(environments[counter].add, 5) == 5
            assert await asyncio.to_thread(lambda: environments[counter].size) == 2


async def play_honestly(target: Target, over: asyncio.Event) -> int:
    """Count on in a session of one's own, and see that nobody else touches it."""
    answer: dict[str, Any] = {}
    while "session" not in answer:  # There may be no place at first.
        answer = (await ask(target.url, "POST", "/sessions", {}))[1]
    path, is_code = f"/sessions/{answer['session']}", "run" in answer["methods"]
    calls = 0
    while not over.is_set():
        calls += 1
        method, argument = ("step", f"n = {calls}; n") if is_code else ("add", 1)
        body = {"number": calls, "args": [argument]}
        status, answer = await ask(target.url, "POST", f"{path}/{method}", body)
        assert status == 200, answer
        value = answer["value"]
        assert (value["observation"] if is_code else str(value)) == str(calls)
    await ask(target.url, "DELETE", path, None)
    return calls


async def attack_in_turn(turns: Any, targets: tuple[Target, ...]) -> None:
    for turn in turns:
        target = targets[turn % len(targets)]
        attack = target.fuzzer.attack()
        try:
            async with asyncio.timeout(PATIENCE):
                text = await exchange(target.url, attack)
        except TimeoutError:
            pytest.fail(f"request {turn} was left waiting: {attack.sent[:500]!r}")
        target.heard += text
        for answer in split_answers(text):
            status, plain = read_answer(answer)
            target.statuses[status] += 1
            target.fuzzer.learn(attack, status, plain)


async def exchange(url: str, attack: Attack) -> bytes:
    """Send it, and hear what the server says until it closes or is silent after an answer."""
    parts = urlsplit(url)
    reader, writer = await asyncio.open_connection(parts.hostname, parts.port)
    text = b""
    try:
        writer.write(attack.sent)
        with suppress(ConnectionError):
            await writer.drain()
            if attack.hangs_up:
                writer.write_eof()
            has_body = not attack.sent.startswith(b"HEAD ")
            while part := await heard(reader, text, has_body=has_body):
                text += part
    finally:
        writer.close()
        with suppress(ConnectionError):
            await writer.wait_closed()
    return text


async def heard(reader: asyncio.StreamReader, text: bytes, *, has_body: bool) -> bytes:
    """Read on; after whole answers, a short silence is the end."""
    answers = split_answers(text)
    if not answers or not all(is_whole(answer, has_body=has_body) for answer in answers):
        return await reader.read(1 << 16)
    with suppress(TimeoutError):
        async with asyncio.timeout(0.02):
            return await reader.read(1 << 16)
    return b""


def split_answers(text: bytes) -> list[bytes]:
    """Cut where another answer begins; one to Expect is none."""
    cut = [b"HTTP/1.1 " + part for part in text.split(b"HTTP/1.1 ")[1:]]
    return [part for part in cut if not part.startswith(b"HTTP/1.1 100 ")]


def is_whole(answer: bytes, *, has_body: bool) -> bool:
    head, found, body = answer.partition(b"\r\n\r\n")
    return bool(found) and (not has_body or len(body) >= length_of(head))


def length_of(head: bytes) -> int:
    lines = [line.partition(b":") for line in head.lower().split(b"\r\n")]
    return next((int(value) for name, _, value in lines if name == b"content-length"), 0)


def read_answer(answer: bytes) -> tuple[int, Any]:
    """Return status and JSON of an answer, which is nothing else."""
    head, _, body = answer.partition(b"\r\n\r\n")
    status, plain = int(head.split()[1]), json.loads(body) if body else {}
    assert status < 400 or not body or plain["error"]["kind"], answer
    return status, plain
