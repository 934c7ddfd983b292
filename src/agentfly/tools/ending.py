"""Tools that end the chain with an answer."""

from agentfly.tools.function import tool
from agentfly.types import ToolResult


@tool
def finish(answer: str) -> ToolResult:
    """Finish the task by handing in your final answer. Nothing can be done after this.

    Args:
        answer: The final answer.
    """
    return ToolResult(observation=answer, ends_chain=True)


answer = tool(finish.function, name="answer")
"""The same as `finish`, under the name that some prompts ask for."""
