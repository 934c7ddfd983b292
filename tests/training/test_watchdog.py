"""Nothing stands still: it is named, recorded with all stacks, and ended."""

import asyncio
import textwrap
from pathlib import Path

import pytest
from tests.patience import PATIENCE
from tests.warm_python import WarmPython

from agentfly import Agent, Limits, ScriptedEngine, reward, tool
from agentfly.chat import CHATML_TOKENS, ByteTokenizer
from agentfly.errors import RunError
from agentfly.rollout import Schedule, plan_groups, stream_groups
from agentfly.runtime.clock import LoopClock
from agentfly.training.watchdog import EXIT_CODE, Watchdog
from agentfly.types import ChainHandle, Group, Seed, StopReason, Task

CALL = '<tool_call>\n{"name": "hang", "arguments": {}}\n</tool_call>'


@tool(timeout=1e6)
async def hang() -> str:
    """Wait for something that never comes."""
    await asyncio.Event().wait()
    return "never"


@reward
def one(final_response: str) -> float:
    """Return a reward for every answer."""
    return float(bool(final_response))


async def run(watchdog: Watchdog, handles: dict[str, ChainHandle]) -> list[Group]:
    """Run a chain that hangs in its tool, and one that answers at once."""
    engine = ScriptedEngine(
        lambda turn: CALL if turn.request.chain_id.startswith("hangs") else "Done.",
        tokenizer=ByteTokenizer(CHATML_TOKENS),
    )
    runner = Agent(engine, tools=[hang], reward=one, limits=Limits(seconds=1e6)).runner()
    tasks = [Task.from_row({"id": id, "question": "Go."}) for id in ("hangs", "answers")]
    schedule = Schedule(
        runner_of=lambda _: runner,
        clock=LoopClock(),
        max_concurrent=4,
        retries=0,
        handles=handles,
    )
    plans = plan_groups(tasks, num_chains=1, seed=Seed(0))
    async with watchdog.watching(), stream_groups(plans, schedule) as groups:
        with watchdog.stage("sampling", runs_chains=True):
            return [group async for group in groups]


async def test_a_chain_that_hangs_is_named_recorded_and_ended_with_a_cause(tmp_path: Path) -> None:
    handles: dict[str, ChainHandle] = {}
    watchdog = Watchdog(folder=tmp_path / "stalls", seconds=0.5, chains=handles)
    async with asyncio.timeout(PATIENCE):
        groups = await run(watchdog, handles)
    [hung] = next(group for group in groups if group.task.id == "hangs").members
    assert hung.stop is StopReason.STALLED
    assert hung.error == "StallError: nothing happened in tool 'hang' in turn 0 for 0.5 s"
    [answered] = next(group for group in groups if group.task.id == "answers").members
    assert answered.stop is StopReason.ANSWERED
    report = (tmp_path / "stalls" / "1.txt").read_text()
    assert report.startswith("chain hangs/0/0 is stuck in tool 'hang' in turn 0 since 0.")
    assert "thread MainThread" in report
    assert "await asyncio.Event().wait()" in report
    assert not handles


async def test_a_stage_that_stands_still_ends_the_run(tmp_path: Path) -> None:
    watchdog = Watchdog(folder=tmp_path / "stalls", seconds=0.3)

    async def publish() -> None:
        async with watchdog.watching():
            with watchdog.stage("publishing version 3 to Server"):
                await asyncio.Event().wait()

    with pytest.raises(RunError, match="publishing version 3 to Server stands still since"):
        await publish()
    assert "stage: publishing version 3" in (tmp_path / "stalls" / "1.txt").read_text()


STUCK = """
    import asyncio, sys, threading
    from concurrent.futures import ThreadPoolExecutor
    from pathlib import Path
    from agentfly.training.publisher import uninterrupted
    from agentfly.training.watchdog import Watchdog

    async def main():
        watchdog = Watchdog(folder=Path(sys.argv[1]), seconds=0.3, grace_seconds=0.3)
        with ThreadPoolExecutor(1, thread_name_prefix="agentfly-learner") as thread:
            async with watchdog.watching():
                with watchdog.stage("the learner in step 4"):
                    {wait}

    asyncio.run(main())
"""


@pytest.mark.parametrize(
    ("wait", "found"),
    [
        ("await uninterrupted(threading.Event().wait, thread)", "the learner in step 4 stands"),
        ("threading.Event().wait()", "the event loop is blocked since"),
    ],
)
def test_what_can_not_be_ended_from_within_ends_with_the_process(
    tmp_path: Path, warm_python: WarmPython, wait: str, found: str
) -> None:
    program = tmp_path / "stuck.py"
    program.write_text(textwrap.dedent(STUCK).replace("{wait}", wait))
    done = warm_python.finish(str(tmp_path), program=program, cwd=tmp_path)
    assert done.returncode == EXIT_CODE, done.stderr
    assert found in done.stderr
    report = (tmp_path / "1.txt").read_text()
    assert found in report
    assert "threading.Event().wait" in report or "in wait" in report
