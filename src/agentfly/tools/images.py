"""Pictures in whatever form a tool returns them."""

import base64
import binascii
import io
from typing import Any

from agentfly.types import Image

_SIGNATURES = {
    b"\x89PNG\r\n\x1a\n": "image/png",
    b"\xff\xd8\xff": "image/jpeg",
    b"GIF8": "image/gif",
    b"BM": "image/bmp",
}


def read_images(value: object) -> tuple[Image, ...] | None:
    """Read one picture or a list of them; None if it is anything else.

    A picture is an `Image`, the bytes of a known format, a `data:` address, or a PIL image.
    """
    entries = value if isinstance(value, (list, tuple)) else [value]
    images = [_image(entry) for entry in entries]
    found = tuple(image for image in images if image is not None)
    return found if found and len(found) == len(entries) else None


def _image(value: Any) -> Image | None:
    if isinstance(value, Image):
        return value
    if isinstance(value, bytes):
        media_type = _media_type(value)
        return Image(data=value, media_type=media_type) if media_type else None
    if isinstance(value, str):
        return _from_data_url(value)
    # PIL is never imported: its images are known by what they can do.
    if all(hasattr(value, name) for name in ("save", "size", "mode", "tobytes")):
        buffer = io.BytesIO()
        value.save(buffer, format="PNG")
        return Image(data=buffer.getvalue())
    return None


def _media_type(data: bytes) -> str | None:
    if data[:4] == b"RIFF" and data[8:12] == b"WEBP":
        return "image/webp"
    return next((kind for start, kind in _SIGNATURES.items() if data.startswith(start)), None)


def _from_data_url(text: str) -> Image | None:
    header, comma, body = text.partition(",")
    if not (comma and header.startswith("data:image/") and header.endswith(";base64")):
        return None
    try:
        data = base64.b64decode(body, validate=True)
    except binascii.Error:
        return None
    return Image(data=data, media_type=header.removeprefix("data:").removesuffix(";base64"))
