"""Whatever samples tokens."""

from agentfly.engines.scripted import Latency, ScriptedEngine, ScriptedTurn, log_normal

__all__ = ["Latency", "ScriptedEngine", "ScriptedTurn", "log_normal"]
