"""The result of a cell, and reading it from what a sandbox answers.

The interpreter shares its process with foreign code, so any answer may be forged. Everything is
checked here, every limit on what is shown is applied again, and what is not an answer to the
request raises NonsenseError, and nothing else.
"""

import re
from collections.abc import Collection
from dataclasses import dataclass
from enum import StrEnum

from agentfly.errors import ToolError
from agentfly.sandbox import framing
from agentfly.sandbox.framing import NonsenseError
from agentfly.sandbox.interpreter.cell import LIMIT_TEXTS, limit_text
from agentfly.sandbox.interpreter.main import LARGEST_LIST, LARGEST_READ, MOST_LISTED, PROBLEM_CHARS
from agentfly.sandbox.interpreter.output import (
    MARK_ROOM,
    MAX_FIGURES,
    MAX_IMAGE_BYTES,
    images_fit,
    shorten,
)
from agentfly.sandbox.limits import SandboxLimits
from agentfly.types import Image

NOTHING_SHOWN = "(no output)"


class CellStatus(StrEnum):
    """The way a cell ended."""

    OK = "ok"
    ERROR = "error"
    """It raised, or the command's exit code was not 0."""
    INTERRUPTED = "interrupted"
    """Its time was up; the variables are kept."""
    KILLED = "killed"
    """The interpreter has ended, with its variables and files; the next cell starts a new one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CellResult:
    r"""The output, value, error and figures of one cell.

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
    """Exit code of a shell command, or of a cell that called `exit`."""
    limit: str | None = None
    """Which limit was met: time, cpu, memory, processes, file_size, disk or output."""
    note: str | None = None
    """A message of the sandbox itself, for example about a limit and what to do about it."""

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


MAX_FILE_BYTES = framing.MAX_HEAD_BYTES + max(LARGEST_READ, LARGEST_LIST)
"""Size of the largest answer to a request for files."""
_TEXTS = ("stdout", "stderr", "value", "error")
_EXIT_CODES = range(-255, 256)
_COUNTS = range(1 << 16)


def max_cell_bytes(limits: SandboxLimits) -> int:
    """Return the size of the largest answer that an honest interpreter gives to a cell."""
    texts = len(_TEXTS) * 4 * (limits.output_chars + MARK_ROOM)
    return framing.HEADER.size + framing.MAX_HEAD_BYTES + texts + MAX_IMAGE_BYTES


def read_cell(body: bytes, number: int, limits: SandboxLimits) -> CellResult:
    """Read the result of a cell or command."""
    head, parts = _read(body, number, (*_TEXTS, "image"))
    texts = {name: _text(data, limits.output_chars) for name, data in parts if name in _TEXTS}
    exit_code = _optional_number(head.get("exit_code"), _EXIT_CODES)
    failed = "error" in texts or bool(exit_code)
    interrupted = head.get("interrupted") is True
    limit = _limit(head.get("limit"))
    return CellResult(
        status=_status(interrupted=interrupted, failed=failed),
        stdout=texts.get("stdout", ""),
        stderr=texts.get("stderr", ""),
        value=texts.get("value"),
        error=texts.get("error"),
        images=_images(parts),
        exit_code=exit_code,
        limit="time" if interrupted else limit,
        note=_note(head, limit, limits) or None,
    )


def read_content(body: bytes, number: int, limits: SandboxLimits) -> bytes:
    """Read a file's bytes; raise ToolError with the reason if the file could not be read."""
    return _read_part(body, number, "content", limits)


def read_names(body: bytes, number: int, limits: SandboxLimits) -> list[str]:
    """Read the list of a folder's files; raise ToolError if there is no such folder."""
    joined = _read_part(body, number, "names", limits)
    names = joined.decode("utf-8", "replace").split("\0") if joined else []
    if len(joined) > LARGEST_LIST or len(names) > MOST_LISTED:
        raise NonsenseError(f"a list of {len(names)} files in {len(joined)} bytes")
    return [harmless(name) for name in names]


def read_written(body: bytes, number: int, limits: SandboxLimits) -> None:
    """Read that a file was written; raise ToolError if it was not."""
    _read_part(body, number, None, limits)


def _read(body: bytes, number: int, names: Collection[str]) -> framing.Answer:
    """Read an answer to this request with parts of these names; of texts, one of each."""
    answer = framing.unpack_answer(body)
    if not _is_number(answer.head.get("number")) or answer.head["number"] != number:
        raise NonsenseError(f"not the answer to request {number}")
    found = [name for name, _ in answer.parts]
    unknown = [name for name in found if name not in names]
    if unknown or any(found.count(name) > 1 for name in set(found) - {"image"}):
        raise NonsenseError(f"no such parts are in an answer: {found!r:.80}")
    return answer


def _read_part(body: bytes, number: int, name: str | None, limits: SandboxLimits) -> bytes:
    head, parts = _read(body, number, [*([name] if name else []), "problem"])
    found = dict(parts)
    if "problem" in found:
        limit = _limit(head.get("limit"))
        problem = _text(found["problem"], PROBLEM_CHARS)
        raise ToolError(limit_text(limit, limits) if limit else problem)
    if name is None:
        return b""
    if name not in found:
        raise NonsenseError(f"an answer without {name}")
    return found[name]


def _text(data: bytes, limit: int) -> str:
    return shown(data.decode("utf-8", "replace"), limit)


def _images(parts: list[framing.Part]) -> tuple[Image, ...]:
    images = [data for name, data in parts if name == "image"]
    if not images_fit(images):
        raise NonsenseError(f"{len(images)} images that no interpreter sends")
    return tuple(Image(data=image) for image in images)


def _status(*, interrupted: bool, failed: bool) -> CellStatus:
    if interrupted:
        return CellStatus.INTERRUPTED
    return CellStatus.ERROR if failed else CellStatus.OK


def _note(head: dict[str, object], limit: str | None, limits: SandboxLimits) -> str:
    notes = [limit_text(limit, limits)] if limit else []
    if head.get("interrupted") is True:
        notes.append(f"Interrupted after {limits.seconds:g} s, the time limit. Variables are kept.")
    if ended := _optional_number(head.get("processes_ended"), _COUNTS):
        notes.append(f"{ended} background process(es) were ended with the cell.")
    if left_out := _optional_number(head.get("figures_left_out"), _COUNTS):
        room = f"{MAX_FIGURES} of {MAX_IMAGE_BYTES >> 20} MB together"
        notes.append(f"{left_out} figure(s) were left out: a cell may show {room}.")
    return " ".join(notes)


def _limit(value: object) -> str | None:
    if value is None:
        return None
    if not isinstance(value, str) or value not in LIMIT_TEXTS:
        raise NonsenseError(f"no such limit: {value!r:.80}")
    return value


def _optional_number(value: object, allowed: range) -> int | None:
    if value is None:
        return None
    if not _is_number(value) or value not in allowed:
        raise NonsenseError(f"expected a number of {allowed}, got {value!r:.80}")
    return value  # type: ignore[return-value]


def _is_number(value: object) -> bool:
    """Return whether it is a whole number, which True and 1.0 only equal."""
    return type(value) is int
