"""A cell's result is its own, whatever its exceptions, values and interrupts look like."""

import os
import shutil
import signal
import sys
import tempfile
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest

from agentfly.sandbox import (
    CellResult,
    CellStatus,
    PythonSandbox,
    SandboxLimits,
    cell_result,
    framing,
)
from agentfly.sandbox.box import Box, Isolation
from agentfly.sandbox.interpreter import main
from agentfly.sandbox.levels import Launcher, WarmServers, warm_settings
from agentfly.sandbox.process_box import ProcessBox, ProcessLauncher
from agentfly.sandbox.warm import WarmBox

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="needs Linux namespaces")

LIMITS = SandboxLimits(seconds=60.0)
SHOWN = LIMITS.output_chars


@pytest.fixture(params=["warm", "unsafe", "bubblewrap"])
async def sandbox(request: pytest.FixtureRequest) -> AsyncIterator[PythonSandbox]:
    if request.param == "bubblewrap" and not shutil.which("bwrap"):
        pytest.skip("bubblewrap is not installed")
    one = PythonSandbox(limits=LIMITS, isolation=request.param, unsafe=request.param == "unsafe")
    yield one
    await one.close()


async def test_output_begins_where_the_cell_does(sandbox: PythonSandbox) -> None:
    code = "import os, sys\nprint('out')\nprint('err', file=sys.stderr)\nos.system('echo program')"
    for _ in range(3):
        result = await sandbox.run(f"{code}\nNone")
        assert (result.stdout, result.stderr) == ("out\nprogram\n", "err\n")


@pytest.fixture
def below_tmp() -> Iterator[str]:
    with tempfile.TemporaryDirectory(dir="/tmp") as folder:
        Path(folder, "note.txt").write_text("seen")
        Path(folder).chmod(0o755)
        yield folder


@pytest.mark.skipif(not shutil.which("bwrap"), reason="bubblewrap is not installed")
async def test_a_folder_below_tmp_is_shown_by_bubblewrap(below_tmp: str) -> None:
    sandbox = PythonSandbox(limits=LIMITS, isolation="bubblewrap", readable=(below_tmp,))
    code = f"import tempfile\nprint(open('{below_tmp}/note.txt').read(), tempfile.mkdtemp())"
    result = await sandbox.run(code)
    await sandbox.close()
    assert result.stdout.startswith("seen /box/tmp/"), result


ENDLESS = "    while True: pass\n"
EXCEPTIONS = {
    "whose text raises": (
        "class E(Exception):\n    def __str__(self): raise ValueError\nraise E",
        "E: <exception str() failed>",
    ),
    "whose text leaves": (
        "class E(Exception):\n    def __str__(self): raise SystemExit\nraise E",
        "E: <exception str() failed>",
    ),
    "whose text is no text": (
        "class E(Exception):\n    def __str__(self): return 3\nraise E",
        "E: <exception str() failed>",
    ),
    "with 3,000 contexts": (
        "e = None\nfor i in range(3000):\n    n = ValueError(i); n.__context__ = e; e = n\nraise e",
        "ValueError: 2999",
    ),
    "with 3,000 causes": (
        "e = None\nfor i in range(3000):\n    n = ValueError(i); n.__cause__ = e; e = n\nraise e",
        "ValueError: 2999",
    ),
    "that is its own cause": (
        "a, b = ValueError('a'), ValueError('b')\na.__cause__, b.__cause__ = b, a\nraise a",
        "ValueError: a",
    ),
    "with a new cause whenever it is asked": (
        "class E(Exception):\n    __cause__ = property(lambda self: E())\nraise E",
        "E",
    ),
    "that denies its class": (
        "class E(Exception):\n    __class__ = property(lambda self: SystemExit)\nraise E('x')",
        "E: x",
    ),
    "whose class has no name": (
        "class M(type):\n    __name__ = property(lambda cls: 1 / 0)\n"
        "class E(Exception, metaclass=M): pass\nraise E('x')",
        "E: x",
    ),
    "whose error number raises": (
        "class E(OSError):\n    errno = property(lambda self: 1 / 0)\nraise E",
        "E",
    ),
    "whose error number leaves": (
        "class E(OSError):\n    @property\n    def errno(self): raise SystemExit\nraise E",
        "SystemExit",
    ),
    "of 100 MB": ("raise ValueError('x' * (100 << 20) + ' end')", "x end"),
    "from a deep recursion": (
        "def f(): f()\nf()",
        "RecursionError: maximum recursion depth exceeded",
    ),
    "in 3,000 groups": (
        "e = ValueError(1)\nfor _ in range(3000): e = ExceptionGroup('g', [e])\nraise e",
        "",
    ),
    "in a wide group": (
        "raise ExceptionGroup('g', [ValueError(i) for i in range(100_000)])",
        "",
    ),
    "that is a syntax error with a NUL": (
        "exec('a = \\0')",
        "SyntaxError: source code string cannot contain null bytes",
    ),
    "that claims to be a syntax error": (
        "raise SyntaxError('bad', ('f', 'x', [], 3))",
        "",
    ),
    "with lone surrogates": (r"raise ValueError('\ud800')", r"ValueError: \ud800"),
    "with lone surrogates in its name": (
        r"raise type('\ud800', (Exception,), {})('x')",
        "",
    ),
    "of an interrupt": ("raise KeyboardInterrupt", "KeyboardInterrupt"),
    "of a generator": ("raise GeneratorExit('x')", "GeneratorExit: x"),
}


async def test_an_exception_of_any_kind_is_described(sandbox: PythonSandbox) -> None:
    await sandbox.run("kept = 1")
    for name, (code, last) in EXCEPTIONS.items():
        result = await sandbox.run(f"print('before')\n{code}")
        assert result.status is CellStatus.ERROR, (name, result)
        assert result.stdout == "before\n", name
        error = str(result.error)
        assert error.rstrip().endswith(last), (name, error[-200:])
        assert len(error) < SHOWN + 100, name
        result.observation.encode()
        assert (await sandbox.run("kept")).value == "1", f"{name}: the interpreter lives on"


@pytest.mark.parametrize("kind", ["__str__", "__repr__"])
async def test_an_endless_description_meets_the_time_limit(kind: str) -> None:
    sandbox = PythonSandbox(limits=SandboxLimits(seconds=1.0, grace_seconds=60.0))
    await sandbox.run(f"kept = 1\nclass E(Exception):\n  def {kind}(self):\n{ENDLESS}")
    for code in ("raise E" if kind == "__str__" else "E()", "1 + 1"):
        result = await sandbox.run(f"print('before')\n{code}")
        assert result.stdout == "before\n"
        if code != "1 + 1":
            assert (result.status, result.limit) == (CellStatus.INTERRUPTED, "time")
    assert (await sandbox.run("kept")).value == "1"
    await sandbox.close()


async def test_a_value_may_print_while_it_is_shown(sandbox: PythonSandbox) -> None:
    code = "class R:\n    def __repr__(self):\n        print('shown')\n        return 'R'\nR()"
    result = await sandbox.run(code)
    assert (result.stdout, result.value) == ("shown\n", "R")


async def test_output_with_lone_surrogates_can_be_written(sandbox: PythonSandbox) -> None:
    result = await sandbox.run(
        "import os\nprint('\\ud800')\nos.write(1, b'\\xed\\xa0\\x80\\xff')\n"
        "class R:\n    def __repr__(self): return '\\udfff'\nR()"
    )
    assert result.value == r"\udfff"
    result.observation.encode()


async def test_a_stream_that_leaves_when_flushed_does_not_end_the_interpreter(
    sandbox: PythonSandbox,
) -> None:
    code = "import sys\nkept = 1\nclass S:\n    def flush(self): raise SystemExit\nsys.stdout = S()"
    assert (await sandbox.run(code)).ok
    assert (await sandbox.run("kept")).value == "1"


@pytest.mark.parametrize(
    ("code", "exit_code", "shown"),
    [
        ("exit()", 0, "(no output)"),
        ("raise SystemExit(3)", 3, "exit code 3"),
        ("raise SystemExit(-1)", 255, "exit code 255"),
        ("raise SystemExit('no luck')", 1, "[stderr]\nno luck\nexit code 1"),
        (
            "class E(SystemExit):\n    code = property(lambda self: 1 / 0)\nraise E",
            1,
            "exit code 1",
        ),
    ],
)
async def test_a_cell_that_exits_says_so(code: str, exit_code: int, shown: str) -> None:
    sandbox = PythonSandbox(limits=LIMITS)
    result = await sandbox.run(code)
    assert (result.exit_code, result.observation) == (exit_code, shown)
    assert result.ok is (exit_code == 0)
    await sandbox.close()


WAITS_FOR_SIGNAL = """
import os, signal
reading, writing = os.pipe()
os.set_blocking(writing, False)
signal.set_wakeup_fd(writing, warn_on_full_buffer=False)
os.write(CHANNEL, b"\\x07\\0\\0\\0started")
os.read(reading, 1)
signal.set_wakeup_fd(-1)
'went on'
"""
"""Says when it runs, and goes on when its process has got a signal."""


async def answer(box: Box, code: str) -> CellResult:
    box.channel.send({"op": "run", "code": code})
    return await received(box)


async def received(box: Box) -> CellResult:
    body = await box.channel.receive(cell_result.max_cell_bytes(LIMITS))
    return cell_result.read_cell(body, box.channel.number, LIMITS)


@pytest.fixture(params=["warm", "unsafe"])
async def box(request: pytest.FixtureRequest) -> AsyncIterator[Box]:
    own = WarmServers()
    launcher: Launcher = (
        ProcessLauncher(Isolation.UNSAFE, ())
        if request.param == "unsafe"
        else await own.server(warm_settings((), (), always=()))
    )
    made = await launcher.spawn(LIMITS, seed=0)
    yield made
    await made.close()
    own.close()


async def interrupt_late(box: Box) -> None:
    """Interrupt the last request, which has ended, once the next one runs."""
    warm = isinstance(box, WarmBox)
    box.channel.interrupt(box.channel.number)
    code = WAITS_FOR_SIGNAL.replace("CHANNEL", "200" if warm else "201")
    box.channel.send({"op": "run", "code": code})
    assert await box.channel.receive(99) == b"started"
    if isinstance(box, WarmBox):
        await box._server.send_request({"op": "interrupt", "id": box._number})
    elif isinstance(box, ProcessBox):
        os.kill(box._child.pid, signal.SIGINT)


async def test_a_late_interrupt_does_not_hit_the_next_cell(box: Box) -> None:
    assert (await answer(box, "1 + 1")).value == "2"
    await interrupt_late(box)
    assert (await received(box)).value == "'went on'"


async def test_an_interrupt_hits_the_cell_that_it_is_meant_for(box: Box) -> None:
    for _ in range(2):
        assert (await answer(box, "1 + 1")).value == "2"
        await interrupt_late(box)
        assert (await received(box)).ok
        box.channel.send({"op": "run", "code": "while True: pass"})
        await box.interrupt()
        assert (await received(box)).status is CellStatus.INTERRUPTED


async def test_interrupts_between_cells_are_forgotten(box: Box) -> None:
    for _ in range(5):
        assert (await answer(box, "1 + 1")).value == "2"
        await box.interrupt()
    assert (await answer(box, "sum(range(10 ** 6))")).value == "499999500000"


async def test_an_interrupt_that_a_cell_sends_to_itself_is_its_own(box: Box) -> None:
    own = "import signal\ntry:\n    signal.raise_signal(signal.SIGINT)\n"
    caught = await answer(box, f"{own}except KeyboardInterrupt:\n    caught = True\ncaught")
    assert (caught.value, caught.limit) == ("True", None)
    await interrupt_late(box)
    assert (await received(box)).ok
    assert (await answer(box, "signal.raise_signal(2)")).status is CellStatus.ERROR


async def test_a_handler_that_a_cell_leaves_behind_does_not_outlive_it(box: Box) -> None:
    await answer(box, "import signal; signal.signal(2, signal.default_int_handler); x = 1")
    await box.interrupt()
    assert (await answer(box, "x")).value == "1"


def test_a_signal_while_a_request_is_read_does_not_read_its_rest(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    reading, writing = os.pipe()
    os.write(writing, framing.pack({"op": "interrupt", "number": 4}))
    received: list[int] = []
    receive = main._receive

    def interrupted(descriptor: int) -> Any:
        received.append(descriptor)
        signal.raise_signal(signal.SIGINT)
        return receive(descriptor)

    monkeypatch.setattr(main, "_receive", interrupted)
    interpreter = main.Interpreter.__new__(main.Interpreter)
    interpreter.reading, interpreter._running = reading, 4
    interpreter._signals_to_come, interpreter._receiving = 0, False
    before = signal.signal(signal.SIGINT, interpreter._interrupt)
    try:
        with pytest.raises(KeyboardInterrupt):
            interpreter._stop_if_asked()
    finally:
        signal.signal(signal.SIGINT, before)
        for descriptor in (reading, writing):
            os.close(descriptor)
    assert len(received) == 1
    assert interpreter._signals_to_come == 0
    assert interpreter._interrupted
