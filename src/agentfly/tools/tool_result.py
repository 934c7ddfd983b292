"""Conversion of a tool's return value to the result that the model is shown."""

import base64
import binascii
import io
import json
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from pydantic_core import from_json, to_json, to_jsonable_python

from agentfly.types import Image, Step, ToolResult, ToolStatus

DONE = "done"
"""Observation of a tool that returned nothing."""
PICTURE = "(image)"
"""Observation of a tool that returned an image without text."""

_PICTURE_KEYS = ("image", "images")


def to_result(value: object) -> ToolResult:
    """Convert a return value to a result; raise TypeError if it can't be shown.

    >>> to_result({"hits": [1, 2]}).observation
    '{"hits": [1, 2]}'
    >>> to_result({"observation": "2 hits", "seconds": 0.1}).info
    {'seconds': 0.1}
    >>> to_result(Step(observation="You win.", done=True)).ends_chain
    True
    """
    if isinstance(value, str):
        return ToolResult(observation=value)
    if isinstance(value, ToolResult):
        return _checked(value)
    if isinstance(value, Step):
        return _checked(_from_step(value))
    if isinstance(value, Mapping) and "observation" in value:
        return _from_dict(value)
    images = read_images(value)
    if images is not None:
        return ToolResult(observation=PICTURE, images=images)
    return ToolResult(observation=_text(value))


def clean_observation(result: ToolResult, max_length: int | None = None) -> ToolResult:
    """Replace invalid characters in an observation, and truncate it to `max_length`."""
    text = result.observation
    if not text.isascii():
        # Half of a surrogate pair, which JSON can spell, can't be tokenized or written to disk.
        text = text.encode(errors="replace").decode()
    if max_length is not None and len(text) > max_length:
        text = f"{text[:max_length]}\n[cut: {len(text) - max_length} more characters]"
    return result if text == result.observation else replace(result, observation=text)


def _from_step(step: Step) -> ToolResult:
    # As for actions in text: a chain of nothing but refused actions scores 0.
    refused = step.invalid and step.reward is None
    return ToolResult(
        observation=step.observation,
        status=ToolStatus.REFUSED if step.invalid else ToolStatus.OK,
        reward=0.0 if refused else step.reward,
        ends_chain=step.done,
        info=step.info,
        state_key=step.state_key,
    )


def _checked(result: ToolResult) -> ToolResult:
    images = read_images(result.images) if result.images else ()
    if images is None:
        raise TypeError("the images of its result are neither Image, bytes, data: nor PIL images")
    return replace(
        result,
        observation=_text(result.observation),
        info=plain_info(result.info),
        images=images,
        reward=None if result.reward is None else float(result.reward),
    )


def _from_dict(value: Mapping[str, Any]) -> ToolResult:
    said = to_result(value["observation"])
    pictures = {key: read_images(value[key]) for key in _PICTURE_KEYS if key in value}
    found = tuple(image for images in pictures.values() for image in images or ())
    rest = {k: v for k, v in value.items() if k != "observation" and pictures.get(k) is None}
    return replace(said, images=(*said.images, *found), info={**said.info, **plain_info(rest)})


def _text(value: object) -> str:
    if value is None:
        return DONE
    return value if isinstance(value, str) else json.dumps(_plain(value), ensure_ascii=False)


def _plain(value: object) -> Any:
    if isinstance(value, Iterator):
        raise TypeError(f"a {type(value).__name__} may never end: return a list")
    try:
        return to_jsonable_python(value, fallback=_numpy_to_list)
    except ValueError as error:
        raise TypeError(
            f"its result, a {type(value).__name__}, has no JSON form ({error}): return a str, "
            "a JSON value, a ToolResult, or a dict with an `observation`"
        ) from error


def _numpy_to_list(value: Any) -> Any:
    """Return lists for arrays and scalars with `tolist`, without importing numpy or torch."""
    if callable(getattr(value, "tolist", None)):
        return value.tolist()
    raise ValueError(f"{type(value).__name__} is unknown to JSON")


def plain_info(info: Mapping[str, Any]) -> dict[str, Any]:
    """Return the JSON form of an `info`; a value that has none becomes its `repr`."""
    return {str(key): _plain_or_repr(value) for key, value in info.items()}


def _plain_or_repr(value: object) -> Any:
    """Return a JSON value for anything: info is for people, and must not fail the call."""
    try:
        return from_json(
            to_json(value, fallback=_numpy_to_list, inf_nan_mode="strings", bytes_mode="base64")
        )
    except ValueError:
        return repr(value)


_SIGNATURES = {
    b"\x89PNG\r\n\x1a\n": "image/png",
    b"\xff\xd8\xff": "image/jpeg",
    b"GIF8": "image/gif",
    b"BM": "image/bmp",
}


def read_images(value: object) -> tuple[Image, ...] | None:
    """Read one image or a list of them; None if it is anything else.

    An image is an `Image`, the bytes of a known format, a `data:` URL, or a PIL image.
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
    # PIL is not imported: its images are recognized by their attributes.
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
