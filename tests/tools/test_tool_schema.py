import enum
import json
from dataclasses import dataclass
from typing import Annotated, Any, Literal, Optional

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator  # type: ignore[import-untyped]
from pydantic import BaseModel, Field
from tests.tools.tool_calls import call, context
from transformers.utils import get_json_schema

from agentfly.errors import ConfigError
from agentfly.tools import FunctionTool, tool
from agentfly.tools.tool_schema import call_form, simplify_schema
from agentfly.types import ToolStatus


class Unit(enum.Enum):
    METRE = "m"
    FOOT = "ft"


@dataclass
class Point:
    """A place on the map."""

    x: int
    y: int = 3


@dataclass
class Tree:
    value: int
    left: Optional["Tree"] = None


class Route(BaseModel):
    title: str = Field(description="What to call it.")
    stops: list[Point]


def properties(made: FunctionTool[..., Any]) -> dict[str, Any]:
    Draft202012Validator.check_schema(made.spec.parameters)
    return dict(made.spec.parameters["properties"])


def test_every_kind_of_type() -> None:
    @tool
    def survey(
        name: str,
        count: int,
        share: float,
        exact: bool,
        tags: list[str],
        sizes: dict[str, int],
        unit: Unit,
        mode: Literal["fast", "slow"],
        only: Literal["x"],
        level: Annotated[int, Field(ge=1, le=5, description="From 1 to 5.")],
        either: int | str,
        maybe: Optional[float],  # noqa: UP045 - the old spelling is to be understood too
        anything: Any,
    ) -> str:
        """Survey."""
        raise NotImplementedError

    assert properties(survey) == {
        "name": {"type": "string"},
        "count": {"type": "integer"},
        "share": {"type": "number"},
        "exact": {"type": "boolean"},
        "tags": {"type": "array", "items": {"type": "string"}},
        "sizes": {"type": "object", "additionalProperties": {"type": "integer"}},
        "unit": {"type": "string", "enum": ["m", "ft"]},
        "mode": {"type": "string", "enum": ["fast", "slow"]},
        "only": {"type": "string", "enum": ["x"]},
        "level": {"type": "integer", "minimum": 1, "maximum": 5, "description": "From 1 to 5."},
        "either": {"type": ["integer", "string"]},
        "maybe": {"type": ["number", "null"]},
        "anything": {},
    }
    assert survey.spec.parameters["required"] == list(properties(survey))


def test_models_and_dataclasses_are_written_in_place() -> None:
    @tool
    def plan(route: Route, start: Point | None = None) -> str:
        """Plan.

        Args:
            start: Where to begin.
        """
        raise NotImplementedError

    point = {
        "type": "object",
        "properties": {"x": {"type": "integer"}, "y": {"type": "integer", "default": 3}},
        "required": ["x"],
    }
    assert properties(plan) == {
        "route": {
            "type": "object",
            "properties": {
                "title": {"type": "string", "description": "What to call it."},
                "stops": {
                    "type": "array",
                    "items": {**point, "description": "A place on the map."},
                },
            },
            "required": ["title", "stops"],
        },
        "start": {**point, "type": ["object", "null"], "description": "Where to begin."},
    }
    assert plan.spec.parameters["required"] == ["route"]
    assert "$ref" not in json.dumps(plan.spec.parameters)


def test_only_what_contains_itself_stays_a_reference() -> None:
    @tool
    def prune(tree: Tree) -> str:
        """Prune."""
        raise NotImplementedError

    assert list(prune.spec.parameters["$defs"]) == ["Tree"]
    validator = Draft202012Validator(prune.spec.parameters)
    assert validator.is_valid({"tree": {"value": 1, "left": {"value": 2, "left": None}}})
    assert not validator.is_valid({"tree": {"value": 1, "left": {"value": "two"}}})


def test_defaults_keyword_only_and_an_optional_choice() -> None:
    @tool
    def find(
        query: str,
        *,
        limit: int = 10,
        unit: Unit = Unit.FOOT,
        at: Point = Point(1),  # noqa: B008 - a default that is no JSON value by itself
        order: Literal["up", "down"] | None = None,
    ) -> str:
        """Find."""
        raise NotImplementedError

    found = properties(find)
    assert find.spec.parameters["required"] == ["query"]
    assert found["limit"]["default"] == 10
    assert found["unit"]["default"] == "ft"
    assert found["at"]["default"] == {"x": 1, "y": 3}
    assert found["order"] == {"type": ["string", "null"], "enum": ["up", "down", None]}


def test_a_default_that_has_no_json_form_is_not_shown() -> None:
    @tool
    def find(limit: Any = object()) -> str:  # noqa: B008
        """Find."""
        raise NotImplementedError

    assert properties(find) == {"limit": {}}
    assert "required" not in find.spec.parameters


def test_names_that_a_model_class_could_not_have() -> None:
    @tool
    def query(schema: str, copy: int, model_config: str, _id: int, title: str) -> str:
        """Query."""
        raise NotImplementedError

    assert list(properties(query)) == ["schema", "copy", "model_config", "_id", "title"]


def test_string_annotations_of_local_classes() -> None:
    @dataclass
    class Local:
        n: int

    @tool
    def take(value: "Local", many: "list[Local]") -> "NotImported":  # type: ignore[name-defined] # noqa: F821
        """Take."""
        raise NotImplementedError

    assert properties(take)["value"]["properties"] == {"n": {"type": "integer"}}


def test_no_parameters() -> None:
    @tool
    def now() -> str:
        """Tell the time."""
        raise NotImplementedError

    assert now.spec.parameters == {"type": "object", "properties": {}}


GOOGLE = """Look something up.

    In all of the web,
    and beyond.

    Args:
        query: What to look for,
            in a few words.
        limit (int): How many.

    Returns:
        The hits.
    """
NUMPY = """Look something up.

    In all of the web,
    and beyond.

    Parameters
    ----------
    query : str
        What to look for,
        in a few words.
    limit : int, optional
        How many.

    Returns
    -------
    str
        The hits.
    """
REST = """Look something up.

    In all of the web,
    and beyond.

    :param query: What to look for,
        in a few words.
    :type query: str
    :param int limit: How many.
    :returns: The hits.
    """


@pytest.mark.parametrize("docstring", [GOOGLE, NUMPY, REST])
def test_docstrings_of_all_styles(docstring: str) -> None:
    def look_up(query: str, limit: int = 5) -> str:
        raise NotImplementedError

    look_up.__doc__ = docstring
    made = tool(look_up)
    assert made.spec.description == "Look something up.\n\nIn all of the web,\nand beyond."
    assert properties(made)["query"]["description"] == "What to look for, in a few words."
    assert properties(made)["limit"] == {
        "type": "integer",
        "default": 5,
        "description": "How many.",
    }


def test_the_same_as_hugging_face_makes() -> None:
    def weather(
        city: str,
        days: int,
        factors: list[float],
        unit: Literal["celsius", "fahrenheit"],
        either: int | str,
        limits: dict[str, int],
        hourly: bool = False,
    ) -> str:
        """Tell the weather.

        Args:
            city: Where.
            days: How many days ahead.
            factors: Weights.
            unit: Of the temperature.
            either: A number or a name.
            limits: By name.
            hourly: Whether by the hour.
        """
        raise NotImplementedError

    theirs = get_json_schema(weather)["function"]
    ours = tool(weather).spec.to_openai()["function"]
    del ours["parameters"]["properties"]["hourly"]["default"]  # which theirs leaves out
    assert ours["name"] == theirs["name"]
    assert ours["description"] == theirs["description"]
    assert ours["parameters"] == theirs["parameters"]


def test_the_call_form_shows_types_and_defaults() -> None:
    @tool
    def find(
        query: str, tags: list[str] | bool, *, unit: Unit = Unit.METRE, at: Point | None = None
    ) -> str:
        """Find."""
        raise NotImplementedError

    assert call_form(find.spec) == (
        "find(query: string, tags: array of string | boolean, "
        'unit: "m" | "ft" = "m", at?: object | null)'
    )


def test_tidying_leaves_values_and_properties_named_title_alone() -> None:
    schema = {
        "type": "object",
        "title": "Noise",
        "properties": {
            "title": {"type": "string", "title": "Title"},
            "kept": {
                "type": "object",
                "default": {"title": "value"},
                "additionalProperties": False,
            },
            "mixed": {"anyOf": [{"type": "string", "minLength": 2}, {"type": "integer"}]},
        },
    }
    assert simplify_schema(schema) == {
        "type": "object",
        "properties": {
            "title": {"type": "string"},
            "kept": {"type": "object", "default": {"title": "value"}},
            "mixed": {"anyOf": [{"type": "string", "minLength": 2}, {"type": "integer"}]},
        },
    }


@pytest.mark.parametrize(
    ("definition", "message"),
    [
        ("def f(x): 'Do.'", "parameter 'x' of tool 'f' has no annotation: write its type"),
        ("def f(x: int): ...", "tool 'f' has no description, and the model is shown one: w"),
        ("def f(*parts: int): 'Do.'", "'f' takes *parts, which can't be given by name"),
        ("def f(**parts: int): 'Do.'", "'f' takes **parts, which can't be given by name"),
        ("def f(x: int, /): 'Do.'", "'f' takes x, which can't be given by name"),
        ("def f(x: 'Missing'): 'Do.'", "an annotation of 'f' can't be resolved"),
        ("def f(x: 'list['): 'Do.'", "an annotation of 'f' can't be resolved"),
        ("def f(x: object()): 'Do.'", "which a model can't write as JSON"),
        ("def f(x: type(...)): 'Do.'", "which a model can't write as JSON"),
        ("f = lambda: 0", "a tool can't be named '<lambda>'"),
        ("def größe(): 'Do.'\nf = größe", "a tool can't be named 'größe'"),
    ],
)
def test_mistakes_are_reported_at_decoration(definition: str, message: str) -> None:
    namespace: dict[str, Any] = {"__name__": "somewhere"}
    exec(definition, namespace)
    with pytest.raises(ConfigError) as caught:
        tool(namespace["f"])
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"name": "no spaces"}, "a tool can't be named 'no spaces'"),
        ({"name": "x" * 65}, "use 1 to 64 letters"),
        ({"description": "  "}, "tool 'f' has no description"),
        ({"timeout": 0}, "timeout of tool 'f' must be above 0 seconds, got 0"),
        ({"max_length": 0}, "max_length of tool 'f' must be at least 1, got 0"),
        ({"inject": ["anser"]}, "no parameter 'anser' to inject. Did you mean 'answer'?"),
    ],
)
def test_wrong_options_are_reported_at_decoration(options: dict[str, Any], message: str) -> None:
    def f(answer: str) -> str:
        """Do."""
        raise NotImplementedError

    with pytest.raises(ConfigError) as caught:
        tool(**options)(f)
    assert message in str(caught.value)


VALUES = st.fixed_dictionaries(
    {"n": st.one_of(st.integers(), st.text(), st.booleans(), st.none(), st.lists(st.integers()))},
    optional={
        "tags": st.lists(st.one_of(st.text(), st.integers()), max_size=3),
        "mode": st.sampled_from(["fast", "slow", "sideways"]),
        "at": st.dictionaries(st.sampled_from(["x", "y"]), st.integers(0, 5)),
        "maybe": st.one_of(st.none(), st.floats(allow_nan=False, allow_infinity=False)),
    },
)


@tool
def take(
    n: int,
    tags: list[str] | None = None,
    mode: Literal["fast", "slow"] = "fast",
    at: Point | None = None,
    maybe: float | None = None,
) -> str:
    """Take."""
    return "taken"


@given(values=VALUES)
async def test_what_the_schema_allows_is_accepted(values: dict[str, Any]) -> None:
    result = await take.run(call("take", json.dumps(values)), context())
    if Draft202012Validator(take.spec.parameters).is_valid(values):
        assert result.status is ToolStatus.OK
    else:
        assert result.status in (ToolStatus.OK, ToolStatus.BAD_ARGUMENTS)  # coerced, or told
