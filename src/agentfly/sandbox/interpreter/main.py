r"""The sandbox's side of the conversation: one request, one answer, until the channel ends.

{"op": "run", "code": "1+1", "number": 1}            {"number": 1, "value": "2", …}
{"op": "shell", "command": "ls", "number": 2}        {"number": 2, "stdout": "a.csv\n", …}
{"op": "read", "path": "a.csv", "number": 3}         {"number": 3, "result": "<base64>"}
"""

import os
import random
import signal
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from types import FrameType, ModuleType
from typing import Any

from agentfly.sandbox import wire
from agentfly.sandbox.interpreter import cell, files, hints, plots
from agentfly.sandbox.interpreter.output import Output, shorten
from agentfly.sandbox.limits import SandboxLimits

Answer = dict[str, Any]


def serve(interpreter: "Interpreter", reading: int, writing: int) -> None:
    """Answer requests until the channel ends."""
    _send(writing, {"ready": True})
    while (request := _receive(reading)) is not None:
        _send(writing, interpreter.answer(request))


def seed_generators(seed: int) -> None:
    """Give each sandbox its own numbers: forks of one process would all draw the same."""
    random.seed(seed)
    numpy_random = sys.modules.get("numpy.random")
    if numpy_random is not None:
        numpy_random.seed(seed % (1 << 32))


class Interpreter:
    """Cells, commands and files of one sandbox."""

    def __init__(self, limits: SandboxLimits) -> None:
        self._limits = limits
        self._output = Output(shown=limits.output_chars, room=limits.output_mb << 20)
        self._cells = cell.Cells(_fresh_main())
        self._pid = os.getpid()
        self._running = False
        self._interrupted = False

    def answer(self, request: dict[str, Any]) -> Answer:
        """Do what a request asks for."""
        operations: dict[str, Callable[[], Answer]] = {
            "run": lambda: self._run(request["code"]),
            "shell": lambda: self._shell(request["command"]),
            "read": lambda: _file_answer(lambda: files.read(request["path"]), self._limits),
            "write": lambda: _file_answer(
                lambda: files.write(request["path"], request["data"]), self._limits
            ),
            "list": lambda: _file_answer(lambda: files.names(request["path"]), self._limits),
        }
        return operations[request["op"]]() | {"number": request["number"]}

    def _run(self, code: str) -> Answer:
        def cell_and_figures() -> Answer:
            value = self._cells.run(code)
            shown = None if value is None else shorten(repr(value), self._limits.output_chars)
            return {"value": shown, "images": plots.drain()}

        return self._captured(cell_and_figures)

    def _shell(self, command: str) -> Answer:
        def execute() -> Answer:
            with subprocess.Popen(["/bin/sh", "-c", command]) as child:
                try:
                    return {"exit_code": child.wait()}
                except BaseException:
                    child.kill()
                    raise

        return self._captured(execute)

    def _captured(self, action: Callable[[], Answer]) -> Answer:
        """Run foreign code; whatever it prints, returns or raises is part of the answer."""
        self._output.begin()
        self._listen_for_interrupts()
        answer: Answer = {"value": None, "images": [], "error": None}
        error: BaseException | None = None
        try:
            self._running = True
            answer |= action()
            self._running = False
        except BaseException as raised:  # noqa: BLE001 - foreign code may raise anything
            self._running = False
            error = raised
        self._leave_if_forked()
        ended = _end_other_processes()
        printed = self._output.end()
        hint = hints.of(error, self._limits) if error is not None else None
        if printed.overflowed:
            hint = hints.output(self._limits)
        if error is not None and not isinstance(error, SystemExit):
            answer["error"] = shorten(cell.describe(error), self._limits.output_chars)
        return answer | {
            "stdout": printed.stdout,
            "stderr": printed.stderr,
            "limit": hint.limit if hint else None,
            "note": hint.text if hint else None,
            "interrupted": self._interrupted,
            "processes_ended": ended,
        }

    def _leave_if_forked(self) -> None:
        """End a child that foreign code has forked: it must not answer in its parent's name."""
        if os.getpid() != self._pid:
            self._output.end()
            os._exit(0)

    def _listen_for_interrupts(self) -> None:
        """Take SIGINT back from whoever took it in an earlier cell."""
        self._interrupted = False
        signal.signal(signal.SIGINT, self._interrupt)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})

    def _interrupt(self, number: int, frame: FrameType | None) -> None:
        # One that comes too late must not hit this loop itself.
        if self._running:
            self._interrupted = True
            raise KeyboardInterrupt


def _file_answer(action: Callable[[], object], limits: SandboxLimits) -> Answer:
    try:
        return {"result": action()}
    except (OSError, ValueError, MemoryError) as error:
        hint = hints.of(error, limits)
        return {"problem": hint.text if hint else f"{type(error).__name__}: {error}"}


def _end_other_processes() -> int:
    """End what the cell left running: nothing outlives the cell that started it.

    Only as the first process of a pid namespace, where "all others" are the sandbox's own.
    """
    ended = 0
    if os.getpid() == 1:
        with suppress(ProcessLookupError):
            os.kill(-1, signal.SIGKILL)
            with suppress(ChildProcessError):
                while os.waitpid(-1, 0)[0]:
                    ended += 1
    return ended


def _fresh_main() -> dict[str, Any]:
    module = ModuleType("__main__")
    sys.modules["__main__"] = module
    sys.argv = [""]
    return vars(module)


def _receive(descriptor: int) -> dict[str, Any] | None:
    header = _read(descriptor, wire.HEADER.size)
    if header is None:
        return None
    body = _read(descriptor, wire.HEADER.unpack(header)[0])
    return None if body is None else wire.unpack(body)


def _read(descriptor: int, size: int) -> bytes | None:
    parts = []
    while size:
        part = os.read(descriptor, min(size, 1 << 20))
        if not part:
            return None
        parts.append(part)
        size -= len(part)
    return b"".join(parts)


def _send(descriptor: int, message: dict[str, Any]) -> None:
    data = memoryview(wire.pack(message))
    while data:
        data = data[os.write(descriptor, data) :]
