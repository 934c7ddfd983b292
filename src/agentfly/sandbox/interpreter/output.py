"""The output of a cell, caught in files so that programs that it starts are included; figures.

The files have a size limit of the kernel's, so a flood stops where it is printed.
"""

import ctypes
import errno
import io
import os
import struct
import sys
from contextlib import suppress
from typing import NamedTuple

MARK_ROOM = 64
"""Characters, at most, of the mark where the middle of a text is left out."""
_OVERFLOWS = (errno.ENOSPC, errno.EFBIG)
_PAGE = 4096


class Printed(NamedTuple):
    """The printed text, shortened to what is shown."""

    stdout: str
    stderr: str
    overflowed: bool


class Output:
    """The files behind descriptors 1 and 2."""

    def __init__(self, *, shown: int, room: int) -> None:
        """Show at most `shown` characters of each; `room` bytes are all that can be printed."""
        self._shown = shown
        self._room = room
        # Kept apart, for code may close or redirect 1 and 2 themselves.
        self._files = (_high_copy(1), _high_copy(2))
        self._libc = ctypes.CDLL(None)
        sys.stdin = open(0, encoding="utf-8", closefd=False)  # noqa: SIM115
        sys.stdout = _stream(1)
        sys.stderr = _stream(2)

    def begin(self) -> None:
        """Forget what was printed so far."""
        for file in self._files:
            os.ftruncate(file, 0)

    def end(self) -> Printed:
        """Return what was printed since."""
        full = [self._flush(stream) for stream in (sys.stdout, sys.stderr)]
        self._libc.fflush(None)
        used = sum(os.fstat(file).st_size for file in self._files)
        stdout, stderr = (self._read(file) for file in self._files)
        return Printed(stdout, stderr, any(full) or used > self._room - 2 * _PAGE)

    def _flush(self, stream: object) -> bool:
        """Write out what is buffered; True if there was no room for it, and it was dropped."""
        try:
            stream.flush()  # type: ignore[attr-defined]
        except OSError as error:
            if error.errno in _OVERFLOWS:
                self._drop_buffered(stream)
                return True
        except BaseException:  # noqa: BLE001 - code may have put anything in its place
            return False
        return False

    def _drop_buffered(self, stream: object) -> None:
        """Let a stream write into nothing, or its next flush would fail again, in another cell."""
        number = 2 if stream is sys.stderr else 1
        saved, nowhere = os.dup(number), os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, number)
        with suppress(BaseException):
            stream.flush()  # type: ignore[attr-defined]
        os.dup2(saved, number)
        os.close(saved)
        os.close(nowhere)

    def _read(self, file: int) -> str:
        """Read the beginning and the end, with a mark where the middle is left out."""
        size, half = os.fstat(file).st_size, self._shown // 2
        if size <= self._shown:
            return os.pread(file, size, 0).decode("utf-8", "replace")
        head = os.pread(file, half, 0).decode("utf-8", "replace")
        tail = os.pread(file, half, size - half).decode("utf-8", "replace")
        return f"{head}\n[… {size - 2 * half} bytes left out …]\n{tail}"


def shorten(text: str, limit: int) -> str:
    r"""Leave out the middle of a long text.

    >>> shorten("abcdefghij", 4)
    'ab\n[… 6 characters left out …]\nij'
    """
    if len(text) <= limit:
        return text
    half = limit // 2
    return f"{text[:half]}\n[… {len(text) - 2 * half} characters left out …]\n{text[-half:]}"


def _high_copy(number: int) -> int:
    copy = 210 + number
    os.dup2(number, copy, inheritable=False)
    return copy


def _stream(number: int) -> object:
    return open(number, "w", encoding="utf-8", errors="replace", buffering=1, closefd=False)


MAX_FIGURES = 8
"""More than this in one cell is a mistake."""
MAX_IMAGE_BYTES = 4 << 20
"""Size of all figures of a cell together."""
MAX_PIXELS = 1 << 24
"""Pixels of one figure: a small file may unpack into a huge picture."""
_PNG = struct.Struct(">8s8xII")
_SIGNATURE = b"\x89PNG\r\n\x1a\n"


class Figures(NamedTuple):
    """The figures that fit, and how many did not."""

    images: list[bytes]
    left_out: int


def drain_figures() -> Figures:
    """Return all open matplotlib figures, and close them."""
    pyplot = sys.modules.get("matplotlib.pyplot")
    if pyplot is None:
        return Figures([], 0)
    numbers = pyplot.get_fignums()
    images: list[bytes] = []
    for number in numbers[:MAX_FIGURES]:
        buffer = io.BytesIO()
        pyplot.figure(number).savefig(buffer, format="png")
        if images_fit([*images, buffer.getvalue()]):
            images.append(buffer.getvalue())
    pyplot.close("all")
    return Figures(images, len(numbers) - len(images))


def images_fit(images: list[bytes]) -> bool:
    """Return whether all are PNG files, and few and small enough together."""
    return (
        len(images) <= MAX_FIGURES
        and sum(map(len, images)) <= MAX_IMAGE_BYTES
        and all(map(_is_png, images))
    )


def _is_png(image: bytes) -> bool:
    if len(image) < _PNG.size:
        return False
    signature, width, height = _PNG.unpack_from(image)
    return bool(signature == _SIGNATURE and 0 < width * height <= MAX_PIXELS)
