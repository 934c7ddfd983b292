import base64
import enum
import json
import logging
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import BaseModel
from tests.tools.tool_calls import run

from agentfly.tools import tool
from agentfly.tools.tool_result import clean_observation, to_result
from agentfly.types import Image, ToolResult, ToolStatus

PNG = b"\x89PNG\r\n\x1a\n and so on"
JPEG = b"\xff\xd8\xff and so on"


@dataclass
class Point:
    x: int


class Model(BaseModel):
    x: int


class Color(enum.Enum):
    RED = "red"


class Picture:
    """As PIL's images look from outside."""

    size = (1, 1)
    mode = "RGB"

    def tobytes(self) -> bytes:
        raise NotImplementedError

    def save(self, file: Any, format: str) -> None:
        file.write(f"{format} of {self.size}".encode())


@pytest.mark.parametrize(
    ("returned", "observation"),
    [
        ("as it is\n", "as it is\n"),
        ("", ""),
        (None, "done"),
        (5, "5"),
        (True, "true"),
        (0.5, "0.5"),
        ([1, "zwei", None], '[1, "zwei", null]'),
        ({"größe": 1}, '{"größe": 1}'),
        ((1, 2), "[1, 2]"),
        (Point(1), '{"x": 1}'),
        (Model(x=1), '{"x": 1}'),
        (Color.RED, '"red"'),
        ([], "[]"),
        (np.float32(1.5), "1.5"),
        (np.int64(3), "3"),
        (np.bool_(True), "true"),
        (np.arange(4).reshape(2, 2), "[[0, 1], [2, 3]]"),
        ({"a": [np.float64(0.5)], "b": np.zeros(2)}, '{"a": [0.5], "b": [0.0, 0.0]}'),
    ],
)
def test_values_become_text(returned: object, observation: str) -> None:
    assert to_result(returned) == ToolResult(observation=observation)


def test_a_result_passes_through() -> None:
    result = ToolResult(observation="won", reward=1.0, ends_chain=True, info={"n": 1})
    assert to_result(result) == result


def test_a_result_is_made_fit_for_disk() -> None:
    reward: Any = np.float32(0.5)
    result = to_result(ToolResult(observation="won", reward=reward, info={"n": np.ones(1)}))
    assert result == ToolResult(observation="won", reward=0.5, info={"n": [1.0]})
    assert type(result.reward) is float
    pictures: Any = (PNG, Picture())
    result = to_result(ToolResult(observation="two", images=pictures))
    assert result.images == (Image(data=PNG), Image(data=b"PNG of (1, 1)"))
    words: Any = ("no picture",)
    with pytest.raises(TypeError, match="the images of its result are neither Image"):
        to_result(ToolResult(observation="none", images=words))


def test_a_dict_with_an_observation_keeps_the_rest_as_info() -> None:
    result = to_result(
        {"observation": [1, 2], "hits": np.int64(2), "odd": object, "far": float("inf")}
    )
    assert result.observation == "[1, 2]"
    assert result.info == {"hits": 2, "odd": repr(object), "far": "Infinity"}
    json.dumps(result.info, allow_nan=False)


@pytest.mark.parametrize(
    ("value", "image"),
    [
        (Image(data=b"x", media_type="image/webp"), Image(data=b"x", media_type="image/webp")),
        (PNG, Image(data=PNG)),
        (JPEG, Image(data=JPEG, media_type="image/jpeg")),
        (b"GIF89a", Image(data=b"GIF89a", media_type="image/gif")),
        (b"RIFF1234WEBP", Image(data=b"RIFF1234WEBP", media_type="image/webp")),
        (
            Image(data=JPEG, media_type="image/jpeg").data_url(),
            Image(data=JPEG, media_type="image/jpeg"),
        ),
        (Picture(), Image(data=b"PNG of (1, 1)")),
    ],
)
def test_images_in_every_form(value: object, image: Image) -> None:
    expected = ToolResult(observation="a cat", images=(image,), info={"n": 1})
    assert to_result({"observation": "a cat", "image": value, "n": 1}) == expected
    assert to_result({"observation": "a cat", "images": [value], "n": 1}) == expected
    if not isinstance(value, str):
        assert to_result(value) == ToolResult(observation="(image)", images=(image,))
        assert to_result([value, value]).images == (image, image)
        assert to_result({"observation": value}).images == (image,)


@pytest.mark.parametrize(
    "images", [3, "http://example.com/cat.png", [], [PNG, "text"], "data:image/png;base64,?"]
)
def test_what_is_no_image_is_info(images: object) -> None:
    result = to_result({"observation": "two", "images": images, "n": 1})
    assert result.images == ()
    assert list(result.info) == ["images", "n"]


async def test_what_cannot_be_shown_is_an_error_with_advice_in_the_log(
    caplog: pytest.LogCaptureFixture,
) -> None:
    @tool
    def secret(kind: str) -> object:
        """Return something odd."""
        loop: list[object] = []
        loop.append(loop)
        odd = {"object": object(), "bytes": b"\xfe\xff", "loop": loop, "endless": map(str, [1])}
        return odd[kind]

    for kind, name in (("object", "object"), ("bytes", "bytes"), ("loop", "list")):
        with caplog.at_level(logging.WARNING):
            result = await run(secret, kind=kind)
        assert result.status is ToolStatus.ERROR
        assert result.observation.startswith(
            "tool 'secret' failed: TypeError: its result, a " + name
        )
    assert "return a str, a JSON value, a ToolResult" in caplog.text
    endless = await run(secret, kind="endless")
    assert endless.observation == (
        "tool 'secret' failed: TypeError: a map may never end: return a list"
    )


async def test_half_characters_never_reach_the_model() -> None:
    @tool
    def list_files() -> str:
        """List files whose names are no UTF-8."""
        return "half a pair: \ud800"

    assert (await run(list_files)).observation == "half a pair: ?"


async def test_long_observations_are_cut_where_it_can_be_seen() -> None:
    @tool(max_length=10)
    def shout(times: int) -> str:
        """Shout."""
        return "ä" * times

    assert (await run(shout, times=10)).observation == "ä" * 10
    assert (await run(shout, times=13)).observation == "ä" * 10 + "\n[cut: 3 more characters]"
    wrong = await run(shout, times="many")
    assert wrong.status is ToolStatus.BAD_ARGUMENTS
    assert wrong.observation.startswith("The argume\n[cut: ")


@given(text=st.text(), limit=st.integers(1, 50))
def test_a_cut_says_exactly_how_much_is_missing(text: str, limit: int) -> None:
    cut = clean_observation(ToolResult(observation=text), limit).observation
    if len(text) <= limit:
        assert cut == text
    else:
        kept, _, marker = cut.rpartition("\n[cut: ")
        assert text.startswith(kept)
        assert len(kept) + int(marker.split()[0]) == len(text)


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
)


@settings(max_examples=30)
@given(value=json_values)
def test_json_values_can_be_read_back(value: Any) -> None:
    result = to_result([value])
    assert json.loads(result.observation) == [value]


def test_data_urls_are_decoded_strictly() -> None:
    url = "data:image/png;base64," + base64.b64encode(PNG).decode()
    assert to_result({"observation": "", "image": url}).images == (Image(data=PNG),)
