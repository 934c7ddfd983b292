"""Calls of one turn: in order where they share an environment, otherwise concurrently."""

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest
from tests.agents.scripts import call, engine

from agentfly import Agent, EnvSpec, Limits, StopReason, ToolResult, Trajectory, tool
from agentfly.errors import ConfigError, EnvError
from agentfly.testing import run_in_virtual_time
from agentfly.types import Context, SpanKind, Task, ToolCall, ToolSpec, ToolStatus

TASK = Task.from_row({"id": "t", "question": "Go."})


class Book:
    """Notes when each entry begins and ends."""

    entries: list[str]

    def reset(self, task: Task) -> None:
        del task
        self.entries = []

    def close(self) -> None: ...

    async def write(self, text: str, seconds: float) -> str:
        """Write an entry.

        Args:
            text: Its text.
            seconds: How long it takes.
        """
        self.entries.append(f"{text}...")
        await asyncio.sleep(seconds)
        self.entries.append(f"...{text}")
        return " ".join(self.entries)


class Diary(Book): ...


class Album(Book): ...


class LockedDiary(Diary): ...


@tool
async def write(text: str, seconds: float, diary: Diary) -> str:
    """Write into the diary."""
    return await diary.write(text, seconds)


@tool
async def scribble(text: str, seconds: float, env) -> str:  # type: ignore[no-untyped-def] # noqa: ANN001
    """Write into the only environment."""
    return str(await env.write(text, seconds))


@tool
async def glue(text: str, seconds: float, album: Album) -> str:
    """Write into the album."""
    return await album.write(text, seconds)


@tool
async def copy(text: str, seconds: float, diary: Diary, album: Album) -> str:
    """Write into both."""
    await album.write(text, seconds)
    return await diary.write(text, seconds)


@tool
async def nap(seconds: float) -> str:
    """Wait."""
    await asyncio.sleep(seconds)
    return "awake"


@tool
async def burn(diary: Diary) -> str:
    """Lose the environment."""
    await asyncio.sleep(1)
    raise EnvError(f"gone after {diary.entries}")


def play(calls: Sequence[str], tools: Sequence[Any], **options: Any) -> Trajectory:
    agent = Agent(engine(["\n".join(calls), "Done."]), tools=tools, **options)
    (chain,) = run_in_virtual_time(agent.run(TASK, retries=0)).trajectories
    return chain


def times(chain: Trajectory) -> list[tuple[str, float, float]]:
    spans = [span for span in chain.spans if span.kind is SpanKind.TOOL]
    return sorted((span.name, round(span.start, 3), round(span.end, 3)) for span in spans)


def observations(chain: Trajectory) -> list[str]:
    return [result.observation for result in chain.turns[0].results]


@pytest.mark.parametrize("name", ["write", "scribble"])
def test_calls_that_share_an_environment_run_in_the_order_of_the_turn(name: str) -> None:
    slow = call("write", text="a", seconds=5)
    calls = [slow, call(name, text="b", seconds=1), call("write", text="c", seconds=0)]
    chain = play(calls, [write, scribble])
    assert observations(chain) == [
        "a... ...a",
        "a... ...a b... ...b",
        "a... ...a b... ...b c... ...c",
    ]
    assert [seconds for _, *seconds in sorted(times(chain), key=lambda span: span[1:])] == [
        [0.0, 5.0],
        [5.0, 6.0],
        [6.0, 6.0],
    ], "waiting for another call is no time of the tool"


def test_calls_that_share_none_run_concurrently() -> None:
    calls = [
        call("write", text="a", seconds=3),
        call("write", text="b", seconds=2),
        call("nap", seconds=4),
        call("glue", text="c", seconds=1),
    ]
    assert times(play(calls, [write, glue, nap])) == [
        ("glue", 0.0, 1.0),
        ("nap", 0.0, 4.0),
        ("write", 0.0, 3.0),
        ("write", 3.0, 5.0),
    ]


def test_a_call_with_two_environments_waits_for_both() -> None:
    calls = [
        call("write", text="a", seconds=3),
        call("glue", text="b", seconds=1),
        call("copy", text="c", seconds=1),
        call("glue", text="d", seconds=1),
    ]
    assert times(play(calls, [write, glue, copy])) == [
        ("copy", 3.0, 5.0),
        ("glue", 0.0, 1.0),
        ("glue", 5.0, 6.0),
        ("write", 0.0, 3.0),
    ]


def test_a_class_means_the_chains_instance_of_a_subclass_here_too() -> None:
    @tool
    async def lock(text: str, seconds: float, diary: LockedDiary) -> str:
        """Write into the locked diary."""
        return await diary.write(text, seconds)

    calls = [call("write", text="a", seconds=2), call("lock", text="b", seconds=1)]
    chain = play(calls, [write, lock])
    assert observations(chain)[1] == "a... ...a b... ...b"


def test_a_tool_of_ones_own_class_waits_for_its_environments() -> None:
    class Reader:
        spec = ToolSpec(name="read", description="Read.", parameters={"type": "object"})
        environments = (EnvSpec(Diary),)

        async def run(self, call: ToolCall, context: Context) -> ToolResult:
            diary = await context.environments.get(EnvSpec(Diary))
            return ToolResult(observation=" ".join(diary.entries))

    calls = [call("write", text="a", seconds=2), call("read")]
    assert observations(play(calls, [write, Reader()]))[1] == "a... ...a"


def test_calls_that_fail_for_the_model_let_the_next_one_begin() -> None:
    @tool(timeout=2)
    async def dawdle(diary: Diary) -> str:
        """Take too long."""
        return await diary.write("never", 60)

    calls = [
        call("wrte", text="a", seconds=1),
        call("write", text="b"),
        call("dawdle"),
        '<tool_call>\n{"name": "write", "arg\n</tool_call>',
        call("write", text="c", seconds=1),
    ]
    chain = play(calls, [write, dawdle])
    assert [result.status for result in chain.turns[0].results] == [
        ToolStatus.UNKNOWN_TOOL,
        ToolStatus.BAD_ARGUMENTS,
        ToolStatus.TIMEOUT,
        ToolStatus.MALFORMED,
        ToolStatus.OK,
    ]
    assert observations(chain)[-1] == "never... c... ...c"


def test_calls_within_the_budget_wait_for_none_beyond_it() -> None:
    calls = [call("write", text=text, seconds=1) for text in "abcd"]
    chain = play(calls, [write], limits=Limits(max_tool_calls=2))
    assert chain.stop is StopReason.TOOL_CALL_LIMIT
    assert observations(chain)[1] == "a... ...a b... ...b"
    assert [span[1:] for span in times(chain)] == [(0.0, 1.0), (1.0, 2.0)]


def test_calls_after_one_that_loses_the_environment_never_begin() -> None:
    calls = [call("burn"), call("write", text="b", seconds=1), call("nap", seconds=9)]
    chain = play(calls, [burn, write, nap])
    assert chain.stop is StopReason.ENV_CRASHED
    assert "gone after []" in str(chain.error)
    assert ("write", 1.0, 1.0) not in times(chain)
    assert {name for name, *_ in times(chain)} == {"burn", "nap"}
    assert ("nap", 0.0, 1.0) in times(chain), "it was cancelled"


def test_the_chains_time_ends_calls_that_wait() -> None:
    calls = [call("write", text=text, seconds=20) for text in "ab"]
    chain = play(calls, [write], limits=Limits(seconds=30))
    assert chain.stop is StopReason.TIME_LIMIT
    assert times(chain) == [("write", 0.0, 20.0), ("write", 20.0, 30.0)]


def test_the_only_environment_of_a_chain_with_two_is_refused_without_a_hang() -> None:
    calls = [
        call("write", text="a", seconds=1),
        call("scribble", text="b", seconds=1),
        call("glue", text="c", seconds=1),
    ]
    with pytest.raises(ConfigError, match=r"this chain has 2 \(Diary, Album\)"):
        play(calls, [write, scribble, glue])
