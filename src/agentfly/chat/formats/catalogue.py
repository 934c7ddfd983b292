"""All formats by name, and which one a chat template uses."""

from collections.abc import Mapping
from types import MappingProxyType

from agentfly.chat.formats.code_block import CODE
from agentfly.chat.formats.deepseek import DEEPSEEK_V3, DEEPSEEK_V31
from agentfly.chat.formats.glm import GLM
from agentfly.chat.formats.harmony import HARMONY
from agentfly.chat.formats.hermes import HERMES
from agentfly.chat.formats.json_objects import PLAIN_JSON
from agentfly.chat.formats.kimi import KIMI
from agentfly.chat.formats.llama_json import LLAMA_JSON
from agentfly.chat.formats.mistral import MISTRAL, MISTRAL_V11
from agentfly.chat.formats.pythonic import LFM2, LLAMA_PYTHONIC
from agentfly.chat.formats.qwen_coder import QWEN3_CODER
from agentfly.chat.formats.react import REACT
from agentfly.chat.formats.reading import CallFormat
from agentfly.chat.formats.tags import TAGS
from agentfly.runtime.names import look_up

FORMATS: Mapping[str, CallFormat] = MappingProxyType(
    {
        known.name: known
        for known in (
            HERMES,
            QWEN3_CODER,
            LLAMA_JSON,
            LLAMA_PYTHONIC,
            LFM2,
            MISTRAL,
            MISTRAL_V11,
            DEEPSEEK_V3,
            DEEPSEEK_V31,
            GLM,
            KIMI,
            HARMONY,
            PLAIN_JSON,
            REACT,
            CODE,
            TAGS,
        )
    }
)
"""Every named format."""

_SIGNS: tuple[tuple[tuple[str, ...], CallFormat], ...] = (
    (("<|tool_calls_section_begin|>",), KIMI),
    (("<｜tool▁calls▁begin｜>", "```json"), DEEPSEEK_V3),
    (("<｜tool▁calls▁begin｜>",), DEEPSEEK_V31),
    (("<|channel|>", "<|message|>"), HARMONY),
    (("<arg_key>",), GLM),
    (("<tool_call>", "<function="), QWEN3_CODER),
    (("<tool_call>",), HERMES),
    (("[TOOL_CALLS]", "[ARGS]"), MISTRAL_V11),
    (("[TOOL_CALLS]",), MISTRAL),
    (("<|tool_call_start|>",), LFM2),
    (("[func_name1(",), LLAMA_PYTHONIC),
    (('{"name": function name, "parameters"',), LLAMA_JSON),
    (("<|python_tag|>",), LLAMA_JSON),
)
"""What a template's source contains if it writes calls in a format; the first that fits wins."""


def get_format(name: str) -> CallFormat:
    """Look a format up by its name.

    >>> get_format("hermes").name
    'hermes'
    """
    return look_up(name, FORMATS, "tool-call format")


def detect_format(template_source: str) -> CallFormat:
    """Tell from a chat template's source which format its calls are in.

    A template without any known sign was not made for tools, or for none that can be read here.
    It gets plain JSON, which comes with instructions of its own for the system prompt.

    >>> detect_format("{{ '<tool_call>' + call | tojson + '</tool_call>' }}").name
    'hermes'
    """
    for signs, known in _SIGNS:
        if all(sign in template_source for sign in signs):
            return known
    return PLAIN_JSON
