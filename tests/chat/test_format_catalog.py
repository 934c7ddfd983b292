"""Choosing a format, its instructions, and a user's own format."""

import json
import logging
from collections.abc import Sequence

import pytest

from agentfly.chat.formats import (
    FORMATS,
    CallFormat,
    Reading,
    code_format,
    custom_format,
    get_format,
    tag_format,
)
from agentfly.errors import ConfigError
from agentfly.types import ToolCall, ToolSpec

SEARCH = ToolSpec(
    name="search",
    description="Search the web.",
    parameters={"type": "object", "properties": {"query": {"type": "string"}}},
)
TEXTUAL = {"json", "react", "code", "tags"}
"""Formats that no template teaches."""


def test_every_format_is_known_by_its_name() -> None:
    assert {name: format_.name for name, format_ in FORMATS.items()} == {
        name: name for name in FORMATS
    }
    assert get_format("harmony") is FORMATS["harmony"]


def test_an_unknown_name_gets_a_suggestion() -> None:
    with pytest.raises(ConfigError, match=r"'hermse'. Did you mean 'hermes'.*qwen3-coder"):
        get_format("hermse")


@pytest.mark.parametrize("name", FORMATS)
def test_textual_formats_teach_themselves_and_native_ones_leave_it_to_the_template(
    name: str,
) -> None:
    taught = FORMATS[name].instructions([SEARCH])
    assert (taught is not None) == (name in TEXTUAL)


@pytest.mark.parametrize(
    ("format_", "tool"),
    [
        (get_format("json"), "search"),
        (get_format("react"), "search"),
        (code_format(tool="search", parameter="query"), "search"),
        (tag_format({"search": "query"}), "search"),
    ],
)
def test_what_is_taught_describes_the_tool_and_shows_a_form_that_can_be_read(
    format_: CallFormat, tool: str
) -> None:
    taught = format_.instructions([SEARCH]) or ""
    assert "Search the web." in taught
    calls = format_.read(taught.replace("the name of one tool", tool)).calls
    assert calls, "the form that is taught isn't even seen as a call"


def test_stop_strings() -> None:
    assert get_format("react").stop_strings == ("Observation:",)
    assert get_format("tags").stop_strings == ("</search>", "</answer>")
    assert get_format("hermes").stop_strings == ()


# --- A user's own parser ----------------------------------------------------------------------


def shouted(text: str) -> list[ToolCall] | None:
    words = [word for word in text.split() if word.isupper()]
    return [ToolCall(id="", name=word, arguments="{}") for word in words] or None


def test_a_users_own_parser_may_return_calls_or_none() -> None:
    own = custom_format(shouted, name="shouting", stop_strings=("!",), instructions="Shout.")
    assert (own.name, own.stop_strings, own.instructions([])) == ("shouting", ("!",), "Shout.")
    assert own.read("please GO HOME") == Reading(
        content="please GO HOME",
        calls=(
            ToolCall(id="call_0", name="GO", arguments="{}"),
            ToolCall(id="call_1", name="HOME", arguments="{}"),
        ),
    )
    assert own.read("quiet") == Reading(content="quiet")


def test_a_users_own_parser_may_return_a_reading() -> None:
    reading = Reading(content="hm", calls=(ToolCall(id="x", name="f", arguments="{}"),))
    assert custom_format(lambda _: reading).read("anything") == reading


def raises(text: str) -> None:
    raise KeyError(text)


def returns_nonsense(text: str) -> list[ToolCall]:
    return [text]  # type: ignore[list-item]


@pytest.mark.parametrize("parser", [raises, returns_nonsense])
def test_a_parser_that_fails_is_logged_and_its_text_kept(
    parser: object, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.ERROR):
        assert custom_format(parser, name="mine").read("hello") == Reading(content="hello")  # type: ignore[arg-type]
    assert "'mine' raised" in caplog.text
    assert caplog.records[0].exc_info


def test_a_users_own_format_writes_only_with_a_writer() -> None:
    with pytest.raises(ConfigError, match="write="):
        custom_format(shouted).write((), "x")

    def shout(calls: Sequence[ToolCall], content: str = "") -> str:
        return " ".join([content, *(call.name for call in calls)])

    call = ToolCall(id="", name="GO", arguments=json.dumps({}))
    assert custom_format(shouted, write=shout).write([call], "please") == "please GO"
