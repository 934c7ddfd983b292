"""The result of a cell."""

import re
from dataclasses import dataclass
from enum import StrEnum

from agentfly.sandbox.interpreter.output import MARK_ROOM, shorten
from agentfly.types import Image

NOTHING_SHOWN = "(no output)"


class CellStatus(StrEnum):
    """How a cell ended."""

    OK = "ok"
    ERROR = "error"
    """It raised, or the command's exit code was not 0."""
    INTERRUPTED = "interrupted"
    """Its time was up; the variables are kept."""
    KILLED = "killed"
    """The interpreter is gone, and with it variables and files; the next cell starts afresh."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CellResult:
    r"""What one cell printed, returned, raised and drew.

    >>> CellResult(status=CellStatus.OK, stdout="hi\n", value="21").observation
    'hi\n21'
    """

    status: CellStatus
    stdout: str = ""
    stderr: str = ""
    value: str | None = None
    """`repr` of the value of a last expression, unless that is None."""
    error: str | None = None
    """The traceback, trimmed to the cell's own code."""
    images: tuple[Image, ...] = ()
    """The figures that were drawn, as PNG."""
    exit_code: int | None = None
    """Of a shell command, or of a cell that called `exit`."""
    limit: str | None = None
    """Which limit was met: time, cpu, memory, processes, file_size, disk or output."""
    note: str | None = None
    """What the sandbox itself has to say, for example of a limit and what to do about it."""

    @property
    def ok(self) -> bool:
        """Whether it ran to its end without an error."""
        return self.status is CellStatus.OK

    @property
    def observation(self) -> str:
        """All of it as one text for a model."""
        code = f"exit code {self.exit_code}" if self.exit_code else None
        stderr = f"[stderr]\n{self.stderr}" if self.stderr else None
        figures = f"[{len(self.images)} figure(s)]" if self.images else None
        note = f"[{self.note}]" if self.note else None
        parts = (self.stdout, stderr, self.value, self.error, code, figures, note)
        return "\n".join(part.rstrip("\n") for part in parts if part) or NOTHING_SHOWN


_CONTROL = re.compile(
    r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069\ud800-\udfff]"
)


def harmless(text: str) -> str:
    r"""Make control characters visible, so that printing the text can't steer a terminal.

    Lone surrogates, which no file or tokenizer takes, are replaced.

    >>> harmless("\x1b[2Jgone")
    '␛[2Jgone'
    """
    return _CONTROL.sub(_visible, text.replace("\r\n", "\n").replace("\r", "\n"))


def shown(text: str, limit: int) -> str:
    """Return a text as a model may see it: harmless, and without its middle if it is too long."""
    return harmless(text if len(text) <= limit + MARK_ROOM else shorten(text, limit))


def _visible(match: re.Match[str]) -> str:
    number = ord(match[0])
    return chr(0x2400 + number) if number < 0x20 else "�"
