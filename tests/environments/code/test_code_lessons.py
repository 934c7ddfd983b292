"""What interpreters and their pools must never do, through real agents and real sandboxes."""

import sys
from typing import Any

import pytest
from tests.agents.scripts import call, engine
from tests.environments.code.code_play import kit, observations

from agentfly import Agent, tool
from agentfly.environments.code import code_interpreter, python, unit_tests
from agentfly.resources import EnvironmentManager, Pooling
from agentfly.sandbox import PythonSandbox, SandboxLimits
from agentfly.types import EnvSpec, StopReason, ToolStatus

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="needs Linux namespaces")

ONE = {PythonSandbox: Pooling(max_instances=1, max_uses=100)}
"""One interpreter for all chains, one after another."""


def cell(code: str) -> str:
    return call("code_interpreter", code=code)


async def test_a_full_pool_outlives_interpreters_that_end_themselves() -> None:
    script = [cell("import os; os._exit(0)"), cell("import os; os.abort()"), "Done."]
    async with EnvironmentManager(ONE) as pool:
        agent = Agent(engine(script), tools=kit().tools, pool=pool)
        result = await agent.run("?", num_chains=6)
        assert [t.stop for t in result.trajectories] == [StopReason.ANSWERED] * 6
        assert all("ended itself" in said for t in result.trajectories for said in observations(t))
        (stock,) = pool.snapshot().stocks
        assert (stock.leased, stock.waiting) == (0, 0)


SHUT = "import socket; socket.socket(fileno=200).shutdown(2)"
DIED = "import os, struct; os.write(200, struct.pack('<I', 11) + b'{\"died\":{}}')"


@pytest.mark.parametrize("code", [SHUT, DIED], ids=["a closed channel", "a forged death"])
async def test_code_can_not_escape_its_score(code: str) -> None:
    row = {"question": "f?", "tests": [{"call": "f(1)", "expected": 1}, "assert f(2) == 2"]}
    answer = f"```python\ndef f(x):\n    {code}\n```"
    agent = Agent(engine([cell(code), answer]), tools=kit().tools, reward=unit_tests())
    result = await agent.run(row, num_chains=4, retries=0)
    assert [t.stop for t in result.trajectories] == [StopReason.ANSWERED] * 4
    assert [t.reward for t in result.trajectories] == [0.0] * 4
    assert all("starts afresh" in said for t in result.trajectories for said in observations(t))


async def test_an_interpreters_variables_and_files_never_reach_the_next_chain() -> None:
    leave = cell("secret = 1; import builtins; builtins.left = 1; open('left', 'w').close()")
    look = "import os; ('secret' in globals(), hasattr(__builtins__, 'left'), os.listdir())"
    async with EnvironmentManager(ONE) as pool:
        agent = Agent(engine([cell(look), leave, "Done."]), tools=kit().tools, pool=pool)
        result = await agent.run(["a", "b"], num_chains=3)
        said = [observations(t)[0] for t in result.trajectories]
        assert said == ["(False, False, [])"] * 6
        (stock,) = pool.snapshot().stocks
        assert stock.created == 1, "and it was the same interpreter's environment all along"


async def test_two_specs_in_one_chain_are_two_interpreters() -> None:
    @tool(env=EnvSpec(PythonSandbox, (("limits", SandboxLimits(memory_mb=99)),)))
    async def small(code: str, env: PythonSandbox) -> str:
        """Run Python."""
        return (await env.run(code)).observation

    look = "'x' in globals()"
    script = [
        cell("x = 1"),
        call("small", code=look),
        call("python", code=look),
        cell("x"),
        "Done.",
    ]
    agent = Agent(engine(script), tools=[code_interpreter, small, python])
    (trajectory,) = (await agent.run("?")).trajectories
    assert observations(trajectory) == ["(no output)", "False", "False", "1"]


async def test_an_unknown_tool_or_a_malformed_call_is_reported_and_the_chain_goes_on() -> None:
    broken = '<tool_call>\n{"name": "code_interpreter", "arguments": {"code": \n</tool_call>'
    script = [call("shell", command="ls"), broken, call("code_interpreter"), cell("6 * 7"), "42"]
    agent = Agent(engine(script), tools=kit().tools, reward=kit().reward)
    (trajectory,) = (await agent.run({"question": "6 * 7?", "answer": "42"})).trajectories
    statuses = [turn.results[0].status for turn in trajectory.turns[:-1]]
    assert statuses[0] is ToolStatus.UNKNOWN_TOOL
    assert all(status.invalid for status in statuses[:3])
    assert observations(trajectory)[3] == "42"
    assert trajectory.reward == 1.0


async def test_a_reward_that_fails_leaves_its_own_chain_unscored_and_no_other() -> None:
    good: dict[str, Any] = {"question": "f?", "tests": [{"call": "f(1)", "expected": 1}]}
    rows = [
        {"id": "good", **good},
        {"id": "broken", **good, "tests": [{"call": "f("}]},
        {"id": "odd", **good, "tests": ["f(lambda: 1)"]},
        {"id": "fine", **good},
    ]
    answer = "```python\ndef f(x): return x\n```"
    agent = Agent(engine([answer]), reward=unit_tests())
    result = await agent.run(rows, retries=0)
    assert [t.reward for t in result.trajectories] == [1.0, None, None, 1.0]
    assert [t.stop for t in result.trajectories[1:3]] == [StopReason.REWARD_FAILED] * 2
    assert "is no test" in str(result.trajectories[1].error)


async def test_a_judge_that_can_not_work_is_no_zero(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    made = kit(tasks="programs", isolation="bubblewrap", count=1)
    (row,) = made.tasks()
    agent = Agent(engine([f"```python\n{row['solution']}\n```"]), reward=made.reward)
    (trajectory,) = (await agent.run(row, retries=0)).trajectories
    assert trajectory.stop is StopReason.REWARD_FAILED
    assert trajectory.reward is None


async def test_an_interpreter_that_never_answers_costs_its_limit_and_not_the_chain() -> None:
    deaf = "import signal\nsignal.signal(signal.SIGINT, signal.SIG_IGN)\nwhile True: pass"
    agent = Agent(engine([cell(deaf), cell("1 + 1"), "2"]), tools=kit(seconds=1.0).tools)
    (trajectory,) = (await agent.run("?")).trajectories
    killed, after = observations(trajectory)
    assert "killed" in killed
    assert after == "2"
    assert trajectory.stop is StopReason.ANSWERED
