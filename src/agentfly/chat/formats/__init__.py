"""Tool-call formats: one per family of models; parsing never raises."""

from agentfly.chat.formats.call_format import CallFormat, CallWriter, Parser, Reading, custom_format
from agentfly.chat.formats.catalog import FORMATS, get_format, layout_format
from agentfly.chat.formats.code_block import code_format
from agentfly.chat.formats.tags import tag_format

__all__ = [
    "FORMATS",
    "CallFormat",
    "CallWriter",
    "Parser",
    "Reading",
    "code_format",
    "custom_format",
    "get_format",
    "layout_format",
    "tag_format",
]
