"""Losses of the algorithms: one value for every trained token, not yet aggregated."""

from agentfly.algorithms.losses.cispo import cispo
from agentfly.algorithms.losses.clipped import clipped
from agentfly.algorithms.losses.gspo import NARROW, gspo
from agentfly.algorithms.losses.policy_gradient import policy_gradient
from agentfly.algorithms.losses.value import ValueLoss, value_loss

__all__ = ["NARROW", "ValueLoss", "cispo", "clipped", "gspo", "policy_gradient", "value_loss"]
