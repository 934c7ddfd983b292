"""Chat templates render as in transformers, which is the oracle here, with the date frozen."""

import importlib
from datetime import date
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from agentfly.chat import ChatTemplate
from agentfly.errors import ConfigError

SPEC = find_spec("trl")
FOLDER = Path(
    SPEC.submodule_search_locations[0] if SPEC and SPEC.submodule_search_locations else ""
)
TEMPLATES = sorted((FOLDER / "chat_templates").glob("*.jinja"))

CONVERSATIONS = [
    [{"role": "user", "content": "a < b & 'c' é"}],
    [
        {"role": "system", "content": "Be brief.\n"},
        {"role": "user", "content": " hi "},
        {"role": "assistant", "content": "<think>\nhm\n</think>\n\nhello"},
        {"role": "user", "content": "bye"},
    ],
    [
        {"role": "user", "content": "hi"},
        {
            "role": "assistant",
            "content": "",
            "tool_calls": [
                {
                    "id": "call_0",
                    "type": "function",
                    "function": {"name": "f", "arguments": {"x": "<1>", "y": [1, None]}},
                }
            ],
        },
        {"role": "tool", "name": "f", "tool_call_id": "call_0", "content": "42 > 41"},
    ],
]
TOOL = {
    "type": "function",
    "function": {
        "name": "f",
        "description": "Does <f> & more.",
        "parameters": {
            "type": "object",
            "properties": {"x": {"type": "string", "description": "x"}},
            "required": ["x"],
        },
    },
}


def test_the_templates_are_there() -> None:
    assert len(TEMPLATES) >= 60


def ours(source: str, messages: object, *, tools: bool) -> str:
    template = ChatTemplate(source, bos_token="<bos>", eos_token="<eos>")
    shown = [TOOL] if tools else []
    try:
        return template.render(messages, shown, add_generation_prompt=True)  # type: ignore[arg-type]
    except ConfigError:
        return "refused"


def theirs(source: str, messages: object, *, tools: bool) -> str:
    oracle: Any = importlib.import_module("transformers.utils.chat_template_utils")
    try:
        rendered = oracle.render_jinja_template(
            [messages],
            tools=[TOOL] if tools else None,
            chat_template=source,
            add_generation_prompt=True,
            bos_token="<bos>",
            eos_token="<eos>",
        )
    except Exception:  # noqa: BLE001 - templates trip in many ways
        return "refused"
    return str(rendered[0][0])


@pytest.mark.parametrize("path", TEMPLATES, ids=lambda path: path.stem)
def test_templates_render_as_in_transformers(path: Path) -> None:
    source = path.read_text()
    for messages in CONVERSATIONS:
        for tools in (False, True):
            expected = theirs(source, messages, tools=tools)
            assert ours(source, messages, tools=tools) == expected


def test_the_date_is_frozen() -> None:
    template = ChatTemplate("{{ strftime_now('%d %b %Y') }}", date=date(2024, 7, 26))
    assert template.render([], add_generation_prompt=True) == "26 Jul 2024"


def test_variables_reach_the_template() -> None:
    template = ChatTemplate(
        "{{ enable_thinking }}{{ bos_token }}", bos_token="B", enable_thinking=0
    )
    assert template.render([], add_generation_prompt=False) == "0B"


def test_a_template_refuses_in_its_own_words() -> None:
    refusing = ChatTemplate("{{ raise_exception('Only users may speak!') }}")
    with pytest.raises(ConfigError, match="Only users may speak!"):
        refusing.render([], add_generation_prompt=True)
    tripping = ChatTemplate("{{ messages[0].content + 1 }}")
    with pytest.raises(ConfigError, match="TypeError"):
        tripping.render([{"role": "user", "content": "a"}], add_generation_prompt=True)


def test_a_mistake_in_a_template_is_said_with_its_line() -> None:
    with pytest.raises(ConfigError, match=r"not valid Jinja \(line 2\)"):
        ChatTemplate("fine\n{% if %}")


def test_the_sandbox_holds() -> None:
    escaping = ChatTemplate("{{ ''.__class__.__mro__[1].__subclasses__() }}")
    with pytest.raises(ConfigError, match="unsafe"):
        escaping.render([], add_generation_prompt=True)
    changing = ChatTemplate("{{ messages.append(1) }}")
    with pytest.raises(ConfigError, match="unsafe"):
        changing.render([], add_generation_prompt=True)


def test_what_a_generation_block_sets_stays_inside_it() -> None:
    template = ChatTemplate(
        "{% set x = 1 %}{% generation %}{% set x = 2 %}{{ x }}{% endgeneration %}{{ x }}"
    )
    assert template.render([], add_generation_prompt=True) == "21"
