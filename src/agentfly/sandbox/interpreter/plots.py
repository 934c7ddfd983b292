"""Figures that a cell has drawn, as PNG."""

import io
import struct
import sys
from typing import NamedTuple

MAX_FIGURES = 8
"""More than this in one cell is a mistake."""
MAX_BYTES = 4 << 20
"""Size of all figures of a cell together."""
MAX_PIXELS = 1 << 24
"""Pixels of one figure: a small file may unpack into a huge picture."""
_PNG = struct.Struct(">8s8xII")
_SIGNATURE = b"\x89PNG\r\n\x1a\n"


class Figures(NamedTuple):
    """The figures that fit, and how many did not."""

    images: list[bytes]
    left_out: int


def drain() -> Figures:
    """Return all open matplotlib figures, and close them."""
    pyplot = sys.modules.get("matplotlib.pyplot")
    if pyplot is None:
        return Figures([], 0)
    numbers = pyplot.get_fignums()
    images: list[bytes] = []
    for number in numbers[:MAX_FIGURES]:
        buffer = io.BytesIO()
        pyplot.figure(number).savefig(buffer, format="png")
        if fits([*images, buffer.getvalue()]):
            images.append(buffer.getvalue())
    pyplot.close("all")
    return Figures(images, len(numbers) - len(images))


def fits(images: list[bytes]) -> bool:
    """Return whether all are PNG files, and few and small enough together."""
    return (
        len(images) <= MAX_FIGURES
        and sum(map(len, images)) <= MAX_BYTES
        and all(map(_is_png, images))
    )


def _is_png(image: bytes) -> bool:
    if len(image) < _PNG.size:
        return False
    signature, width, height = _PNG.unpack_from(image)
    return bool(signature == _SIGNATURE and 0 < width * height <= MAX_PIXELS)
