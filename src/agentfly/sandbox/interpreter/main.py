"""The sandbox's side of the connection: one request, one answer, until the channel ends.

    {"op": "run", "code": "1+1", "number": 1}            {"number": 1, …} and the part "value"
    {"op": "shell", "command": "ls", "number": 2}        {"number": 2, …} and the part "stdout"
    {"op": "read", "path": "a.csv", "number": 3}         {"number": 3} and the part "content"
    {"op": "interrupt", "number": 4}                     no answer

An interrupt is a SIGINT, and a request that names the cell it is meant for. It is sent before the
signal and read by the signal's handler, so that a signal that comes late can't hit the next cell.
"""

import base64
import os
import random
import select
import signal
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from types import FrameType, ModuleType
from typing import Any, NamedTuple

from agentfly.sandbox import framing
from agentfly.sandbox.interpreter import cell
from agentfly.sandbox.interpreter.output import Output, drain_figures, shorten
from agentfly.sandbox.limits import SandboxLimits

PROBLEM_CHARS = 1000
"""Characters that are shown of what went wrong with a file."""


class Failure(NamedTuple):
    """The reason why foreign code did not run to its end."""

    error: str | None = None
    limit: str | None = None
    exit_code: int | None = None


class Outcome(NamedTuple):
    """The result of foreign code."""

    parts: list[framing.Part]
    exit_code: int | None = None
    figures_left_out: int = 0


def serve(interpreter: "Interpreter", reading: int, writing: int) -> None:
    """Answer requests until the channel ends."""
    interpreter.reading = reading
    _send(writing, framing.pack({"ready": True}))
    while (request := _receive(reading)) is not None:
        if request["op"] == "interrupt":
            interpreter.expect_signal()
        else:
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
        self._running: int | None = None
        """Number of the cell that may be interrupted."""
        self._interrupted = False
        self._signals_to_come = 0
        """Interrupts whose request was read before their SIGINT came, less the contrary."""
        self._receiving = False
        self.reading = -1
        """Descriptor over which requests come."""

    def answer(self, request: dict[str, Any]) -> bytes:
        """Do what a request asks for."""
        number: int = request["number"]
        match request:
            case {"op": "run", "code": code}:
                return self._captured(number, lambda: self._run(code))
            case {"op": "shell", "command": command}:
                return self._captured(number, lambda: _shell(command))
            case {"op": "read", "path": path}:
                return _file_answer(number, lambda: [("content", read_content(path))])
            case {"op": "list", "path": path}:
                return _file_answer(number, lambda: [("names", list_names(path))])
            case {"op": "write", "path": path, "data": data}:
                return _file_answer(number, lambda: _written(path, data))
        raise ValueError(f"unknown request {request['op']!r}")

    def expect_signal(self) -> None:
        """Note that a SIGINT comes, or came, for a cell that has ended."""
        self._signals_to_come += 1

    def _run(self, code: str) -> Outcome:
        value, parts = self._cells.run(code), []
        if value is not None:
            parts.append(("value", _encoded(shorten(repr(value), self._limits.output_chars))))
        figures = drain_figures()
        parts += [("image", image) for image in figures.images]
        return Outcome(parts, figures_left_out=figures.left_out)

    def _captured(self, number: int, action: Callable[[], Outcome]) -> bytes:
        """Run foreign code; all that it prints, returns or raises is part of the answer."""
        self._output.begin()
        self._interrupted = False
        self._take_back_interrupts()
        outcome, failure = Outcome([]), Failure()
        try:
            self._running = number
            try:
                self._stop_if_asked()
                # All requests that were sent are read: further signals came from inside.
                self._signals_to_come = max(0, self._signals_to_come)
                outcome = action()
            except BaseException as error:  # noqa: BLE001 - foreign code may raise anything
                failure = self._failure(error)
            finally:
                self._running = None
        except BaseException as error:  # noqa: BLE001 - the interrupt, between the code and here
            failure = Failure(error=f"{type(error).__name__}\n")
        self._take_back_interrupts()
        self._leave_if_forked()
        ended = _end_other_processes()
        printed = self._output.end()
        head = {
            "number": number,
            "interrupted": self._interrupted,
            "limit": "output" if printed.overflowed else failure.limit,
            "exit_code": outcome.exit_code if failure.exit_code is None else failure.exit_code,
            "processes_ended": ended,
            "figures_left_out": outcome.figures_left_out,
        }
        texts = {"stdout": printed.stdout, "stderr": printed.stderr, "error": failure.error}
        said = [(name, _encoded(text)) for name, text in texts.items() if text is not None]
        return framing.pack_answer(head, [*said, *outcome.parts])

    def _failure(self, error: BaseException) -> Failure:
        if issubclass(type(error), SystemExit):
            return Failure(exit_code=_exit_code(error))
        text = shorten(cell.describe(error), self._limits.output_chars)
        return Failure(error=text, limit=cell.limit_of(error))

    def _leave_if_forked(self) -> None:
        """End a child that foreign code has forked: it must not answer in its parent's name."""
        if os.getpid() != self._pid:
            self._output.end()
            os._exit(0)

    def _take_back_interrupts(self) -> None:
        """Handle SIGINT again, regardless of who did so before."""
        signal.signal(signal.SIGINT, self._interrupt)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})

    def _interrupt(self, number: int, frame: FrameType | None) -> None:
        """Handle a SIGINT: stop the running cell if it is meant for it, or comes from it."""
        self._signals_to_come -= 1
        if self._running is not None and not self._receiving:
            self._stop_if_asked()
            if self._signals_to_come < 0:
                self._signals_to_come = 0
                raise KeyboardInterrupt

    def _stop_if_asked(self) -> None:
        """Stop the running cell if a request to interrupt it is there."""
        while (request := self._waiting_request()) is not None:
            self._signals_to_come += 1
            if request["number"] == self._running:
                self._running = None
                self._interrupted = True
                raise KeyboardInterrupt

    def _waiting_request(self) -> dict[str, Any] | None:
        """Receive a request that is there already; a SIGINT meanwhile must not read its rest."""
        self._receiving = True
        try:
            there = select.select([self.reading], [], [], 0)[0]
            return _receive(self.reading) if there else None
        finally:
            self._receiving = False


def _shell(command: str) -> Outcome:
    with subprocess.Popen(["/bin/sh", "-c", command]) as child:
        try:
            return Outcome([], exit_code=child.wait())
        except BaseException:
            child.kill()
            raise


def _exit_code(error: BaseException) -> int:
    """Return the code of a SystemExit; like Python, print anything else and return 1."""
    with suppress(BaseException):  # Foreign classes may raise anything.
        code = error.code  # type: ignore[attr-defined]
        if code is None or type(code) is int:
            return (code or 0) & 0xFF
        sys.stderr.write(f"{code}\n")
    return 1


def _written(path: str, data: str) -> list[framing.Part]:
    write_content(path, data)
    return []


def _file_answer(number: int, action: Callable[[], list[framing.Part]]) -> bytes:
    head: dict[str, Any] = {"number": number, "limit": None}
    try:
        return framing.pack_answer(head, action())
    except (OSError, ValueError, MemoryError) as error:
        problem = shorten(f"{type(error).__name__}: {error}", PROBLEM_CHARS)
        head["limit"] = cell.limit_of(error)
        return framing.pack_answer(head, [("problem", _encoded(problem))])


def _encoded(text: str) -> bytes:
    """Encode a text; what UTF-8 can't encode is shown as Python writes it."""
    return text.encode("utf-8", "backslashreplace")


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
    header = _read(descriptor, framing.HEADER.size)
    if header is None:
        return None
    body = _read(descriptor, framing.HEADER.unpack(header)[0])
    return None if body is None else framing.unpack(body)


def _read(descriptor: int, size: int) -> bytes | None:
    parts = []
    while size:
        part = os.read(descriptor, min(size, 1 << 20))
        if not part:
            return None
        parts.append(part)
        size -= len(part)
    return b"".join(parts)


def _send(descriptor: int, message: bytes) -> None:
    data = memoryview(message)
    while data:
        data = data[os.write(descriptor, data) :]


LARGEST_READ = 16 << 20
"""Bytes of a file that can be fetched in one go."""
MOST_LISTED = 1000
LARGEST_LIST = 1 << 18
"""Bytes of all names of a list together."""


def read_content(path: str) -> bytes:
    """Return a file's bytes."""
    with Path(path).open("rb") as file:
        data = file.read(LARGEST_READ + 1)
    if len(data) > LARGEST_READ:
        size = Path(path).stat().st_size
        raise OSError(f"{path} has {size} bytes; at most {LARGEST_READ} can be read")
    return data


def write_content(path: str, data: str) -> None:
    """Write a file from base64, and make its folders."""
    file = Path(path)
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(base64.b64decode(data))


def list_names(path: str) -> bytes:
    """Return the files below a folder, by their paths from there, sorted, with NULs between."""
    folder = Path(path)
    if not folder.is_dir():
        raise NotADirectoryError(f"{path} is not a folder")
    found = (str(file.relative_to(folder)) for file in folder.rglob("*") if file.is_file())
    listed = sorted(found)[:MOST_LISTED]
    while len(joined := b"\0".join(map(os.fsencode, listed))) > LARGEST_LIST:
        listed = listed[: len(listed) // 2]
    return joined
