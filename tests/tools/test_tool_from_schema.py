import json
from typing import Any

import pytest
from tests.tools.tool_calls import call, context, run

from agentfly.errors import ConfigError
from agentfly.tools import tool_from_schema
from agentfly.types import ToolStatus

SCHEMA = {
    "type": "object",
    "title": "Order",
    "properties": {
        "item": {"type": "string", "minLength": 2, "maxLength": 5},
        "count": {"type": "integer", "minimum": 1, "exclusiveMaximum": 10},
        "price": {"type": "number"},
        "size": {"enum": ["S", "L", 3]},
        "tags": {"type": "array", "items": {"type": "string"}, "maxItems": 2},
        "from": {"$ref": "#/$defs/Place"},
        "extras": {"type": "object", "additionalProperties": {"type": "integer"}},
        "note": {"anyOf": [{"type": "string"}, {"type": "null"}]},
        "either": {"oneOf": [{"type": "integer"}, {"type": "boolean"}]},
        "free": {"not": {"type": "string"}},
        "blob": {"type": "object"},
    },
    "required": ["item"],
    "$defs": {
        "Place": {
            "type": "object",
            "properties": {"city": {"type": "string"}, "zip": {"type": "integer"}},
            "required": ["city"],
        }
    },
}


def echo(**arguments: Any) -> Any:
    return {"observation": sorted(arguments), "given": arguments}


order = tool_from_schema("order", "Order something.", SCHEMA, echo)


async def given(**arguments: object) -> Any:
    result = await run(order, **arguments)
    assert result.status is ToolStatus.OK, result.observation
    return result.info["given"]


async def problem(**arguments: object) -> str:
    result = await run(order, **{"item": "tea", **arguments})
    assert result.status is ToolStatus.BAD_ARGUMENTS, result
    return result.observation.splitlines()[1]


async def test_values_arrive_plain_coerced_and_under_their_own_names() -> None:
    arguments = {
        "item": "tea",
        "count": "3",
        "price": 2,
        "size": 3,
        "tags": ["a"],
        "from": {"city": "Ulm", "zip": "89073", "more": 1},
        "extras": {"milk": "1"},
        "note": None,
        "either": True,
        "free": [1],
        "blob": {"any": {"thing": 1}},
    }
    assert await given(**arguments) == {
        **arguments,
        "count": 3,
        "from": {"city": "Ulm", "zip": 89073, "more": 1},
        "extras": {"milk": 1},
    }
    assert await given(item="tea") == {"item": "tea"}


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ({"item": "x"}, "- item: string should have at least 2 characters"),
        ({"count": 0}, "- count: input should be greater than or equal to 1, got 0"),
        ({"count": 10}, "- count: input should be less than 10, got 10"),
        ({"size": "M"}, "- size: input should be 'S', 'L' or 3, got \"M\""),
        ({"tags": ["a", "b", "c"]}, "- tags: list should have at most 2 items"),
        ({"from": {"zip": 1}}, "- from.city: missing"),
        ({"extras": {"milk": "much"}}, "- extras.milk: input should be a valid integer"),
        ({"itme": 1}, "- itme: there is no such argument. Did you mean 'item'?"),
    ],
)
async def test_what_the_schema_forbids_is_reported(
    arguments: dict[str, object], expected: str
) -> None:
    assert (await problem(**arguments)).startswith(expected)


async def test_the_model_is_shown_the_schema_without_noise() -> None:
    shown = json.dumps(order.spec.parameters)
    assert "title" not in shown
    assert "$ref" not in shown
    assert order.spec.parameters["properties"]["from"]["required"] == ["city"]


async def test_an_open_schema_takes_other_names() -> None:
    schema = {"type": "object", "properties": {}, "additionalProperties": True}
    result = await run(tool_from_schema("free", "Free.", schema, echo), anything=1)
    assert result.info["given"] == {"anything": 1}


async def test_a_schema_that_contains_itself() -> None:
    schema = {
        "type": "object",
        "properties": {"tree": {"$ref": "#/$defs/Tree"}},
        "$defs": {"Tree": {"type": "object", "properties": {"left": {"$ref": "#/$defs/Tree"}}}},
    }
    made = tool_from_schema("prune", "Prune.", schema, echo)
    result = await made.run(call("prune", '{"tree": {"left": {"left": {}}}}'), context())
    assert result.info["given"] == {"tree": {"left": {"left": {}}}}


@pytest.mark.parametrize(
    ("name", "description", "schema", "message"),
    [
        ("order", "Order.", {"type": "array"}, "must be of type 'object', got 'array'"),
        ("order", "", {"type": "object"}, "tool 'order' has no description"),
        ("or der", "Order.", {"type": "object"}, "a tool can't be named 'or der'"),
    ],
)
def test_mistakes(name: str, description: str, schema: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        tool_from_schema(name, description, schema, echo)
