"""Help for users' own tests: conformance checkers for every Protocol, fakes, virtual time."""

from agentfly.testing.conformance import (
    ConformanceError,
    check_environment,
    check_renderer,
    check_reward,
    check_tool,
)
from agentfly.testing.context import NoEnvironments, make_context
from agentfly.testing.engine_conformance import check_engine, check_trainable_engine
from agentfly.testing.virtual_time import run_in_virtual_time

__all__ = [
    "ConformanceError",
    "NoEnvironments",
    "check_engine",
    "check_environment",
    "check_renderer",
    "check_reward",
    "check_tool",
    "check_trainable_engine",
    "make_context",
    "run_in_virtual_time",
]
