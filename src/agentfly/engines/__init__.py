"""Engines, which sample tokens. `agentfly.engines.local` is imported separately: it needs torch."""

from agentfly.engines.factory import EngineMaker, EngineSpec, make_engine
from agentfly.engines.openai import OpenAIChat, OpenAICompletions
from agentfly.engines.replicas import ReplicatedEngine
from agentfly.engines.scripted import Latency, ScriptedEngine, ScriptedTurn, log_normal
from agentfly.engines.vllm import VllmEngine, start_vllm
from agentfly.runtime.http_client import Endpoint
from agentfly.runtime.http_retry import Retry

__all__ = [
    "Endpoint",
    "EngineMaker",
    "EngineSpec",
    "Latency",
    "OpenAIChat",
    "OpenAICompletions",
    "ReplicatedEngine",
    "Retry",
    "ScriptedEngine",
    "ScriptedTurn",
    "VllmEngine",
    "log_normal",
    "make_engine",
    "start_vllm",
]
