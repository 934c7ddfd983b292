"""The piece of system prompt that teaches a format to a model whose template doesn't."""

from collections.abc import Sequence

from agentfly.chat.formats.json_text import dump
from agentfly.types import ToolSpec


def teach(tools: Sequence[ToolSpec], how: str) -> str:
    """List the tools, one JSON object a line, and say how to call them."""
    listed = "\n".join(dump(tool.to_openai()["function"]) for tool in tools)
    return f"You can use these tools:\n{listed}\n\n{how}"
