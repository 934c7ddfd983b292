"""The tools, called by a scripted player through a real agent, in real sandboxes."""

import sys
from typing import Any

import pytest
from tests.environments.code.code_play import kit, observations, play, saying

from agentfly.environments import Say, call
from agentfly.environments.code import OneShotPython, code_interpreter, python, shell
from agentfly.testing import check_environment
from agentfly.types import EnvSpec, StopReason, Task, ToolStatus, Trajectory

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="needs Linux namespaces")

ROW: dict[str, Any] = {"id": "t", "question": "?", "answer": "1"}


async def run(*turns: Say, **options: Any) -> Trajectory:
    trajectory = await play(kit(**options), ROW, saying(*turns, Say("1")))
    assert trajectory.stop is StopReason.ANSWERED, trajectory.error
    return trajectory


async def test_the_interpreter_keeps_its_variables_and_shows_all_it_has() -> None:
    cells = ["x = 20", "print('adding')\nx + 1", "1 / 0"]
    said = observations(await run(*[call("code_interpreter", code=cell) for cell in cells]))
    assert said[:2] == ["(no output)", "adding\n21"]
    assert said[2].startswith('Traceback (most recent call last):\n  File "<cell 3>", line 1')
    assert said[2].endswith("ZeroDivisionError: division by zero")


async def test_python_forgets_everything_each_time() -> None:
    cells = ["x = 20\nopen('f', 'w').close()\nx", "'x' in globals()", "import os; os.listdir()"]
    said = observations(await run(*[call("python", code=c) for c in cells], tool="python"))
    assert said == ["20", "False", "[]"]


async def test_parallel_calls_of_python_do_not_meet() -> None:
    both = [call("python", code=f"x{n} = 1\n[k for k in globals() if k[0] == 'x']") for n in "ab"]
    together = Say(calls=(*both[0].calls, *both[1].calls))
    assert observations(await run(together, tool="python")) == ["['xa']", "['xb']"]


async def test_python_draws_the_same_numbers_when_a_chain_is_run_again() -> None:
    draw = call("python", code="import random; random.random()")
    first, second = [observations(await run(draw, draw, tool="python")) for _ in range(2)]
    assert first == second
    assert first[0] != first[1]


async def test_shell_files_and_interpreter_work_in_one_place() -> None:
    said = observations(
        await run(
            call("write_file", path="data/a.txt", content="1\n2\n"),
            Say(
                calls=(*call("list_files").calls, *call("shell", command="wc -l data/a.txt").calls)
            ),
            call("code_interpreter", code="sum(map(int, open('data/a.txt')))"),
            tool="all",
        )
    )
    assert said == ["4 characters written.", "data/a.txt", "2 data/a.txt", "3"]


async def test_files_are_shown_within_the_limits() -> None:
    code = "open('long', 'w').write('x' * 10 ** 6)\nopen('steering', 'w').write('\x1b[2Jgone')\n"
    code += "for n in range(100): open(f'{n}' * 50, 'w').close()"
    asked = [call("read_file", path=path).calls[0] for path in ("long", "steering")]
    made = Say(calls=call("code_interpreter", code=code).calls)
    looks = Say(calls=(*asked, *call("list_files").calls))
    trajectory = await run(made, looks, tool="all", output_chars=2000)
    _, long, steering, names = observations(trajectory)
    assert long == f"{'x' * 1000}\n[… 998000 characters left out …]\n{'x' * 1000}"
    assert steering == "␛[2Jgone"
    assert "characters left out" in names
    assert len(names) < 2100


async def test_what_files_lack_is_said() -> None:
    made = call("code_interpreter", code="open('b', 'wb').write(b'\\xff'); open('e', 'w').close()")
    asked = [call("read_file", path=p).calls[0] for p in ("none", "b", "e")]
    empty = call("list_files", path=".").calls
    trajectory = await run(Say(calls=empty), made, Say(calls=tuple(asked)), tool="all")
    said = observations(trajectory)
    assert said[0] == "(no files)"
    assert "No such file" in said[2]
    assert said[3:] == ["b is not a text: 1 bytes that are not UTF-8", "(empty file)"]
    assert [r.status for r in trajectory.turns[2].results] == [
        ToolStatus.ERROR,
        ToolStatus.ERROR,
        ToolStatus.OK,
    ]


async def test_a_limit_is_reported_and_the_chain_goes_on() -> None:
    trajectory = await run(
        call("code_interpreter", code="kept = 7\nwhile True: pass"),
        call("code_interpreter", code="kept"),
        call("code_interpreter", code="bytearray(1 << 30)"),
        seconds=1.0,
        memory_mb=64,
    )
    late, kept, large = observations(trajectory)
    assert "Interrupted after 1 s, the time limit. Variables are kept." in late
    assert kept == "7"
    assert "Memory limit: 64 MB" in large
    assert [t.results[0].info["limit"] for t in trajectory.turns[:3]] == ["time", None, "memory"]
    assert trajectory.reward == 1.0


async def test_a_figure_is_an_image() -> None:
    code = "import matplotlib.pyplot as plt\nplt.plot([1, 2])\nNone"
    trajectory = await run(call("code_interpreter", code=code), seconds=60)
    (result,) = trajectory.turns[0].results
    assert result.observation == "[1 figure(s)]"
    assert result.images[0].data.startswith(b"\x89PNG")
    assert trajectory.turns[0].replies[0].images == result.images


async def test_long_output_is_cut_for_the_model() -> None:
    (said,) = observations(await run(call("code_interpreter", code="'x' * 5000"), output_chars=100))
    assert len(said) < 200
    assert "left out" in said


def test_each_names_its_sandbox() -> None:
    assert code_interpreter.environments == shell.environments != python.environments
    sandboxes = {tool.environments for tool in kit(tool="all").tools}
    assert len(sandboxes) == 1, "all tools of a chain share one"


@pytest.mark.parametrize("tool", [code_interpreter, python])
async def test_the_sandboxes_keep_an_environments_contract(tool: Any) -> None:
    (spec,) = tool.environments
    await check_environment(spec, Task.from_row(ROW), actions=("x = 20", "x + 1", "1 / 0"))


async def test_a_one_shot_takes_what_a_sandbox_takes() -> None:
    made: OneShotPython = EnvSpec(OneShotPython, (("unsafe", True),)).make()
    assert (await made.run("6 * 7")).value == "42"
    await made.close()
