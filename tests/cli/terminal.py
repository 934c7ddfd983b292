"""A pseudo-terminal in which the command line runs as a person would use it."""

import os
import pty
import re
import select
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

WAIT_SECONDS = 100.0


class Terminal:
    """Types into a pseudo-terminal and reads what is on it."""

    def __init__(self, handle: int) -> None:
        self._handle = handle
        self.seen = ""

    def type(self, text: str) -> None:
        os.write(self._handle, text.encode())

    def wait_for(self, pattern: str) -> str:
        """Return what was shown up to and including the pattern."""
        give_up_at = time.monotonic() + WAIT_SECONDS
        while not (found := re.search(pattern, self.seen)):
            left = give_up_at - time.monotonic()
            assert left > 0, f"{pattern!r} was never shown:\n{self.seen}"
            if select.select([self._handle], [], [], left)[0]:
                self.seen += os.read(self._handle, 65536).decode(errors="replace")
        shown, self.seen = self.seen[: found.end()], self.seen[found.end() :]
        return shown


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
    try:
        yield Terminal(ours), process
    finally:
        process.kill()
        process.wait()
        os.close(ours)


def _take_terminal() -> None:
    """Make the pseudo-terminal the child's own, so that Ctrl-C reaches it as a signal."""
    import fcntl
    import termios

    fcntl.ioctl(0, termios.TIOCSCTTY, 0)
