"""The named tool-call formats: most are one `Layout` (data), a few have a parser of their own."""

from collections.abc import Callable, Mapping
from types import MappingProxyType

from agentfly.chat.formats.call_format import CallFormat, Reading
from agentfly.chat.formats.call_layout import Layout
from agentfly.chat.formats.code_block import CODE
from agentfly.chat.formats.harmony import HARMONY
from agentfly.chat.formats.json_layout import json_reader
from agentfly.chat.formats.llama_json import LLAMA_JSON
from agentfly.chat.formats.plain_json import PLAIN_JSON
from agentfly.chat.formats.pythonic import python_reader
from agentfly.chat.formats.react import REACT
from agentfly.chat.formats.tagged_layout import tagged_reader
from agentfly.chat.formats.tags import TAGS
from agentfly.config import PluginKind

_DSML = "｜DSML｜"
_MINIMAX = "]<]minimax[>["
_DEEPSEEK_SECTION = ("<｜tool▁calls▁begin｜>", "<｜tool▁calls▁end｜>")
_DEEPSEEK_V3 = (
    "<｜tool▁call▁begin｜>function<｜tool▁sep｜>{name}\n"
    "```json\n{arguments}\n```<｜tool▁call▁end｜>"
)
_DEEPSEEK_V31 = "<｜tool▁call▁begin｜>{name}<｜tool▁sep｜>{arguments}<｜tool▁call▁end｜>"
_MISTRAL_ID = "[TOOL_CALLS]{name}[CALL_ID]{id}[ARGS]{arguments}"
_MISTRAL_ARGS = "[TOOL_CALLS]{name}[ARGS]{arguments}"
_MISTRAL_BARE = "[TOOL_CALLS]{name}{arguments}"
_JSON_CALL = '{"name": "{name}", "arguments": {arguments}}'
_KIMI_ARGUMENTS = "<|tool_call_argument_begin|>{arguments}<|tool_call_end|>"

LAYOUTS = (
    # Hermes, Qwen 2.5 and 3, MiMo, Granite 4
    Layout(name="hermes", call=f"<tool_call>\n{_JSON_CALL}\n</tool_call>", between="\n"),
    # Qwen3-Coder, Qwen 3.5, Nemotron 3
    Layout(
        name="qwen3-coder",
        call="<tool_call>\n<function={name}>\n{parameters}</function>\n</tool_call>",
        parameter="<parameter={key}>\n{value}\n</parameter>\n",
        between="\n",
    ),
    Layout(
        name="seed",
        call="<seed:tool_call>\n<function={name}>\n{parameters}</function>\n</seed:tool_call>",
        parameter="<parameter={key}>{value}</parameter>\n",
        between="\n",
    ),
    # GLM 4.5 and later
    Layout(
        name="glm",
        call="<tool_call>{name}\n{parameters}</tool_call>",
        parameter="<arg_key>{key}</arg_key>\n<arg_value>{value}</arg_value>\n",
        between="\n",
    ),
    Layout(
        name="minimax-m2",
        section=("<minimax:tool_call>\n", "</minimax:tool_call>"),
        call='<invoke name="{name}">\n{parameters}</invoke>\n',
        parameter='<parameter name="{key}">{value}</parameter>\n',
    ),
    Layout(
        name="minimax-m3",
        section=(f"{_MINIMAX}<tool_call>\n", f"{_MINIMAX}</tool_call>"),
        call=f'{_MINIMAX}<invoke name="{{name}}">{{parameters}}{_MINIMAX}</invoke>\n',
        parameter=f"{_MINIMAX}<{{key}}>{{value}}{_MINIMAX}</{{key}}>",
        nested=True,
    ),
    Layout(
        name="deepseek-v3.2",
        section=(f"<{_DSML}function_calls>\n", f"</{_DSML}function_calls>"),
        call=f'<{_DSML}invoke name="{{name}}">\n{{parameters}}</{_DSML}invoke>\n',
        parameter=f'<{_DSML}parameter name="{{key}}" string="{{string}}">'
        f"{{value}}</{_DSML}parameter>\n",
    ),
    Layout(
        name="muse",
        header=" to={name}<|message|>",
        call='<atem:function_calls>\n<atem:invoke name="{name}">\n{parameters}</atem:invoke>\n'
        "</atem:function_calls>",
        parameter='<atem:parameter name="{key}">{value}</atem:parameter>\n',
        between="<|eom|><|start|>assistant",
    ),
    # V3, R1
    Layout(
        name="deepseek-v3",
        section=_DEEPSEEK_SECTION,
        call=_DEEPSEEK_V3,
        between="\n",
        also=(_DEEPSEEK_V31,),
    ),
    Layout(
        name="deepseek-v3.1", section=_DEEPSEEK_SECTION, call=_DEEPSEEK_V31, also=(_DEEPSEEK_V3,)
    ),
    Layout(
        name="kimi",
        section=("<|tool_calls_section_begin|>", "<|tool_calls_section_end|>"),
        call=f"<|tool_call_begin|>functions.{{name}}:{{index}}{_KIMI_ARGUMENTS}",
        also=(
            f"<|tool_call_begin|>{{name}}:{{index}}{_KIMI_ARGUMENTS}",
            f"<|tool_call_begin|>functions.{{name}}{_KIMI_ARGUMENTS}",
            f"<|tool_call_begin|>{{name}}{_KIMI_ARGUMENTS}",
        ),
    ),
    # Older Mistral
    Layout(
        name="mistral",
        section=("[TOOL_CALLS] [", "]"),
        call=_JSON_CALL,
        between=", ",
        also=(_MISTRAL_ID, _MISTRAL_ARGS, _MISTRAL_BARE),
    ),
    # Newer Mistral, Ministral, Devstral
    Layout(name="mistral-v11", call=_MISTRAL_ARGS, also=(_MISTRAL_ID, _MISTRAL_BARE)),
    Layout(name="mistral-ids", call=_MISTRAL_ID, also=(_MISTRAL_ARGS, _MISTRAL_BARE)),
    # Gemma 4
    Layout(name="gemma", call="<|tool_call>call:{name}{arguments}<tool_call|>", quote='<|"|>'),
    # FunctionGemma
    Layout(
        name="function-gemma",
        call="<start_function_call>call:{name}{arguments}<end_function_call>",
        quote="<escape>",
        quotes_all=True,
    ),
    # Solar Open
    Layout(
        name="solar",
        section=("<|tool_calls|>", "<|calls|>"),
        call="<|tool_call:begin|>{id}<|tool_call:name|>{name}<|tool_call:args|>{arguments}"
        "<|tool_call:end|>",
    ),
    # Functionary 3.1
    Layout(name="functionary", call="<function={name}>{arguments}</function>"),
    Layout(
        name="apriel", section=("<tool_calls>[", "]</tool_calls>"), call=_JSON_CALL, between=", "
    ),
    # Nemotron Nano 2
    Layout(name="nemotron", section=("<TOOLCALL>[", "]</TOOLCALL>"), call=_JSON_CALL, between=", "),
    # Command R7B, Command A
    Layout(
        name="command-r7b",
        section=("<|START_ACTION|>[\n    ", "\n]<|END_ACTION|>"),
        call='{"tool_call_id": "{id}", "tool_name": "{name}", "parameters": {arguments}}',
        between=",\n    ",
    ),
    # Command R, Command R+
    Layout(
        name="command-r",
        section=("Action: ```json\n[\n", "\n]```"),
        call='    {\n        "tool_name": "{name}",\n        "parameters": {arguments}\n    }',
        between=",\n",
    ),
    # Granite 3
    Layout(name="granite", section=("<|tool_call|>[", "]"), call=_JSON_CALL, between=", "),
    Layout(
        name="lfm2",
        section=("<|tool_call_start|>[", "]<|tool_call_end|>"),
        call="{name}({parameters})",
        parameter="{key}={value}",
        between=", ",
    ),
)
"""Formats that are data alone."""

_LLAMA_LIST = Layout(
    name="llama-pythonic",
    section=("[", "]"),
    call="{name}({parameters})",
    parameter="{key}={value}",
    between=", ",
)
LLAMA_PYTHONIC = CallFormat(
    name=_LLAMA_LIST.name,
    read=python_reader("<|python_start|>", "<|python_end|>"),
    write=_LLAMA_LIST.write,
)
PYTHON_TEXT = CallFormat(
    name="python-text",
    read=python_reader("<|python_start|>", "<|python_end|>", as_text=True),
    write=_LLAMA_LIST.write,
    bare_values=True,
)


def layout_format(layout: Layout) -> CallFormat:
    """Make the format that reads and writes calls of a layout."""
    return CallFormat(
        name=layout.name,
        read=_reader(layout),
        write=layout.write,
        bare_values=layout.quotes_all or (bool(layout.parameter) and not layout.is_python),
    )


def _reader(layout: Layout) -> Callable[[str], Reading]:
    if layout.is_python:
        return python_reader(*layout.section_marks)
    return tagged_reader(layout) if layout.parameter else json_reader(layout)


FORMATS: Mapping[str, CallFormat] = MappingProxyType(
    {
        known.name: known
        for known in (
            *map(layout_format, LAYOUTS),
            LLAMA_JSON,
            LLAMA_PYTHONIC,
            PYTHON_TEXT,
            HARMONY,
            PLAIN_JSON,
            REACT,
            CODE,
            TAGS,
        )
    }
)
"""Every named format."""


def get_format(name: str) -> CallFormat:
    """Return the format of a name: one of `FORMATS`, `module:name`, or an entry point.

    >>> get_format("hermes").name
    'hermes'
    """
    return _KIND.find(name)


_KIND: PluginKind[CallFormat] = PluginKind(
    what="tool-call format",
    group="agentfly.call_formats",
    builtin=FORMATS,
    fits=lambda value: isinstance(value, CallFormat),
    way_out="name a CallFormat",
)
