"""Does a tool keep its contract?"""

import json
from collections.abc import Mapping
from typing import Any

from agentfly.testing.conformance import Findings
from agentfly.testing.context import make_context
from agentfly.types import Context, Tool, ToolCall, ToolResult, ToolStatus


async def check_tool(
    tool: Tool, arguments: Mapping[str, Any], *, context: Context | None = None
) -> ToolResult:
    """Raise ConformanceError unless the tool keeps its contract; return what it answered.

    `arguments` is one call that must succeed.
    """
    findings = Findings(f"tool {tool.spec.name!r}")
    context = context or make_context()
    _check_schema(findings, tool)
    result = ToolResult(observation="")
    with findings.no_error("the good call"):
        result = await tool.run(_call(tool, json.dumps(dict(arguments))), context)
        findings.expect(
            result.status is ToolStatus.OK,
            f"the good call gave status {result.status}: {result.observation}",
        )
    for bad in ('{"no_such_argument": 1}', "[1, 2", "null", '"text"'):
        with findings.no_error(f"the bad arguments {bad}"):
            answer = await tool.run(_call(tool, bad), context)
            findings.expect(
                answer.status.invalid, f"the bad arguments {bad} gave status {answer.status}"
            )
            findings.expect(answer.observation, f"the bad arguments {bad} gave no observation")
    findings.report()
    return result


def _check_schema(findings: Findings, tool: Tool) -> None:
    spec = tool.spec
    findings.expect(spec.description, "it has no description")
    findings.expect(
        spec.parameters.get("type") == "object", "its parameters are not of type `object`"
    )
    properties = spec.parameters.get("properties", {})
    unknown = [name for name in spec.parameters.get("required", ()) if name not in properties]
    findings.expect(not unknown, f"required parameters {unknown} are not among its properties")
    with findings.no_error("writing the schema as JSON"):
        json.dumps(spec.to_openai())


def _call(tool: Tool, arguments: str) -> ToolCall:
    return ToolCall(id="call_0", name=tool.spec.name, arguments=arguments)
