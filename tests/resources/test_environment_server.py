"""What clients of an environment server may do, and what none of them can."""

import asyncio
import inspect
import json
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import pytest
from tests.resources.http_requests import ask
from tests.resources.pool_environments import TASK, Box, Odd, soon, until
from tests.usable_environments import usable_definition

from agentfly.environments import ENVIRONMENTS
from agentfly.errors import ConfigError, EnvError
from agentfly.resources import EnvironmentManager, Pooling, SessionLimits, environment_server
from agentfly.resources.client_options import OfferedOptions
from agentfly.runtime.http.address import split_token, with_token
from agentfly.sandbox import PythonSandbox, SandboxLimits
from agentfly.types import EnvSpec, Seed, Step, Task

TOKEN = "0123456789abcdef"


@dataclass(frozen=True)
class Place:
    folder: str


class Room(Box):
    """Remembers what it was made with, and has things that are nobody's business."""

    client_options: ClassVar[dict[str, Any]] = {"size": (1, 2, 3), "walls": (("red", "blue"),)}
    seen: ClassVar[list[dict[str, Any]]] = []

    class Door:
        """Not a method, although it can be called."""

    def __init__(self, size: int = 1, **options: Any) -> None:
        super().__init__(size)
        Room.seen.append({"size": size, **options})
        self.nan = float("nan")
        self.nested: list[Any] = []
        self.nested.append(self.nested)
        self.hook = lambda: "called"
        self.long = "x" * 9_000_000
        self.going, self.go_on = asyncio.Event(), asyncio.Event()

    async def wait(self) -> str:
        self.going.set()
        await self.go_on.wait()
        return "waited"

    async def fail_when_closed(self) -> None:
        self.going.set()
        await self.go_on.wait()
        raise EnvError("what ran in here has gone")

    def close(self) -> None:
        super().close()
        self.go_on.set()

    def _secret(self) -> str:
        return "secret"

    def set_total(self, total: int) -> None:
        self.total = total

    def echo(self, *args: Any, **kwargs: Any) -> Any:
        return [list(args), kwargs]


@pytest.fixture(autouse=True)
def nothing_made() -> None:
    Box.made.clear()
    Room.seen.clear()


async def opened(url: str, options: Any = None, status: int = 201) -> str:
    got, answer = await ask(url, "POST", "/sessions", {"options": options or {}})
    assert got == status, answer
    return f"/sessions/{answer['session']}"


async def test_the_isolation_of_code_is_not_for_clients_to_choose() -> None:
    async with environment_server(EnvSpec(PythonSandbox)) as url:
        for options in (
            {"isolation": "unsafe"},
            {"isolation": "unsafe", "unsafe": True},
            {"unsafe": True},
            {"isolation": "bubblewrap"},
            {"readable": ["/"]},
            {"preload": ["antigravity"]},
            {"limits": {"memory_mb": 10**9}},
        ):
            status, answer = await ask(url, "POST", "/sessions", {"options": options})
            assert (status, answer["error"]["kind"]) == (403, "OptionNotAllowed")
            assert next(iter(options)) in answer["error"]["message"]
            assert "Clients may choose nothing here" in answer["error"]["message"]


async def test_clients_choose_among_what_the_server_was_started_with() -> None:
    own = {"color": "red", "place": Place("/data"), "file": Path("/a/b"), "hook": print}
    spec = EnvSpec(Room, tuple(own.items()))
    options: Any
    async with environment_server(spec) as url:
        for options, made in (
            ({}, {"size": 1}),
            ({"size": 3}, {"size": 3}),
            ({"walls": ["red", "blue"]}, {"size": 1, "walls": ("red", "blue")}),
            # What the server has anyway may be asked for: clients are made with the same options.
            (
                {"color": "red", "place": {"Place": {"folder": "/data"}}, "file": "/a/b"},
                {"size": 1},
            ),
        ):
            Room.seen.clear()
            await opened(url, options)
            assert Room.seen == [own | made]
        Room.seen.clear()
        for options in (
            {"size": 4},
            {"size": True},
            {"size": 1.0},
            {"size": "1"},
            {"size": [1]},
            {"size": None},
            {"walls": ["red"]},
            {"color": "blue"},
            {"place": {"Place": {"folder": "/"}}},
            {"file": "/etc/passwd"},
            {"hook": "print"},
            {"client_options": {}},
            {"__class__": 1},
            {"": 1},
            {"size": 1, "self": 2},
        ):
            status, answer = await ask(url, "POST", "/sessions", {"options": options})
            assert status == 403, options
            assert 'Clients may choose: size: 1, 2, 3; walls: ["red", "blue"]' in str(
                answer["error"]["message"]
            )
        for options in ([], "size", 3, [["size", 1]], True, None):
            status, _ = await ask(url, "POST", "/sessions", {"options": options})
            assert status == 403, options
        assert Room.seen == []


@pytest.mark.parametrize(
    ("offered", "why"),
    [
        ({"isolation": ("warm",)}, "'isolation', which decides what code may do"),
        ({"unsafe": (False,)}, "'unsafe'"),
        ({"readable": ((),)}, "'readable'"),
        ({"preload": ((),)}, "'preload'"),
        ({"data": ("/srv/data",)}, "a path or an address"),
        ({"data": (Path("data"),)}, "a path or an address"),
        ({"data": (("a", "../b"),)}, "a path or an address"),
        ({"url": ("http://localhost:8001",)}, "a path or an address"),
        ({"size": (object(),)}, "can't be written as JSON"),
        ({"size": ([1, 2],)}, "Write a tuple for a list"),
        ({"size": ((1, [2]),)}, "Write a tuple for a list"),
    ],
)
async def test_an_operator_can_not_hand_out_what_decides_over_the_machine(
    offered: dict[str, Any], why: str
) -> None:
    with pytest.raises(ConfigError, match=why):
        async with environment_server(EnvSpec(Room), client_options=offered):
            pytest.fail("it must not start")


@pytest.mark.parametrize("name", ENVIRONMENTS)
async def test_what_built_in_environments_offer_exists_and_is_harmless(name: str) -> None:
    definition = usable_definition(name)
    kit = definition.make(definition.options())
    used = [spec for tool in kit.tools for spec in tool.environments]
    spec = kit.environment or used[0]
    offered = OfferedOptions(spec)
    for option, values in offered.offered.items():
        for value in values:
            made = offered.spec_for({option: json.loads(json.dumps(value))})
            assert dict(made.options)[option] == value
            closing = made.make().close()
            if inspect.isawaitable(closing):
                await closing


async def test_a_client_with_the_same_options_is_served_and_another_is_refused() -> None:
    spec = EnvSpec(Room, (("limits", SandboxLimits(seconds=3)), ("file", Path("x/y"))))
    async with (
        environment_server(spec) as url,
        EnvironmentManager({Room: Pooling(where=url)}) as pool,
    ):
        async with pool.lease([spec], owner="me", deadline=soon()) as leased:
            assert "reset" in dir(leased[spec])
        other = EnvSpec(Room, (("limits", SandboxLimits(seconds=4)),))
        with pytest.raises(
            ConfigError, match=r"403: .*'limits' is not open .*seconds.*leave it out"
        ):
            async with pool.lease([other], owner="me", deadline=soon()):
                pytest.fail("it must not be lent")
        strange = EnvSpec(Room, (("limits", asyncio),))
        with pytest.raises(ConfigError, match="can't be written as JSON"):
            async with pool.lease([strange], owner="me", deadline=soon()):
                pytest.fail("it can't be sent")


@asynccontextmanager
async def leased_with(pooling: Pooling) -> AsyncIterator[Any]:
    spec = EnvSpec(Room)
    async with (
        EnvironmentManager({Room: pooling}) as pool,
        pool.lease([spec], owner="me", deadline=soon()) as leased,
    ):
        yield leased[spec]


async def test_the_token_comes_in_the_address_or_beside_it_and_is_shown_nowhere(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.DEBUG)
    async with environment_server(EnvSpec(Room), token=TOKEN) as url:
        bare = split_token(url)[0]
        assert url == with_token(bare, TOKEN)
        for pooling in (Pooling(where=url), Pooling(where=bare, token=TOKEN)):
            assert (pooling.where, pooling.token) == (bare, TOKEN)
            assert TOKEN not in repr(pooling)
            async with leased_with(pooling) as room:
                loop = asyncio.get_running_loop()
                assert await loop.run_in_executor(None, lambda: room.echo(1)) == [[1], {}]
        for wrong in (Pooling(where=bare), Pooling(where=bare, token=f"{TOKEN}x")):
            with pytest.raises(ConfigError, match=rf"Room at {bare} failed: .*401.*token") as told:
                async with leased_with(wrong):
                    pytest.fail("it must not be lent")
            assert TOKEN not in str(told.value)
    assert TOKEN not in caplog.text


async def test_a_refusal_says_what_was_sent_and_what_is_expected() -> None:
    async with environment_server(EnvSpec(Room), token=TOKEN) as url:
        session = await opened(url)
        task = '{"number": 1, "args": [{"id": "t", "messages": [], "fields": {}}, 7]}'
        for path, body, words in (
            ("/sessions", {"option": {}}, 'unknown key option: write {"options": {...}}'),
            (
                "/sessions",
                {"options": {"size": 9}},
                "'size' is not open to clients with the value 9",
            ),
            ("/sessions", {"options": {"sise": 1}}, "the option 'sise' is not open to clients. "),
            (
                f"{session}/step",
                {"number": 1, "arg": ["x"]},
                "unknown key arg. Known: number, args",
            ),
            (f"{session}/reset", {"number": 1}, f"takes a task and a seed, as {task}"),
        ):
            _, answer = await ask(url, "POST", path, body)
            assert words in answer["error"]["message"]
        for sent, got in (("", "none"), ("Bearer wrong", "another one")):
            _, answer = await ask(url, "GET", "/", None, Authorization=sent)
            assert f"needs its token, got {got}" in answer["error"]["message"]


async def test_an_address_that_can_not_be_meant_is_reported() -> None:
    with pytest.raises(ConfigError, match="carries another token") as told:
        Pooling(where=f"http://h:8700/?token={TOKEN}", token="another-token-0123")
    assert TOKEN not in str(told.value)
    with pytest.raises(ConfigError, match=r"is as 'http://host:8700/\?token=\.\.\.'"):
        async with leased_with(Pooling(where="http://127.0.0.1:1/?tokne=x")):
            pytest.fail("it must not be asked")


async def test_requests_without_the_token_or_for_another_host_change_nothing() -> None:
    async with environment_server(EnvSpec(Room), allowed_hosts=("envs.example.org",)) as url:
        session = await opened(url)
        for headers, status in (
            ({"Authorization": ""}, 401),
            ({"Authorization": "Bearer guessed-guessed-guessed"}, 401),
            ({"Host": "evil.example"}, 403),
            ({"Host": "envs.example.org.evil.example"}, 403),
            ({"Host": "envs.example.org:8700"}, None),
        ):
            for verb, path, expected in (
                ("GET", "/", 200),
                ("POST", "/sessions", 201),
                ("GET", f"{session}/total", 200),
                ("DELETE", "/sessions/none", 204),
            ):
                body: Any = {} if verb == "POST" else None
                got, _ = await ask(url, verb, path, body, **headers)
                assert got == (status or expected), (headers, verb, path)
        assert len(Box.made) == 2


async def test_only_declared_methods_can_be_called_and_only_public_attributes_read() -> None:
    async with environment_server(EnvSpec(Room)) as url:
        status, answer = await ask(url, "POST", "/sessions", {})
        assert answer["methods"] == [
            *("echo", "fail_when_closed", "reset", "set_total", "step", "wait"),
        ]
        session = f"/sessions/{answer['session']}"
        for name in (
            "_secret",
            "__init__",
            "__class__",
            "close",
            "Door",
            "hook",
            "total",
            "x.y",
            "%00",
        ):
            status, answer = await ask(url, "POST", f"{session}/{name}", {"number": 1})
            assert (status, answer["error"]["kind"]) == (404, "NoMethod"), name
        for name in ("_secret", "__dict__", "__class__", "_made", "total.__class__", "a%20b"):
            status, answer = await ask(url, "GET", f"{session}/{name}", None)
            assert (status, answer["error"]["kind"]) == (404, "NoAttribute"), name
        for name, status, kind in (
            ("step", 405, "Method"),
            ("nothing", 422, "AttributeError"),
            ("Door", 422, "NotJSON"),
            ("hook", 422, "NotJSON"),
            ("nan", 422, "NotJSON"),
            ("nested", 422, "NotJSON"),
            ("long", 422, "AnswerTooLarge"),
        ):
            got, answer = await ask(url, "GET", f"{session}/{name}", None)
            assert (got, answer["error"]["kind"]) == (status, kind), name
        assert await ask(url, "GET", f"{session}/total", None) == (200, {"value": 0})


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"number": 0},
        {"number": -1},
        {"number": 1.0},
        {"number": "1"},
        {"number": True},
        {"number": None},
        {"number": 1, "args": "go"},
        {"number": 1, "args": {"0": "go"}},
        {"number": 1, "kwargs": []},
    ],
)
async def test_a_call_that_can_not_be_read_does_nothing(body: Any) -> None:
    async with environment_server(EnvSpec(Room)) as url:
        session = await opened(url)
        status, answer = await ask(url, "POST", f"{session}/step", body)
        assert (status, answer["error"]["kind"]) == (400, "BadRequest")
        assert Box.made[0].total == 0
        honest = await ask(url, "POST", f"{session}/step", {"number": 1, "args": ["go"]})
        assert honest[1]["value"]["observation"] == "NOW AT 1."


@pytest.mark.parametrize(
    "args",
    [
        [],
        [{"id": "t"}],
        [{"id": "t"}, 1, 2],
        [{"id": "t"}, -1],
        [{"id": "t"}, 2**64],
        [{"id": "t"}, "1"],
        [{"id": "t"}, True],
        [{"id": ""}, 1],
        [{"id": 3}, 1],
        [{}, 1],
        ["t", 1],
        [{"id": "t", "messages": {}}, 1],
        [{"id": "t", "messages": [1]}, 1],
        [{"id": "t", "messages": [{"role": "user", "tool_calls": [1]}]}, 1],
        [{"id": "t", "messages": [{"role": "user", "tool_calls": 7}]}, 1],
        [{"id": "t", "messages": [{"role": [], "content": {}}]}, 1],
        [{"id": "t", "messages": [{"role": "devil", "content": ""}]}, 1],
        [{"id": "t", "fields": []}, 1],
    ],
)
async def test_a_reset_needs_a_task_and_a_seed(args: list[Any]) -> None:
    async with environment_server(EnvSpec(Room)) as url:
        session = await opened(url)
        status, answer = await ask(url, "POST", f"{session}/reset", {"number": 1, "args": args})
        assert (status, answer["error"]["kind"]) == (400, "BadRequest"), answer
        good = {"number": 1, "kwargs": {"task": {"id": "t"}, "seed": 2**64 - 1}}
        assert (await ask(url, "POST", f"{session}/reset", good))[1] == {"value": "REACH None."}


async def test_doubled_calls_are_done_once_and_others_out_of_order_never() -> None:
    async with environment_server(EnvSpec(Room)) as url:
        session = await opened(url)

        async def step(number: int, action: str = "go") -> tuple[int, Any]:
            body = {"number": number, "args": [action]}
            return await ask(url, "POST", f"{session}/step", body)

        for number in (2, 3, 10**30):
            assert (await step(number))[1]["error"]["kind"] == "OutOfOrder"
        first = await step(1)
        assert first[1]["value"]["observation"] == "NOW AT 1."
        assert await step(1) == first
        status, answer = await step(1, "something else")
        assert (status, answer["error"]["kind"]) == (409, "OutOfOrder")
        other = await ask(url, "POST", f"{session}/echo", {"number": 1, "args": ["go"]})
        assert other[0] == 409, "the same number and arguments, of another method"
        failed = await step(2, "fail")
        assert (failed[0], await step(2, "fail")) == (422, failed)
        assert (await step(1))[0] == 409
        assert (await step(4))[0] == 409
        assert (await step(3))[1]["value"]["observation"] == "NOW AT 2."
        await ask(url, "DELETE", session, None)
        for number in (3, 4):
            assert (await step(number))[1]["error"]["kind"] == "NoSession"
        assert Box.made[0].total == 2


async def test_a_session_does_one_thing_at_a_time_and_answers_a_doubled_call_when_it_can() -> None:
    async with environment_server(EnvSpec(Room)) as url, asyncio.TaskGroup() as tasks:
        session, neighbor = await opened(url), await opened(url)
        room = Box.made[0]
        assert isinstance(room, Room)
        wait = {"number": 1}
        calls = [tasks.create_task(ask(url, "POST", f"{session}/wait", wait))]
        await room.going.wait()
        calls.append(tasks.create_task(ask(url, "POST", f"{session}/wait", wait)))
        for verb, path, body in (
            ("POST", f"{session}/step", {"number": 2, "args": ["go"]}),
            ("GET", f"{session}/total", None),
        ):
            status, answer = await ask(url, verb, path, body)
            assert (status, answer["error"]["kind"]) == (409, "Busy")
        assert (await ask(url, "GET", f"{neighbor}/total", None))[0] == 200
        room.go_on.set()
        assert [await call for call in calls] == [(200, {"value": "waited"})] * 2


@pytest.mark.parametrize("again", [False, True])
async def test_a_session_that_is_ended_in_the_middle_of_a_call_says_so(again: bool) -> None:
    async with environment_server(EnvSpec(Room)) as url, asyncio.TaskGroup() as tasks:
        session = await opened(url)
        room = Box.made[0]
        assert isinstance(room, Room)
        path = f"{session}/fail_when_closed"
        calls = [tasks.create_task(ask(url, "POST", path, {"number": 1}))]
        await room.going.wait()
        if again:
            calls.append(tasks.create_task(ask(url, "POST", path, {"number": 1})))
        assert (await ask(url, "DELETE", session, None))[0] == 204
        for call in calls:
            status, answer = await call
            assert (status, answer["error"]["kind"]) == (404, "NoSession")


async def test_sessions_are_bounded_in_total_and_per_client() -> None:
    for limits, status in (
        (SessionLimits(total=3), 503),
        (SessionLimits(per_client=3), 429),
    ):
        Box.made.clear()
        async with environment_server(EnvSpec(Room), limits=limits) as url:
            # All at once: those that are about to be opened count too.
            async with asyncio.TaskGroup() as tasks:
                asked = [tasks.create_task(ask(url, "POST", "/sessions", {})) for _ in range(12)]
            answers = [task.result() for task in asked]
            assert sorted(got for got, _ in answers) == [201] * 3 + [status] * 9
            assert len(Box.made) == 3
            refused = next(answer for got, answer in answers if got == status)
            assert refused["error"]["kind"] == "TooManySessions"
            ended = next(answer for got, answer in answers if got == 201)
            await ask(url, "DELETE", f"/sessions/{ended['session']}", None)
            assert (await ask(url, "POST", "/sessions", {}))[0] == 201
            # One that can't be opened gives its place back.
            await ask(url, "POST", "/sessions", {"options": {"nothing": 1}})
    assert all(box.closed == 1 for box in Box.made)


async def test_one_that_can_not_be_made_leaves_its_place_to_others() -> None:
    broken = EnvSpec(Failing)
    Failing.fails = True
    async with environment_server(broken, limits=SessionLimits(total=1)) as url:
        for _ in range(3):
            status, answer = await ask(url, "POST", "/sessions", {})
            assert (status, answer["error"]["kind"]) == (500, "EnvError")
        Failing.fails = False
        assert (await ask(url, "POST", "/sessions", {}))[0] == 201


class Failing(Box):
    fails: ClassVar[bool] = True

    def __init__(self) -> None:
        super().__init__()
        if Failing.fails:
            raise OSError("no such box")


@pytest.mark.parametrize("wrong", [{"total": 0}, {"per_client": -1}, {"idle_seconds": 0}])
def test_limits_of_nothing_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match="must be greater than 0"):
        SessionLimits(**wrong)


async def test_no_client_learns_of_anothers_session(monkeypatch: pytest.MonkeyPatch) -> None:
    async with (
        EnvironmentManager({Room: Pooling(max_instances=2)}) as pool,
        environment_server(EnvSpec(Room), pool=pool) as url,
    ):
        ids = {(await opened(url)).removeprefix("/sessions/") for _ in range(2)}
        assert all(len(one) >= 32 for one in ids)
        monkeypatch.setattr("agentfly.resources.server_sessions.LEASE_SECONDS", 0.1)
        status, answer = await ask(url, "POST", "/sessions", {})
        assert status == 503
        told = json.dumps(answer) + pool.snapshot().text
        assert not [one for one in ids if one in told]
        for path in ("/sessions", "/sessions/", "/"):
            listed = json.dumps((await ask(url, "GET", path, None))[1])
            assert not [one for one in ids if one in listed]
        first = next(iter(ids))
        for guess in (first[:-1], first.swapcase(), f"{first}%00", f"{first}%2f..%2f{first}", "*"):
            assert (await ask(url, "GET", f"/sessions/{guess}/total", None))[0] == 404
            assert (await ask(url, "DELETE", f"/sessions/{guess}", None))[0] in (204, 404)
        assert [box.closed for box in Box.made] == [0, 0]


async def test_what_a_session_holds_is_closed_when_the_server_ends() -> None:
    async with environment_server(EnvSpec(Room)) as url:
        for _ in range(3):
            await opened(url)
    assert [box.closed for box in Box.made] == [1, 1, 1]


async def test_an_instance_that_does_not_come_back_takes_nothing_with_it(
    caplog: pytest.LogCaptureFixture,
) -> None:
    class Stubborn:
        """A pool that fails whenever something is given back."""

        @asynccontextmanager
        async def lease(
            self, specs: Any, *, owner: str, deadline: float, patience: float = 0
        ) -> AsyncIterator[Any]:
            yield {spec: Box() for spec in specs}
            raise RuntimeError(f"nothing comes back from {owner}")

    limits = SessionLimits(idle_seconds=0.1)
    async with environment_server(EnvSpec(Box), pool=Stubborn(), limits=limits) as url:
        session = await opened(url)
        await until(lambda: "did not end cleanly" in caplog.text)
        assert (await ask(url, "GET", f"{session}/total", None))[0] == 404
        again = await opened(url)
        assert (await ask(url, "DELETE", again, None))[0] == 204
    assert "nothing comes back from session 1" in caplog.text


async def test_a_method_that_breaks_in_its_process_ends_its_session_alone() -> None:
    async with environment_server(EnvSpec(Odd)) as url:
        broken, whole = await opened(url), await opened(url)
        status, answer = await ask(url, "POST", f"{broken}/step", {"number": 1, "args": ["die"]})
        assert (status, answer["error"]["kind"]) == (500, "EnvError")
        assert (await ask(url, "GET", f"{broken}/total", None))[0] == 404
        assert (await ask(url, "GET", f"{whole}/total", None)) == (200, {"value": 0})


async def test_a_client_counts_only_calls_that_were_sent() -> None:
    async with environment_server(EnvSpec(Room)) as url, leased_with(Pooling(where=url)) as room:

        def play() -> list[Any]:
            done = [room.echo(1)]
            for unsendable in (object(), float("nan"), {1, 2}):
                with pytest.raises((TypeError, ValueError)):
                    room.echo(unsendable)
            return [*done, room.echo(2)]

        loop = asyncio.get_running_loop()
        assert await loop.run_in_executor(None, play) == [[[1], {}], [[2], {}]]


async def test_a_server_of_another_language_needs_no_token() -> None:
    pooling = Pooling(where="http://127.0.0.1:8700")
    assert (pooling.where, pooling.token) == ("http://127.0.0.1:8700", None)
    with pytest.raises(EnvError, match=r"Room at http://127\.0\.0\.1:1 failed"):
        async with leased_with(Pooling(where="http://127.0.0.1:1", make_seconds=0.2)):
            pytest.fail("nobody is there")


def test_steps_and_tasks_survive_the_wire() -> None:
    from agentfly.resources import http_protocol

    task = Task(id="t", messages=(), fields={"goal": 2})
    assert http_protocol.task_of(http_protocol.to_plain(task)) == task == TASK
    step = Step(observation="x", reward=0.5, done=True, info={"a": 1}, state_key="k")
    assert http_protocol.observed(http_protocol.to_plain(step)) == step
    call = http_protocol.read_call(
        "reset", {"number": 1, "args": [http_protocol.to_plain(task), 7]}, b""
    )
    assert call.args == (task, Seed(7))
