"""Agents: `Agent` with its `run`, the kinds of agent, and sources of tasks."""

from agentfly.agents.agent import Agent
from agentfly.agents.chat_adapters import EngineChat
from agentfly.agents.kind import CodeBlocks, ReAct, Tags, ToolCalling
from agentfly.agents.run_parts import RunParts, resolve_run
from agentfly.agents.run_result import RunResult
from agentfly.agents.source import Source

__all__ = [
    "Agent",
    "CodeBlocks",
    "EngineChat",
    "ReAct",
    "RunParts",
    "RunResult",
    "Source",
    "Tags",
    "ToolCalling",
    "resolve_run",
]
