"""Advantages: one function for each algorithm, over all scored chains of a step."""

from agentfly.algorithms.advantages.gae import gae
from agentfly.algorithms.advantages.gigpo import gigpo
from agentfly.algorithms.advantages.grpo import grpo
from agentfly.algorithms.advantages.per_turn import per_turn
from agentfly.algorithms.advantages.reinforce import reinforce
from agentfly.algorithms.advantages.reinforce_plus_plus import (
    reinforce_plus_plus,
    reinforce_plus_plus_baseline,
)
from agentfly.algorithms.advantages.rloo import rloo

__all__ = [
    "gae",
    "gigpo",
    "grpo",
    "per_turn",
    "reinforce",
    "reinforce_plus_plus",
    "reinforce_plus_plus_baseline",
    "rloo",
]
