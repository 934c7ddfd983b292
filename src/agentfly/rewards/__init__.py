"""Rewards: plain functions that score chains, and built-in ones."""

from agentfly.rewards.combine import CombinedReward, combine
from agentfly.rewards.format_reward import format_reward
from agentfly.rewards.function_reward import FunctionReward, reward
from agentfly.rewards.group_reward import FunctionGroupReward, group_reward
from agentfly.rewards.length_reward import length_reward
from agentfly.rewards.llm_judge import llm_judge
from agentfly.rewards.math_equivalence import math_equivalence
from agentfly.rewards.numeric_match import numeric_match
from agentfly.rewards.text_match import exact_match, qa_exact_match, qa_f1
from agentfly.rewards.turn_reward import TurnReward, turn_reward

__all__ = [
    "CombinedReward",
    "FunctionGroupReward",
    "FunctionReward",
    "TurnReward",
    "combine",
    "exact_match",
    "format_reward",
    "group_reward",
    "length_reward",
    "llm_judge",
    "math_equivalence",
    "numeric_match",
    "qa_exact_match",
    "qa_f1",
    "reward",
    "turn_reward",
]
