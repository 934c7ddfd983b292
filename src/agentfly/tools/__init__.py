"""Tools: plain functions that a model can call."""

from agentfly.tools.builtin import answer, calculator, finish
from agentfly.tools.from_schema import tool_from_schema
from agentfly.tools.function import FunctionTool, tool
from agentfly.tools.injection import FromTask
from agentfly.tools.mcp import mcp_tools
from agentfly.tools.toolbox import Toolbox

__all__ = [
    "FromTask",
    "FunctionTool",
    "Toolbox",
    "answer",
    "calculator",
    "finish",
    "mcp_tools",
    "tool",
    "tool_from_schema",
]
