"""For users' own tests: conformance checkers for every seam, fakes, and virtual time."""

from agentfly.testing.conformance import ConformanceError
from agentfly.testing.context import NoEnvironments, make_context
from agentfly.testing.engine import check_engine, check_trainable_engine
from agentfly.testing.environment import check_environment
from agentfly.testing.renderer import check_renderer
from agentfly.testing.reward import check_reward
from agentfly.testing.tool import check_tool
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
