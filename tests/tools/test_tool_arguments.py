import json
import time
from dataclasses import dataclass
from typing import Any, Literal

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from tests.tools.tool_calls import call, context

from agentfly.tools import tool
from agentfly.types import ToolResult, ToolStatus


@dataclass
class Point:
    x: int
    y: int = 0


@tool
def note(text: str, times: int = 1) -> dict[str, Any]:
    """Write a note."""
    return {"text": text, "times": times}


@tool
def draw(points: list[Point], mode: Literal["line", "dots"], closed: bool = False) -> str:
    """Draw."""
    return f"{points} {mode} {closed}"


async def answer(arguments: str) -> ToolResult:
    return await note.run(call("note", arguments), context())


async def test_valid_arguments_are_passed_and_not_called_repaired() -> None:
    result = await answer('{"text": "hi", "times": 2}')
    assert json.loads(result.observation) == {"text": "hi", "times": 2}
    assert result.status is ToolStatus.OK
    assert not result.repaired


@pytest.mark.parametrize(
    "arguments",
    [
        "{'text': 'hi'}",
        '{"text": "hi",}',
        '{text: "hi"}',
        '{"text": "hi"',
        '```json\n{"text": "hi"}\n```',
        '{"text": "hi", "times": None}'.replace("None", "1,"),
        json.dumps('{"text": "hi"}'),
        json.dumps("{'text': 'hi'}"),
    ],
)
async def test_the_usual_mistakes_are_repaired_and_counted(arguments: str) -> None:
    result = await answer(arguments)
    assert json.loads(result.observation) == {"text": "hi", "times": 1}
    assert result.status is ToolStatus.OK
    assert result.repaired


async def test_line_breaks_in_a_string_are_repaired_at_any_length() -> None:
    code = "print(1)\n" * 5000
    result = await answer('{"text": "' + code + '"}')
    assert json.loads(result.observation)["text"] == code
    assert result.repaired


@pytest.mark.parametrize("arguments", ["hello", "[1, 2]", "3", "null", '"text"', "[1, 2"])
async def test_what_is_no_object_is_refused(arguments: str) -> None:
    result = await answer(arguments)
    assert result.status is ToolStatus.BAD_ARGUMENTS
    assert result.observation == (
        "The arguments of 'note' are wrong:\n"
        f"- they must be one JSON object, got {json.dumps(arguments)}\n"
        "Call it as note(text: string, times: integer = 1)"
    )


@pytest.mark.parametrize("arguments", ["", "  \n", "{}"])
async def test_no_arguments_are_an_empty_object(arguments: str) -> None:
    @tool
    def now() -> str:
        """Tell the time."""
        return "noon"

    assert (await now.run(call("now", arguments), context())).observation == "noon"


async def test_every_problem_is_reported_with_got_and_expected() -> None:
    result = await answer('{"txet": "hi", "times": "many"}')
    assert result.status is ToolStatus.BAD_ARGUMENTS
    assert result.observation.splitlines() == [
        "The arguments of 'note' are wrong:",
        "- text: missing, expected string",
        "- times: input should be a valid integer, unable to parse string as an integer, "
        'got "many"',
        "- txet: there is no such argument. Did you mean 'text'? Known: text, times.",
        "Call it as note(text: string, times: integer = 1)",
    ]


async def test_problems_inside_a_value_are_reported_by_their_path() -> None:
    arguments = '{"points": [{"x": 1}, {"y": 2}, {"x": "east"}], "mode": "blob"}'
    result = await draw.run(call("draw", arguments), context())
    assert result.observation.splitlines() == [
        "The arguments of 'draw' are wrong:",
        "- points.1.x: missing",
        "- points.2.x: input should be a valid integer, unable to parse string as an integer, "
        'got "east"',
        "- mode: input should be 'line' or 'dots', got \"blob\"",
        'Call it as draw(points: array of object, mode: "line" | "dots", closed: boolean = false)',
    ]


async def test_many_problems_and_long_values_are_shown_in_part() -> None:
    arguments = json.dumps({"text": "hi", **{f"extra_{i}": 0 for i in range(20)}})
    result = await answer(arguments)
    assert "- and 12 more" in result.observation
    long = await answer("x" * 5000)
    assert len(long.observation) < 300


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ('{"points": [{"x": "4"}], "mode": "line"}', "[Point(x=4, y=0)] line False"),
        ('{"points": [], "mode": "dots", "closed": "true"}', "[] dots True"),
        # Formats in XML give every value as a string.
        (
            '{"points": "[{\\"x\\": 4}]", "mode": "dots", "closed": "1"}',
            "[Point(x=4, y=0)] dots True",
        ),
    ],
)
async def test_values_are_coerced(arguments: str, expected: str) -> None:
    result = await draw.run(call("draw", arguments), context())
    assert result.observation == expected
    assert not result.repaired


async def test_numbers_are_taken_for_strings_and_strings_stay_as_they_are() -> None:
    assert json.loads((await answer('{"text": 42}')).observation)["text"] == "42"
    assert json.loads((await answer('{"text": "[1]"}')).observation)["text"] == "[1]"


async def test_only_rejected_strings_are_read_as_json() -> None:
    @tool
    def tag(text: str, tags: list[str]) -> str:
        """Tag."""
        return f"{text} {tags}"

    arguments = json.dumps({"text": "[1]", "tags": '["a"]'})
    assert (await tag.run(call("tag", arguments), context())).observation == "[1] ['a']"


async def test_mistakes_are_repaired_at_any_length_and_depth() -> None:
    result = await answer('{"text": "' + "x" * 20_000 + '",}')
    assert json.loads(result.observation)["text"] == "x" * 20_000
    assert result.repaired
    assert (
        "text: input should be a valid string" in (await answer('{"text": [[[[1,]]]]}')).observation
    )


@pytest.mark.parametrize(
    "arguments",
    [
        '{"text": "say "hi" now"}',
        '{"text": "unclosed',
        '{"text": "a"} {"text": "b"}',
        '[{"text": 1,}',
    ],
)
async def test_what_has_no_clear_meaning_is_left_to_the_model(arguments: str) -> None:
    result = await answer(arguments)
    assert "they must be one JSON object" in result.observation


DEGENERATE = [
    "{" * 20_000,
    "[" * 100_000,
    '{"' * 5000,
    '{"text": ' + '{"' * 800,
    "{{{{" + '\\"' * 900,
    '{"text": "' + '\\"x" ' * 20_000,
    '{"text": ' + "9" * 5000 + "}",
    '"' * 9999,
    "}" * 1000 + "{" * 1000,
]


@pytest.mark.parametrize("arguments", DEGENERATE)
async def test_degenerate_texts_take_no_time(arguments: str) -> None:
    started = time.process_time()
    result = await answer(arguments)
    assert time.process_time() - started < 5, "a general repair takes minutes over some of these"
    assert result.status is ToolStatus.BAD_ARGUMENTS


any_text = st.text(st.characters(categories=("L", "N", "P", "S", "Z", "C", "Cs")))


@given(arguments=any_text | st.text('{}[]":,\\ a1'))
@example("\ud800")
@example('{"text": 1, "times": "\\ud800"}')
@example('{"\\ud800": 1}')
async def test_any_text_gives_a_result_that_can_be_written(arguments: str) -> None:
    result = await answer(arguments)
    assert result.status in (ToolStatus.OK, ToolStatus.BAD_ARGUMENTS)
    result.observation.encode()


@given(text=st.text(), times=st.integers(-(2**70), 2**70))
async def test_whatever_was_meant_arrives(text: str, times: int) -> None:
    result = await answer(json.dumps({"text": text, "times": times}))
    assert json.loads(result.observation) == {"text": text, "times": times}
    assert not result.repaired
