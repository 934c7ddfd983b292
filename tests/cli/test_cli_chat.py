"""`agentfly chat` in a real terminal, as a person would use it."""

import os
import pty
import re
import select
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

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
def chat(*arguments: str) -> Iterator[tuple[Terminal, "subprocess.Popen[bytes]"]]:
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-m", "agentfly.cli", "chat", *arguments],
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


@pytest.mark.timeout(240)
def test_ctrl_c_stops_the_turn_and_not_the_program() -> None:
    with chat("tiny-random", "--max-tokens", "3000", "--temperature", "1") as (terminal, process):
        terminal.wait_for("> ")
        terminal.type("Tell me a long story.\n")
        terminal.wait_for(r"story\.\r\n[^>]{20,}")
        terminal.type("\x03")
        terminal.wait_for(r"\(stopped\)")
        terminal.wait_for("> ")
        terminal.type("/exit\n")
        assert process.wait(timeout=WAIT_SECONDS) == 0


@pytest.mark.timeout(240)
def test_a_model_calls_its_tool_and_the_result_is_shown() -> None:
    arguments = ("tiny", "--tools", "calculator", "--temperature", "0")
    with chat(*arguments) as (terminal, process):
        terminal.wait_for("> ")
        terminal.type("What is 23*41?\n")
        shown = terminal.wait_for(r"(?s)calculator → .*\n> ")
        assert "<tool_call>" in shown, "what the model writes is streamed as it is"
        terminal.type("/new\n")
        terminal.wait_for("> ")
        terminal.type("\x04")
        assert process.wait(timeout=WAIT_SECONDS) == 0


@pytest.mark.timeout(240)
def test_the_line_can_be_edited() -> None:
    pytest.importorskip("readline")
    with chat("tiny-random") as (terminal, process):
        terminal.wait_for("> ")
        terminal.type("/exit now\x02\x02\x02\x02\x0b\n")  # four steps back, cut off the rest
        assert process.wait(timeout=WAIT_SECONDS) == 0


def test_an_unknown_model_or_tool_is_told_in_one_line() -> None:
    for arguments, words in (
        (["tinny"], "Did you mean 'tiny'"),
        (["tiny", "--tools", "calculater"], "Did you mean 'calculator'"),
    ):
        run = subprocess.run(
            [sys.executable, "-m", "agentfly.cli", "chat", *arguments],
            capture_output=True,
            text=True,
            timeout=WAIT_SECONDS,
            check=False,
        )
        assert run.returncode == 2
        assert words in run.stderr
        assert "Traceback" not in run.stderr
