"""Rollout: limits, the chain loop, and groups of chains, from a task to trajectories."""

from agentfly.rollout.chain import ChainHarness
from agentfly.rollout.chain_limits import Limits
from agentfly.rollout.chain_setup import ChainSetup
from agentfly.rollout.group_stream import (
    GroupPlan,
    Order,
    Runner,
    Schedule,
    plan_groups,
    run_groups,
    stream_groups,
)

__all__ = [
    "ChainHarness",
    "ChainSetup",
    "GroupPlan",
    "Limits",
    "Order",
    "Runner",
    "Schedule",
    "plan_groups",
    "run_groups",
    "stream_groups",
]
