"""JVMs that die, hang, idle or are left alone."""

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Generator, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from tests.environments.kit_play import play
from tests.environments.scienceworld.scienceworld_play import (
    is_running,
    kit,
    needs_simulator,
    task,
)
from tests.patience import wait_until

from agentfly.environments import Say, Scene, call
from agentfly.environments.scienceworld import ScienceWorld
from agentfly.environments.scienceworld.simulator import jvm as jvms
from agentfly.environments.scienceworld.simulator import jvm_pool as pools
from agentfly.environments.scienceworld.simulator import world as worlds
from agentfly.environments.scienceworld.simulator.java import package_folder
from agentfly.environments.scienceworld.simulator.jvm_pool import JvmPool, jvm_pool
from agentfly.environments.scienceworld.simulator.py4j_client import RemoteError
from agentfly.environments.scienceworld.simulator.world import World
from agentfly.environments.scienceworld.tasks import effective_simplifications
from agentfly.errors import ConfigError, EnvError
from agentfly.resources import EnvironmentManager
from agentfly.runtime.process_registry import records
from agentfly.types import Seed, StopReason

pytestmark = needs_simulator

EASY = ("find-non-living-thing", 0, "easy")


@pytest.fixture
def pool() -> Iterator[JvmPool]:
    made = JvmPool()
    yield made
    made.close()


@pytest.fixture
def opened(pool: JvmPool) -> Iterator[Callable[[], World]]:
    """Give a function that makes worlds, which are closed in the end."""
    made = list[World]()

    def open_one() -> World:
        made.append(World(pool))
        return made[-1]

    yield open_one
    for world in made:
        world.close()


@pytest.mark.slow
def test_worlds_fill_jvms_up_to_a_bound(pool: JvmPool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pools, "WORLDS_PER_JVM", 1)
    monkeypatch.setattr(pools, "MAX_JVMS", 2)
    made = [World(pool) for _ in range(3)]
    assert sorted(jvm.worlds for jvm in pool.jvms) == [1, 2]
    pids = {world.pid for world in made}
    assert len(pids) == 2
    for world in made:
        world.close()
        world.close()
    assert [jvm.worlds for jvm in pool.jvms] == [0, 0]
    pool.close()
    assert not any(map(is_running, pids))
    assert not [record for record in records() if record.child and record.child.pid in pids]


def test_worlds_of_other_simplifications_have_other_jvms(
    pool: JvmPool, opened: Callable[[], World]
) -> None:
    plain, easy = opened(), opened()
    assert plain.pid == easy.pid
    plain.load("find-plant", 0, "")
    easy.load("find-plant", 0, "easy")
    assert plain.pid != easy.pid
    assert "teleport to LOC" not in plain.templates()
    assert [jvm.worlds for jvm in pool.jvms] == [1, 1]
    easy.load("find-plant", 1, "")
    assert plain.pid == easy.pid
    assert sorted(jvm.worlds for jvm in pool.jvms) == [0, 2]


def test_what_easy_stands_for_depends_on_the_task() -> None:
    electrical = effective_simplifications("power-component", "easy")
    assert effective_simplifications("boil", "easy") == electrical | {"noElectricalAction"}
    assert effective_simplifications("boil", "openDoors,teleportAction") == {
        "teleportAction",
        "openDoors",
    }
    assert effective_simplifications("boil", "") == frozenset()


@pytest.mark.slow
def test_an_idle_jvm_makes_room_for_one_of_other_simplifications(
    pool: JvmPool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pools, "MAX_JVMS", 1)
    World(pool).close()
    easy = World(pool, frozenset({"openDoors"}))
    assert [jvm.simplifications for jvm in pool.jvms] == [{"openDoors"}]
    plain = World(pool)
    assert len(pool.jvms) == 2, "the first of a kind may exceed the bound"
    for world in (easy, plain):
        world.close()


@pytest.mark.slow
def test_nothing_is_written_where_the_run_is_nor_where_the_package_is(
    opened: Callable[[], World], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    before = files_of(package_folder())
    world = opened()
    assert world.gold_path(*EASY)
    world.load("boil", 0, "")
    assert list(tmp_path.iterdir()) == []
    assert files_of(package_folder()) == before


def files_of(folder: Path) -> dict[str, int]:
    """When each file was written last."""
    return {path.name: path.stat().st_mtime_ns for path in folder.iterdir() if path.is_file()}


def test_a_script_of_the_same_name_does_not_hide_the_package(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "scienceworld.py").write_text("")
    monkeypatch.syspath_prepend(str(tmp_path))
    assert (package_folder() / "scienceworld.jar").is_file()


def test_an_idle_jvm_is_ended(pool: JvmPool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pools, "IDLE_SECONDS", 0.2)
    world = World(pool)
    pid = world.pid
    world.close()
    wait_until(lambda: not is_running(pid))
    assert pool.jvms == ()


@pytest.mark.slow
def test_a_jvm_is_idle_since_its_last_world_left(pool: JvmPool) -> None:
    World(pool).close()
    (jvm,) = pool.jvms
    first = jvm.idle_since
    World(pool).close()
    pool._end_idle(jvm, first)
    assert len(pool.jvms) == 1
    pool._end_idle(jvm, jvm.idle_since)
    assert not pool.jvms


@pytest.mark.slow
def test_a_killed_jvm_fails_its_worlds_and_is_replaced(
    pool: JvmPool, opened: Callable[[], World], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pools, "WORLDS_PER_JVM", 1)
    doomed, other = opened(), opened()
    for world in (doomed, other):
        world.load(*EASY)
    killed = doomed.pid
    os.kill(killed, signal.SIGKILL)
    with pytest.raises(EnvError, match="the simulator's JVM"):
        doomed.step("wait1")
    wait_until(lambda: not doomed.alive)
    with pytest.raises(EnvError, match="JVM"):
        doomed.load(*EASY)
    assert other.step("teleport to kitchen").text == "You teleport to the kitchen."
    replacement = opened()
    replacement.load(*EASY)
    assert replacement.pid not in (killed, other.pid)
    assert len(pool.jvms) == 2


def test_a_hung_jvm_is_ended(opened: Callable[[], World], monkeypatch: pytest.MonkeyPatch) -> None:
    world, waiting = opened(), opened()
    world.load(*EASY)
    pid = world.pid
    monkeypatch.setattr(worlds, "STEP_SECONDS", 0.5)
    os.kill(pid, signal.SIGSTOP)
    with ThreadPoolExecutor(2) as threads:
        step = threads.submit(world.step, "wait1")
        load = threads.submit(waiting.load, *EASY)
        with pytest.raises(EnvError, match=r"doing 'wait1'.*no answer within 0\.5 s"):
            step.result()
        with pytest.raises(EnvError, match="JVM"):
            load.result()
    wait_until(lambda: not is_running(pid))
    monkeypatch.undo()
    assert opened().pid != pid


def test_a_jvm_that_does_not_start_is_reported(
    pool: JvmPool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(jvms, "OPTIONS", ("-XX:+NoSuchOption",))
    with pytest.raises(EnvError, match=r"JVM.*ended with exit code 1: .*NoSuchOption"):
        World(pool)
    monkeypatch.setattr(jvms, "_GATEWAY", ("-version",))
    monkeypatch.setattr(jvms, "java", lambda: "/bin/no-java")
    with pytest.raises((EnvError, ConfigError), match="no-java"):
        World(pool)


def test_the_simulators_own_exception_is_reported_and_harms_nobody(
    opened: Callable[[], World],
) -> None:
    world = opened()
    with pytest.raises(EnvError, match=r"noSuchThing: the simulator raised .*noSuchThing"):
        world._texts("noSuchThing")
    with pytest.raises(RemoteError, match="NumberFormatException"):
        world._connection.call("z:java.lang.Integer", "parseInt", "x", seconds=30)
    world.load(*EASY)
    # Half a character is not understood, and harms nobody.
    assert world.step("go to \ud83d").text.startswith("No known action")
    assert world.step("look around").text.startswith("This room")


async def test_a_chain_fails_with_a_typed_cause_and_the_next_one_works() -> None:
    made = kit(tasks=[EASY[0]], simplifications=["easy"], variations=1)
    row = next(iter(made.tasks()))

    def killer(scene: Scene) -> Generator[Say, str, None]:
        yield call("act", action="teleport to kitchen")
        for jvm in jvm_pool().jvms:
            os.kill(jvm.pid, signal.SIGKILL)
        yield call("act", action="look around")
        yield Say("Still there.")

    async with EnvironmentManager() as pool:
        failed = await play(made, row, killer, pool)
        assert failed.stop is StopReason.ENV_CRASHED
        assert failed.error is not None
        assert "EnvError" in failed.error
        assert "JVM" in failed.error
        assert failed.score is None
        fine = await play(made, row, made.expert, pool)
    assert fine.error is None
    assert fine.reward == 1.0


SCRIPT = """
import time
from agentfly.environments.scienceworld.simulator.java import package_folder
from agentfly.environments.scienceworld.simulator.py4j_client import RemoteError
from agentfly.environments.scienceworld.simulator.world import World
world = World()
world.load("find-plant", 0, "easy")
print(world.pid, flush=True)
time.sleep(600)
"""


def test_no_jvm_outlives_a_killed_run() -> None:
    with subprocess.Popen([sys.executable, "-c", SCRIPT], stdout=subprocess.PIPE) as run:
        assert run.stdout is not None
        pid = int(run.stdout.readline())
        assert is_running(pid)
        run.kill()
    wait_until(lambda: not is_running(pid))


@pytest.mark.slow
def test_no_jvm_outlives_a_run_that_ends() -> None:
    script = SCRIPT.replace("time.sleep(600)", "world.close()")
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", script], capture_output=True, text=True, check=True
    )
    assert not is_running(int(done.stdout))
    assert done.stderr == ""


@pytest.mark.slow
def test_an_environment_whose_jvm_died_can_be_reset() -> None:
    env = ScienceWorld()
    env.reset(task(*EASY), Seed(0))
    (jvm,) = [jvm for jvm in jvm_pool().jvms if jvm.worlds]
    os.kill(jvm.pid, signal.SIGKILL)
    wait_until(lambda: not jvm.alive)
    with pytest.raises(EnvError, match="SIGKILL"):
        env.step("look around")
    assert env.reset(task(*EASY), Seed(0)).observation.startswith("Your task")
    env.close()
