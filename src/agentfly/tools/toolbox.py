"""Toolbox: all tools of an agent by name, and running calls of them."""

from collections.abc import Iterable, Iterator, Sequence

from agentfly.errors import ConfigError
from agentfly.runtime.invoke import supervised
from agentfly.runtime.names import suggestion
from agentfly.tools.function import FunctionTool
from agentfly.tools.tool_result import clean_observation
from agentfly.tools.tool_schema import call_form
from agentfly.types import (
    Context,
    EnvSpec,
    Offload,
    Tool,
    ToolCall,
    ToolResult,
    ToolSpec,
    ToolStatus,
)


class Toolbox:
    """Tools by name.

    >>> from agentfly.tools import calculator, finish
    >>> [spec.name for spec in Toolbox([calculator, finish]).specs]
    ['calculator', 'finish']
    """

    def __init__(self, tools: Iterable[Tool]) -> None:
        self._tools: dict[str, Tool] = {}
        for tool in tools:
            _require_tool(tool)
            name = tool.spec.name
            if name in self._tools:
                raise ConfigError(
                    f"two tools are named {name!r}: give one of them another, @tool(name=...)"
                )
            self._tools[name] = tool
        self.specs = tuple(tool.spec for tool in self._tools.values())
        """Specifications that the model is shown, in the given order."""
        needed = (spec for tool in self._tools.values() for spec in tool.environments)
        self.environments = tuple(dict.fromkeys(needed))
        """Environments that the tools need, each once."""

    def __iter__(self) -> Iterator[Tool]:
        return iter(self._tools.values())

    def offloaded(self, offload: Offload) -> "Toolbox":
        """Return the same tools, the heavy ones with their calls on a cluster."""
        return Toolbox(
            tool.offloaded(offload) if isinstance(tool, FunctionTool) else tool
            for tool in self._tools.values()
        )

    def received_environments(self, call: ToolCall) -> tuple[EnvSpec | None, ...]:
        """Return the environments that a call receives; None is the chain's only one."""
        tool = self._tools.get(call.name)
        if tool is None:
            return ()
        return tool.received_environments if isinstance(tool, FunctionTool) else tool.environments

    async def run_one(self, call: ToolCall, context: Context) -> ToolResult:
        """Answer one call; raise only for failures of infrastructure."""
        if call.problem is not None:
            return self._malformed(call, call.problem)
        tool = self._tools.get(call.name)
        if tool is None:
            return self._unknown(call)
        if isinstance(tool, FunctionTool):
            return await tool.run(call, context)
        # A tool of a user's own class may ignore its cancellation.
        return await supervised(tool.run(call, context), f"tool {call.name!r}")

    def _malformed(self, call: ToolCall, problem: str) -> ToolResult:
        meant = [self._tools[call.name].spec] if call.name in self._tools else self.specs
        observation = f"The tool call could not be read: {problem}\n{_advice(meant)}"
        return clean_observation(ToolResult(observation=observation, status=ToolStatus.MALFORMED))

    def _unknown(self, call: ToolCall) -> ToolResult:
        observation = (
            f"There is no tool {call.name!r}. {suggestion(call.name, self._tools)}\n"
            f"{_advice(self.specs)}"
        )
        return clean_observation(
            ToolResult(observation=observation, status=ToolStatus.UNKNOWN_TOOL)
        )


def _advice(specs: Sequence[ToolSpec]) -> str:
    if not specs:
        return "There are no tools: answer in plain text."
    return f"You can call: {'; '.join(call_form(spec) for spec in specs)}"


def _require_tool(tool: Tool) -> None:
    if not all(hasattr(tool, part) for part in ("spec", "environments", "run")):
        name = getattr(tool, "__name__", repr(tool))
        raise ConfigError(f"{name} is not a tool: decorate it with @tool, or pass tool({name})")
    if isinstance(tool, FunctionTool) and tool.unbound:
        raise ConfigError(
            f"tool {tool.spec.name!r} is a method whose class is not known here: pass it to an "
            f"Agent, or take it from its class after @tool, as in TheClass.{tool.spec.name}"
        )
