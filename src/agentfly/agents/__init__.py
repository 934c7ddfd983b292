"""Agents: the facade with `run`, and the kinds."""

from agentfly.agents.agent import Agent
from agentfly.agents.engine_chat import EngineChat
from agentfly.agents.kind import CodeBlocks, ReAct, Tags, ToolCalling
from agentfly.agents.result import RunResult

__all__ = ["Agent", "CodeBlocks", "EngineChat", "ReAct", "RunResult", "Tags", "ToolCalling"]
