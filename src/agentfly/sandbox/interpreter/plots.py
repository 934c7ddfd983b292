"""Figures that a cell has drawn, as PNG."""

import base64
import io
import sys

MAX_FIGURES = 8
"""More than this in one cell is a mistake."""


def drain() -> list[str]:
    """Return all open matplotlib figures as base64, and close them."""
    pyplot = sys.modules.get("matplotlib.pyplot")
    if pyplot is None:
        return []
    images = []
    for number in pyplot.get_fignums()[:MAX_FIGURES]:
        buffer = io.BytesIO()
        pyplot.figure(number).savefig(buffer, format="png")
        images.append(base64.b64encode(buffer.getvalue()).decode())
    pyplot.close("all")
    return images
