"""A pseudo-terminal in which the command line runs as a person would use it."""

import os
import pty
import re
import select
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.patience import PATIENCE
from tests.warm_python import WarmProcess, WarmPython

WAIT_SECONDS = PATIENCE
PRESS_SECONDS = 5.0


class Terminal:
    """Types into a pseudo-terminal and reads what is on it."""

    def __init__(self, handle: int) -> None:
        self._handle = handle
        self._open = True
        self.seen = ""

    def type(self, text: str) -> None:
        os.write(self._handle, text.encode())

    def hang_up(self) -> None:
        """Close the terminal, as by its window."""
        if self._open:
            os.close(self._handle)
        self._open = False

    def press(self, key: str, until: str) -> None:
        """Press a key as people do, again if nothing happens, until the pattern is shown.

        Python does not hear a Ctrl-C that comes after it has shown a prompt and before it reads.
        """
        for _ in range(int(WAIT_SECONDS / PRESS_SECONDS)):
            self.type(key)
            if self._read_until(until, PRESS_SECONDS):
                break
        self.wait_for(until)

    def wait_for(self, pattern: str) -> str:
        """Return what was shown up to and including the pattern."""
        found = self._read_until(pattern, WAIT_SECONDS)
        assert found, f"{pattern!r} was never shown:\n{self.seen}"
        shown, self.seen = self.seen[: found.end()], self.seen[found.end() :]
        return shown

    def _read_until(self, pattern: str, seconds: float) -> "re.Match[str] | None":
        give_up_at = time.monotonic() + seconds
        while not (found := re.search(pattern, self.seen)):
            left = give_up_at - time.monotonic()
            if left <= 0:
                return None
            if select.select([self._handle], [], [], left)[0]:
                self.seen += os.read(self._handle, 65536).decode(errors="replace")
        return found


@contextmanager
def agentfly(*arguments: str) -> Iterator[tuple[Terminal, "subprocess.Popen[bytes]"]]:
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-m", "agentfly.cli", *arguments],
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        start_new_session=True,
        preexec_fn=_take_terminal,
    )
    os.close(theirs)
    terminal = Terminal(ours)
    try:
        yield terminal, process
    finally:
        process.kill()
        process.wait()
        terminal.hang_up()


@contextmanager
def warm_agentfly(python: WarmPython, *arguments: str) -> Iterator[tuple[Terminal, WarmProcess]]:
    """Run a command that needs torch, without importing torch again."""
    ours, theirs = pty.openpty()
    name, terminal = os.ttyname(theirs), Terminal(ours)
    with python.agentfly(*arguments, cwd=Path.cwd(), stdin=name, output=name) as process:
        os.close(theirs)
        try:
            yield terminal, process
        finally:
            terminal.hang_up()


def _take_terminal() -> None:
    """Make the pseudo-terminal the child's own, so that Ctrl-C reaches it as a signal.

    Its end too: tests that are themselves run with nohup would pass their deafness on.
    """
    import fcntl
    import termios

    signal.signal(signal.SIGHUP, signal.SIG_DFL)
    fcntl.ioctl(0, termios.TIOCSCTTY, 0)
