"""A sandboxed interpreter, cell by cell. Everything here is real."""

import asyncio
import sys
from collections.abc import AsyncIterator
from typing import Any

import pytest
from pydantic import ValidationError
from tests.patience import PATIENCE
from typer.testing import CliRunner

from agentfly.cli.main import app
from agentfly.environments.code import CodeOptions, OneShotPython
from agentfly.errors import ConfigError, ToolError
from agentfly.sandbox import CellStatus, Isolation, PythonSandbox, SandboxLimits
from agentfly.types import EnvSpec, Seed

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="needs Linux namespaces")


@pytest.fixture(params=["warm", "unsafe"])
async def sandbox(request: pytest.FixtureRequest) -> AsyncIterator[PythonSandbox]:
    limits = SandboxLimits(seconds=5.0, output_chars=200)
    level = request.param
    made = PythonSandbox(limits=limits, isolation=level, unsafe=level == "unsafe")
    yield made
    await made.close()


async def test_it_says_whether_it_is_healthy(sandbox: PythonSandbox) -> None:
    assert await sandbox.healthy()
    await sandbox.run("import os, threading; threading.Timer(0.1, os._exit, [1]).start()")
    async with asyncio.timeout(PATIENCE):
        while await sandbox.healthy():  # noqa: ASYNC110 - no event tells
            await asyncio.sleep(0.01)


@pytest.fixture
async def quick() -> AsyncIterator[PythonSandbox]:
    made = PythonSandbox(limits=SandboxLimits(seconds=0.5, grace_seconds=0.3))
    yield made
    await made.close()


async def test_variables_live_across_cells(sandbox: PythonSandbox) -> None:
    assert (await sandbox.run("x = 20")).observation == "(no output)"
    assert (await sandbox.run("def add(n):\n    return x + n")).ok
    assert (await sandbox.run("add(1)")).value == "21"
    assert (await sandbox.run("_ + 1")).value == "22"


async def test_nothing_lives_across_a_reset(sandbox: PythonSandbox) -> None:
    await sandbox.run("x = 1; import math; math.pi = 3; __builtins__.leak = 1; open('f', 'w')")
    await sandbox.reset()
    assert "NameError" in str((await sandbox.run("x")).error)
    assert "NameError" in str((await sandbox.run("leak")).error)
    assert (await sandbox.run("import math; math.pi == 3")).value == "False"
    assert await sandbox.list_files() == []


async def test_two_sandboxes_share_nothing(sandbox: PythonSandbox) -> None:
    other = PythonSandbox()
    await sandbox.run("x = 1; open('mine', 'w').close()")
    assert "NameError" in str((await other.run("x")).error)
    assert await other.list_files() == []
    await other.close()


async def test_output_and_value_are_separated(sandbox: PythonSandbox) -> None:
    result = await sandbox.run("import sys\nprint('out')\nprint('err', file=sys.stderr)\n[1, 2]")
    assert (result.stdout, result.stderr, result.value) == ("out\n", "err\n", "[1, 2]")
    assert result.observation == "out\n[stderr]\nerr\n[1, 2]"
    assert (await sandbox.run("None")).value is None


async def test_the_output_of_programs_is_caught_in_order(sandbox: PythonSandbox) -> None:
    code = "import os\nprint('one')\nos.system('echo two')\nprint('three')"
    assert (await sandbox.run(code)).stdout == "one\ntwo\nthree\n"


async def test_a_traceback_shows_the_cells_own_code_only(sandbox: PythonSandbox) -> None:
    await sandbox.run("def fail():\n    return 1 / 0")
    result = await sandbox.run("y = 1\nfail()")
    assert result.status is CellStatus.ERROR
    assert result.error == (
        "Traceback (most recent call last):\n"
        '  File "<cell 2>", line 2, in <module>\n'
        "    fail()\n"
        '  File "<cell 1>", line 2, in fail\n'
        "    return 1 / 0\n"
        "           ~~^~~\n"
        "ZeroDivisionError: division by zero\n"
    )
    assert (await sandbox.run("y")).value == "1", "what ran before the error is kept"


async def test_a_chained_traceback_is_trimmed_too(sandbox: PythonSandbox) -> None:
    result = await sandbox.run("try:\n    {}['a']\nexcept KeyError as e:\n    raise OSError from e")
    assert "interpreter" not in str(result.error)
    assert str(result.error).count('File "<cell 1>"') == 2


async def test_a_syntax_error_is_an_error(sandbox: PythonSandbox) -> None:
    result = await sandbox.run("1 +")
    assert result.status is CellStatus.ERROR
    assert str(result.error).startswith('  File "<cell 1>", line 1')


async def test_top_level_await(sandbox: PythonSandbox) -> None:
    await sandbox.run("import asyncio\nevent = asyncio.Event()\nawait asyncio.sleep(0)")
    assert (await sandbox.run("event.set()\nawait event.wait()")).value == "True"


async def test_exit_ends_the_cell_not_the_interpreter(sandbox: PythonSandbox) -> None:
    await sandbox.run("x = 1")
    assert (await sandbox.run("print('before')\nraise SystemExit(3)")).stdout == "before\n"
    assert (await sandbox.run("x")).value == "1"


async def test_the_middle_of_long_output_is_left_out(sandbox: PythonSandbox) -> None:
    result = await sandbox.run("print('a' * 1000 + 'z' * 1000)")
    assert result.stdout == f"{'a' * 100}\n[… 1801 bytes left out …]\n{'z' * 99}\n"
    assert "characters left out" in str((await sandbox.run("'a' * 1000")).value)


async def test_control_characters_reach_no_terminal(sandbox: PythonSandbox) -> None:
    result = await sandbox.run(r"print('\x1b]0;owned\x07\x1b[2J', '\x9b31m\rx'); 'a\x00'")
    assert result.stdout == "␛]0;owned␇␛[2J �31m\nx\n"
    assert all(ord(char) >= 32 or char == "\n" for char in result.observation)


async def test_files_go_in_and_out(sandbox: PythonSandbox) -> None:
    await sandbox.write_file("data/numbers.csv", "1,2\n")
    assert (await sandbox.run("open('data/numbers.csv').read()")).value == "'1,2\\n'"
    await sandbox.run("open('out.bin', 'wb').write(bytes(range(256)))")
    assert await sandbox.read_file("out.bin") == bytes(range(256))
    assert await sandbox.list_files() == ["data/numbers.csv", "out.bin"]


async def test_a_missing_file_is_reported_to_the_model(sandbox: PythonSandbox) -> None:
    with pytest.raises(ToolError, match="No such file or directory: 'nothing'"):
        await sandbox.read_file("nothing")
    with pytest.raises(ToolError, match="is not a folder"):
        await sandbox.list_files("nothing")


async def test_files_outside_are_not_there() -> None:
    sandbox = PythonSandbox()
    with pytest.raises(ToolError, match="No such file"):
        await sandbox.read_file(__file__)
    with pytest.raises(ToolError, match="Read-only file system"):
        await sandbox.write_file("/usr/evil", "x")
    await sandbox.close()


async def test_a_folder_may_be_shown(tmp_path_factory: pytest.TempPathFactory) -> None:
    folder = tmp_path_factory.mktemp("shown")
    (folder / "data").write_text("see")
    folder.chmod(0o755)
    sandbox = PythonSandbox(readable=(str(folder),))
    assert await sandbox.read_file(f"{folder}/data") == b"see"
    with pytest.raises(ToolError, match="Read-only"):
        await sandbox.write_file(f"{folder}/data", "x")
    await sandbox.close()


async def test_a_shell_command(sandbox: PythonSandbox) -> None:
    await sandbox.write_file("a", "x")
    result = await sandbox.shell("ls; echo oops >&2; exit 3")
    assert (result.stdout, result.stderr, result.exit_code) == ("a\n", "oops\n", 3)
    assert result.status is CellStatus.ERROR
    assert (await sandbox.shell("true")).ok


async def test_an_interrupted_cell_keeps_its_state(quick: PythonSandbox) -> None:
    result = await quick.run("x = 0\nprint('begun')\nwhile True:\n    x += 1")
    assert (result.status, result.limit) == (CellStatus.INTERRUPTED, "time")
    assert result.stdout == "begun\n"
    assert result.note == "Interrupted after 0.5 s, the time limit. Variables are kept."
    assert result.error is not None
    assert "_interrupt" not in result.error, "only the cell's own frames are shown"
    assert (await quick.run("x > 0")).value == "True"


async def test_a_killed_cell_says_so_and_starts_afresh(quick: PythonSandbox) -> None:
    result = await quick.run(
        "x = 1\nimport signal\nsignal.signal(signal.SIGINT, signal.SIG_IGN)\nwhile True: pass"
    )
    assert (result.status, result.limit) == (CellStatus.KILLED, "time")
    assert result.observation == (
        "[The cell ran longer than 0.5 s, did not stop when interrupted, and was killed. "
        "The interpreter starts afresh: variables and files are gone.]"
    )
    assert "NameError" in str((await quick.run("x")).error)


@pytest.mark.parametrize(
    ("code", "note"),
    [
        ("bytearray(4 << 30)", "Memory limit: 512 MB. Use less at a time."),
        (
            "import os, time\nfor _ in range(99):\n    os.fork() or (time.sleep(9), exit())",
            "Process limit: 32 processes and threads together. Start fewer, and wait for them.",
        ),
        ("open('f', 'wb').write(bytes(40 << 20))", "File size limit: 32 MB. Write smaller files."),
        (
            "for i in range(9):\n    open(f'f{i}', 'wb').write(bytes(20 << 20))",
            "Disk limit: 64 MB in at most 4096 files. Delete what is not needed.",
        ),
        (
            "while True:\n    print('x' * 999)",
            "Output limit: a cell may print 1 MB. Print less.",
        ),
    ],
)
async def test_each_limit_has_a_message_of_its_own(code: str, note: str) -> None:
    sandbox = PythonSandbox()
    result = await sandbox.run(f"kept = 1\n{code}")
    assert str(result.note).startswith(note), result
    assert (await sandbox.run("kept")).observation == "1", "and nothing is left of the flood"
    await sandbox.close()


async def test_background_processes_end_with_their_cell() -> None:
    sandbox = PythonSandbox()
    result = await sandbox.run("import subprocess\nsubprocess.Popen(['sleep', '100'])\nNone")
    assert result.note == "1 background process(es) were ended with the cell."
    await sandbox.close()


async def test_a_forked_child_does_not_answer_for_its_parent(sandbox: PythonSandbox) -> None:
    code = "import os, time\npid = os.fork()\nif pid: time.sleep(0.3)\npid > 0"
    assert (await sandbox.run(code)).value == "True"


async def test_the_seed_decides_what_is_drawn() -> None:
    sandbox, code = PythonSandbox(), "import random, numpy; random.random(), numpy.random.rand()"
    drawn = []
    for seed in (Seed(1), Seed(1), Seed(2), None, None):
        await sandbox.reset(seed=seed)
        drawn.append((await sandbox.run(code)).value)
    assert drawn[0] == drawn[1]
    assert len(set(drawn)) == 4
    await sandbox.close()


async def test_packages_are_imported_once_for_all() -> None:
    sandbox = PythonSandbox(preload=("colorsys",))
    code = "import sys; [name in sys.modules for name in ('numpy', 'sympy', 'colorsys')]"
    assert (await sandbox.run(code)).value == "[True, True, True]"
    await sandbox.close()


@pytest.mark.parametrize("options", [{}, {"unsafe": True}, {"isolation": "warm"}])
@pytest.mark.parametrize(
    ("package", "why"),
    [
        ("no_such_package", "No module named 'no_such_package'"),
        ("asyncio.windows_events", "win32 only"),
    ],
)
async def test_a_package_that_can_not_be_imported_is_named(
    package: str, why: str, options: dict[str, Any]
) -> None:
    with pytest.raises(ConfigError, match=rf"can't preload {package} \(.*{why}"):
        await PythonSandbox(preload=("colorsys", package), **options).reset()


async def test_figures_come_back_as_images() -> None:
    limits = SandboxLimits(seconds=60.0)
    sandbox = PythonSandbox(limits=limits, preload=("matplotlib.pyplot",))
    code = "import matplotlib.pyplot as plt\nplt.plot([1, 2])\nplt.figure()\nplt.show()"
    result = await sandbox.run(code)
    assert [image.data[:8] for image in result.images] == [b"\x89PNG\r\n\x1a\n"] * 2, result
    assert result.observation == "[2 figure(s)]"
    assert (await sandbox.run("1")).images == ()
    await sandbox.close()


async def test_a_cell_that_nobody_waits_for_is_ended(sandbox: PythonSandbox) -> None:
    await sandbox.run("x = 1")
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.2):
            await sandbox.run("import time\nwhile True: time.sleep(0.1)")
    assert "NameError" in str((await sandbox.run("x")).error)


async def test_many_live_at_once() -> None:
    sandboxes = [PythonSandbox() for _ in range(24)]
    async with asyncio.TaskGroup() as group:
        for index, one in enumerate(sandboxes):
            group.create_task(one.run(f"x = {index}"))
    assert [(await one.run("x")).value for one in sandboxes] == [str(i) for i in range(24)]
    for one in sandboxes:
        await one.close()


async def test_calls_of_one_sandbox_wait_for_each_other(sandbox: PythonSandbox) -> None:
    await sandbox.run("seen = []")
    async with asyncio.TaskGroup() as group:
        for index in range(5):
            group.create_task(sandbox.run(f"seen.append({index})"))
    assert (await sandbox.run("sorted(seen)")).value == "[0, 1, 2, 3, 4]"


def test_one_process_may_have_many_event_loops() -> None:
    async def once() -> str | None:
        sandbox = PythonSandbox()
        try:
            return (await sandbox.run("1 + 1")).value
        finally:
            await sandbox.close()

    assert [asyncio.run(once()) for _ in range(3)] == ["2", "2", "2"]


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"readable": "/data"}, r"`readable` takes a tuple of names, got '/data'"),
        ({"preload": "pandas"}, r"`preload` takes a tuple of names, got 'pandas'"),
        ({"readable": ("/no/such/folder",)}, "paths that exist, got '/no/such/folder'"),
        ({"readable": ("tests",)}, "absolute paths that exist, got 'tests'"),
    ],
)
def test_folders_and_packages_that_can_not_be_meant_are_refused(
    options: dict[str, Any], problem: str
) -> None:
    with pytest.raises(ConfigError, match=problem):
        PythonSandbox(**options)


@pytest.mark.parametrize("made", [PythonSandbox, OneShotPython])
@pytest.mark.parametrize("isolation", ["unsafe", Isolation.UNSAFE])
def test_running_without_isolation_must_be_said_twice(
    made: type[PythonSandbox], isolation: str
) -> None:
    for spec in (
        EnvSpec(made, (("isolation", isolation),)),
        EnvSpec(made, (("isolation", isolation), ("unsafe", False))),
    ):
        with pytest.raises(ConfigError, match="add unsafe=True if you trust the code"):
            spec.make()
    EnvSpec(made, (("isolation", isolation), ("unsafe", True))).make()


def test_settings_and_the_command_line_know_no_isolation_called_unsafe() -> None:
    with pytest.raises(ValidationError, match="'bubblewrap', 'docker' or 'podman'"):
        CodeOptions(isolation="unsafe", unsafe=True)  # type: ignore[arg-type]
    told = CliRunner().invoke(app, ["envs", "serve", "code", "isolation=unsafe"])
    assert (told.exit_code, "options.isolation" in told.output) == (2, True)


def test_an_unknown_isolation_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"unknown isolation 'dokcer'. Known: warm, warm-wi"):
        PythonSandbox(isolation="dokcer")
