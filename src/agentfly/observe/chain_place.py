"""Places of chains in their files, so that one can be read without those before it.

A compacted file is a row of gzip members, each a piece of text that is read on its own. A file of
one member, as earlier versions wrote it, is read from its beginning.
"""

import zlib
from collections.abc import Generator, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from agentfly.errors import FormatError

BLOCK = 1 << 16
"""Compressed bytes that are read at once."""
MAX_PIECE = 1 << 22
"""Bytes of text that are unpacked at once: a block of zeros would become 64 MB."""
_GZIP = 31
"""zlib's number for the format of a gzip file."""


@dataclass(frozen=True, slots=True)
class Place:
    """Place of a line in a file of chains."""

    member: int
    """Offset of the gzip member in which the line begins; 0 in a plain file."""
    start: int
    """Offset of the line in the text of that member, or in a plain file."""
    length: int
    """Bytes of the line, its newline included."""

    @property
    def after(self) -> "Place":
        """Place of what follows, of unknown length."""
        return Place(self.member, self.start + self.length, 0)


BEGINNING = Place(0, 0, 0)


def placed_lines(
    path: Path, begin: Place = BEGINNING
) -> Generator[tuple[Place, bytes], None, None]:
    """Yield the lines of a file from a place on, each with its own place; a torn one is left out.

    Raises:
        FormatError: If a compressed file is damaged.
    """
    line, at = bytearray(), None
    for member, offset, piece in _pieces(path, begin):
        start = 0
        while (newline := piece.find(b"\n", start)) >= 0:
            at = at or (member, offset + start)
            line += piece[start : newline + 1]
            yield Place(*at, len(line)), bytes(line)
            line.clear()
            at, start = None, newline + 1
        if start < len(piece):
            at = at or (member, offset + start)
            line += piece[start:]


def read_line(path: Path, place: Place) -> bytes:
    """Return the line at a place; it is shorter where the file has become shorter."""
    line = bytearray()
    for _, _, piece in _pieces(path, place):
        line += piece[: place.length - len(line)]
        if len(line) == place.length:
            break
    return bytes(line)


def _pieces(path: Path, begin: Place) -> Iterator[tuple[int, int, bytes]]:
    """Yield the text from a place on: its member, its offset in the member, and its bytes."""
    with path.open("rb") as file:
        if path.suffix != ".gz":
            file.seek(begin.start)
            while piece := file.read(BLOCK):
                yield 0, file.tell() - len(piece), piece
            return
        for member, offset, piece in _unpacked(file, begin.member, path):
            skip = begin.start - offset if member == begin.member else 0
            if skip < len(piece):
                yield member, offset + max(0, skip), piece[max(0, skip) :]


def _unpacked(file: IO[bytes], member: int, path: Path) -> Iterator[tuple[int, int, bytes]]:
    file.seek(member)
    raw = file.read(BLOCK)
    try:
        while raw:
            inflate, offset = zlib.decompressobj(_GZIP), 0
            while not inflate.eof:
                if not raw and not (raw := file.read(BLOCK)):
                    raise FormatError(f"{path} is cut off. Restore it, or delete it")
                piece = inflate.decompress(raw, MAX_PIECE)
                raw = inflate.unconsumed_tail
                if piece:
                    yield member, offset, piece
                offset += len(piece)
            member = file.tell() - len(inflate.unused_data)
            raw = inflate.unused_data or file.read(BLOCK)
    except zlib.error as error:
        raise FormatError(f"{path} is damaged: {error}. Restore it, or delete it") from error
