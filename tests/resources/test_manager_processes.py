"""Instances in processes of their own. All processes are real."""

import asyncio
import os
import subprocess
import sys
import textwrap
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.patience import PATIENCE
from tests.resources.pool_environments import TASK, Odd, broken, soon, until

from agentfly.errors import ConfigError, EnvError, ToolError
from agentfly.resources import EnvironmentManager, Pooling
from agentfly.runtime.launch import start_time
from agentfly.runtime.process_registry import FOLDER_VARIABLE, records
from agentfly.types import EnvSpec, Seed, Step

ODD = EnvSpec(Odd)


@pytest.fixture(autouse=True)
def no_process_is_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv(FOLDER_VARIABLE, str(tmp_path / "registry"))
    yield
    assert records() == []


@asynccontextmanager
async def leased(pool: EnvironmentManager) -> AsyncIterator[Any]:
    async with pool.lease([ODD], owner="me", deadline=soon()) as environments:
        yield environments[ODD]


async def in_thread(call: Any, *args: Any) -> Any:
    return await asyncio.get_running_loop().run_in_executor(None, call, *args)


async def test_it_is_the_same_to_its_user_wherever_it_lives() -> None:
    async with EnvironmentManager() as pool, leased(pool) as odd:
        assert odd.reset(TASK, Seed(1)) == "REACH 2."
        assert odd.step("go") == Step(observation="NOW AT 1.")
        assert odd.total == 1
        assert await odd.later(41) == 42
        assert odd.talk() == "said"
        assert odd.pid() != os.getpid()
        with pytest.raises(ToolError, match="put it back"):
            odd.scold()
        with pytest.raises(KeyError, match="nowhere") as caught:
            odd.look_up()
        assert "pool_environments.py" in caught.value.__notes__[0]
        with pytest.raises(AttributeError, match="color"):
            _ = odd.color
        with pytest.raises(AttributeError, match="give the environment a method"):
            odd.total = 5
        assert repr(odd) == "<Odd lent to me>"


async def test_a_process_serves_chain_after_chain_until_it_is_worn() -> None:
    pids = []
    async with EnvironmentManager() as pool:
        for _ in range(4):
            async with leased(pool) as odd:
                odd.reset(TASK, Seed(0))
                pids.append(odd.pid())
        assert len(set(pids)) == 2
        assert pids[0] == pids[1] == pids[2]
        await until(lambda: start_time(pids[0]) is None)


@pytest.mark.parametrize(
    ("action", "words"),
    [
        ("die", "its process ended with code 3"),
        ("hang", r"step did not answer within 0\.6 s"),
        ("rubbish", "its process sent rubbish: TypeError"),
    ],
)
async def test_what_breaks_is_ended_at_once_and_never_lent_again(action: str, words: str) -> None:
    async with EnvironmentManager() as pool:
        async with leased(pool) as odd:
            pid = odd.pid()
            with pytest.raises(EnvError, match=words):
                await in_thread(odd.step, action)
            await until(lambda: start_time(pid) is None)  # Its chain still runs.
            with pytest.raises(EnvError, match="can't be used any more"):
                odd.step("go")
        async with leased(pool) as odd:
            assert odd.pid() != pid
        assert pool.snapshot().stocks[0].crashed == 1


@pytest.mark.parametrize(
    ("action", "words"), [("unsendable", "lambda"), ("exit", "SystemExit: 1"), ("fail", "fell")]
)
async def test_what_only_fails_leaves_the_process_alone(action: str, words: str) -> None:
    async with EnvironmentManager() as pool, leased(pool) as odd:
        with pytest.raises(Exception, match=words) as caught:
            odd.step(action)
        assert not isinstance(caught.value, EnvError)
        assert odd.step("go").observation == "NOW AT 1."


async def test_one_that_dies_while_it_is_warm_is_not_lent() -> None:
    async with EnvironmentManager() as pool:
        async with leased(pool) as odd:
            pid = odd.pid()
        os.kill(pid, 9)
        await until(lambda: start_time(pid) is None)
        async with leased(pool) as odd:
            assert odd.pid() != pid


async def test_a_chain_that_is_cancelled_in_a_call_takes_the_process_with_it() -> None:
    async with EnvironmentManager() as pool:
        pids = []

        async def chain() -> None:
            async with leased(pool) as odd:
                pids.append(odd.pid())
                await in_thread(odd.step, "hang")

        task = asyncio.get_running_loop().create_task(chain())
        await until(lambda: bool(pids))
        await asyncio.sleep(0.05)
        task.cancel()
        await asyncio.wait([task])
        await until(lambda: start_time(pids[0]) is None)
        async with leased(pool) as odd:
            odd.reset(TASK, Seed(0))


async def test_one_that_has_outgrown_its_memory_is_replaced() -> None:
    table = {Odd: Pooling(where="process", max_uses=9, memory_mb=150)}
    async with EnvironmentManager(table) as pool:
        async with leased(pool) as odd:
            pid = odd.pid()
            odd.grow(200)
            assert odd.step("go").observation == "NOW AT 1.", "the chain itself goes on"
        async with leased(pool) as odd:
            assert odd.pid() != pid


async def test_a_hung_or_failing_maker_is_an_error_of_the_chain() -> None:
    table = {broken: Pooling(where="process"), hangs: Pooling(where="process", make_seconds=0.5)}
    async with EnvironmentManager(table) as pool:
        for factory, words in [(broken, "raised OSError: no such box"), (hangs, "more than 0.5 s")]:
            with pytest.raises(EnvError, match=words):
                async with pool.lease([EnvSpec(factory)], owner="me", deadline=soon()):
                    pytest.fail("it can't be made")


def hangs() -> None:
    import time

    time.sleep(1000)


async def test_what_can_not_go_to_another_process_is_said_with_the_way_out() -> None:
    def local() -> Odd:
        return Odd()

    async with EnvironmentManager({local: Pooling(where="process")}) as pool:
        with pytest.raises(ConfigError, match="at the top of a module"):
            async with pool.lease([EnvSpec(local)], owner="me", deadline=soon()):
                pytest.fail("a local function has no name that another process knows")


SCRIPT = """
import asyncio, sys
from agentfly.resources import EnvironmentManager, Pooling
from agentfly.types import EnvSpec

class Mine:
    pooling = Pooling(where="process")
    def answer(self):
        return 42
    def close(self):
        pass

async def main():
    async with EnvironmentManager() as pool:
        async with pool.lease([EnvSpec(Mine)], owner="me", deadline=1e9) as leased:
            print(leased[EnvSpec(Mine)].answer())
"""


@pytest.mark.parametrize(
    ("ending", "said"),
    [
        ('if __name__ == "__main__":\n    asyncio.run(main())\n', "42"),
        ("asyncio.run(main())\n", "Put what starts the run under `if __name__ == '__main__':`"),
    ],
)
def test_an_environment_may_be_defined_in_the_main_script(
    tmp_path: Path, ending: str, said: str
) -> None:
    path = tmp_path / "script.py"
    path.write_text(textwrap.dedent(SCRIPT) + ending)
    done = subprocess.run(
        [sys.executable, str(path)], capture_output=True, text=True, check=False, timeout=PATIENCE
    )
    assert said in done.stdout + done.stderr
