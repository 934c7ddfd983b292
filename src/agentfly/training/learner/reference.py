"""The policy as it was when training began, which a KL term holds it near to."""

import copy

from torch import Tensor

from agentfly.training.learner.lora import adapters_off
from agentfly.training.learner.pack import PackedRow
from agentfly.training.learner.packed_forward import Forward, Targets
from agentfly.training.learner.policy import Policy
from agentfly.training.learner.rows import Pass


def make_reference(policy: Policy, forward: Forward) -> Pass:
    """Return the log-probabilities of the adapted model without its adapters, or of a copy."""
    if policy.adapted:
        return _without_adapters(forward)
    frozen = copy.deepcopy(policy.causal_lm).requires_grad_(requires_grad=False)
    return Forward(frozen, dtype=policy.compute_dtype).logprobs


def _without_adapters(forward: Forward) -> Pass:
    def reference(row: PackedRow, targets: Targets) -> Tensor:
        with adapters_off(forward.body.module):
            return forward.logprobs(row, targets)

    return reference
