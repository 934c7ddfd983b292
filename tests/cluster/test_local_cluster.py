"""A cluster of one node that a run starts itself: environments and heavy functions on it."""

import asyncio
import json
import os
import re
from pathlib import Path

import pytest
from tests.cluster import heavy_functions
from tests.cluster.meeting_room import CHAINS, MeetingRoom
from tests.patience import until
from tests.resources.pool_environments import TASK, Box, soon

from agentfly.agents import Agent
from agentfly.chat import CHATML_TOKENS, ByteTokenizer
from agentfly.cluster import RayCluster, open_cluster
from agentfly.config import ClusterSettings
from agentfly.engines import ScriptedEngine
from agentfly.errors import ConfigError
from agentfly.resources import EnvironmentManager
from agentfly.resources.placement import instance
from agentfly.runtime.process_registry import Identity
from agentfly.runtime.threads import WorkerThreads
from agentfly.tools import tool
from agentfly.types import Context, EnvSpec, Seed, StopReason, Tool, ToolStatus


async def test_a_run_starts_a_cluster_and_leaves_nothing_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = ClusterSettings(ray="local", cpus=2, object_store_mb=100)
    async with open_cluster(settings, log_folder=tmp_path, concurrency=4) as cluster:
        await _lease_an_environment(cluster)
        await _wait_in_all_environments_at_once(cluster, monkeypatch)
        await _call_heavy_functions(cluster)
        await cluster.collect()
        state = cluster.state()
        pids = [worker.pid for worker in state.workers if worker.pid is not None]
        assert len(pids) == 2
        lives = [Identity.of(pid) for pid in pids]
        assert state.metrics["cluster/tasks"] == 5
        await _place_processes(cluster, tmp_path)
    assert "adding 2" in (tmp_path / "tasks.log").read_text()
    assert not [life for life in lives if life is not None and life.alive]


async def _lease_an_environment(cluster: RayCluster) -> None:
    spec = EnvSpec(Box)
    async with (
        EnvironmentManager(placement_of=cluster.placement_of) as manager,
        manager.lease([spec], owner="me", deadline=soon(120)) as leased,
    ):
        assert await asyncio.to_thread(leased[spec].reset, TASK, Seed(0)) == "REACH 2."


async def _wait_in_all_environments_at_once(
    cluster: RayCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Call more environments at once than there are threads, and one of them twice."""
    threads = WorkerThreads(size=1)
    monkeypatch.setattr(instance, "shared_threads", lambda: threads)
    spec = EnvSpec(MeetingRoom)
    async with EnvironmentManager(placement_of=cluster.placement_of) as manager:

        async def meet(number: int) -> int:
            lease = manager.lease([spec], owner=f"c{number}", deadline=soon(120))
            async with lease as leased, asyncio.TaskGroup() as group:
                group.create_task(leased[spec].meet())
                counting: asyncio.Task[int] = group.create_task(leased[spec].count())
            return await counting

        async with asyncio.TaskGroup() as chains:
            counted = [chains.create_task(meet(number)) for number in range(CHAINS)]
    assert [count.result() for count in counted] == [1] * CHAINS


async def _place_processes(cluster: RayCluster, folder: Path) -> None:
    """Place one process beside the bundle of this one; then too many, of which none is placed."""
    groups = cluster.process_groups(heavy_functions.write_place)
    async with groups.start(2, str(folder), folder) as others:
        await until(others.ended)
        assert "it returned" in str(others.ended())
    place = json.loads((folder / "1").read_text())
    assert (place["rank"], place["world_size"], place["host"]) == (1, 2, groups.host)
    assert (place["local_rank"], place["local_world_size"], place["gpu"]) == (1, 2, None)
    cluster.settings = cluster.settings.model_copy(update={"start_seconds": 0.5})
    groups = cluster.process_groups(heavy_functions.write_place)
    with pytest.raises(ConfigError, match="no room for 9 learner processes that need 1 CPUs each"):
        async with groups.start(9, str(folder), folder):
            pass


async def _call_heavy_functions(cluster: RayCluster) -> None:
    far = heavy_functions
    tools: list[Tool] = [far.add_far_away, far.refuse, far.hang, far.die]
    script = ['<tool_call>{"name": "add_far_away", "arguments": {"number": 2}}</tool_call>', "42"]
    engine = ScriptedEngine(script, tokenizer=ByteTokenizer(CHATML_TOKENS))
    agent = Agent(engine, tools=tools, reward=heavy_functions.right)
    agent = agent.with_engine(engine, offload=cluster.offload)
    row = {"question": "?", "answer": "42"}
    (chain,) = (await agent.run([row])).trajectories
    assert chain.score is not None
    assert chain.score.value == 1.0
    (result,) = chain.turns[0].results
    said = re.fullmatch(r"42 by (\d+)", result.observation)
    assert said is not None
    assert int(said[1]) != os.getpid()
    await _fail(agent, "refuse", "ask for something else", ToolStatus.ERROR)
    await _fail(agent, "hang", "did not answer within 0.5 s", ToolStatus.TIMEOUT)
    script = ['<tool_call>{"name": "die", "arguments": {}}</tool_call>', "42"]
    dying = ScriptedEngine(script, tokenizer=ByteTokenizer(CHATML_TOKENS))
    lost = (await agent.with_engine(dying).run([row], retries=0)).trajectories[0]
    assert lost.stop is StopReason.ENV_CRASHED
    assert "tool 'die' was lost on the cluster" in str(lost.error)


async def _fail(agent: Agent, name: str, said: str, status: ToolStatus) -> None:
    script = [f'<tool_call>{{"name": "{name}", "arguments": {{}}}}</tool_call>', "no"]
    engine = ScriptedEngine(script, tokenizer=ByteTokenizer(CHATML_TOKENS))
    agent = agent.with_engine(engine)
    agent.reward = None
    (chain,) = (await agent.run("?")).trajectories
    (result,) = chain.turns[0].results
    assert result.status is status
    assert said in result.observation


def test_a_heavy_tool_can_not_take_what_belongs_to_its_chain() -> None:
    with pytest.raises(ConfigError, match="is heavy and takes context"):

        @tool(heavy=True)
        def peek(context: Context) -> str:
            """Peek."""
            return str(context)


async def test_joining_what_does_not_run_says_how_to_start_it(tmp_path: Path) -> None:
    settings = ClusterSettings(ray="127.0.0.1:1")
    with pytest.raises((ConfigError, TimeoutError), match="ray start --head"):
        async with open_cluster(settings, log_folder=tmp_path, concurrency=1):
            pass
