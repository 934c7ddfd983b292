"""Algorithms: each is one advantage function and one loss function."""

from agentfly.algorithms.aggregate import (
    constant_length,
    sequence_mean_of_means,
    sequence_mean_of_sums,
    token_mean,
)
from agentfly.algorithms.algorithm import (
    AggregatedOptions,
    Algorithm,
    AlgorithmOptions,
    ClippedOptions,
    Critic,
)
from agentfly.algorithms.catalog import ALGORITHMS
from agentfly.algorithms.correction import Correction
from agentfly.algorithms.credit import Overlong, overlong_penalty
from agentfly.algorithms.custom_functions import CustomAdvantage, CustomLoss, advantage, loss
from agentfly.algorithms.diagnose import METRICS, diagnose, diagnose_advantages
from agentfly.algorithms.function_types import (
    AdvantageFunction,
    AdvantageInput,
    AdvantageOutput,
    Aggregate,
    LossFunction,
    LossInput,
    LossOutput,
)
from agentfly.algorithms.group import by_group
from agentfly.algorithms.kl import Kl, kl_estimate
from agentfly.algorithms.lookup import KNOWN_ALGORITHMS, make_algorithm
from agentfly.algorithms.losses import ValueLoss, value_loss
from agentfly.algorithms.losses.clipped import Clip
from agentfly.algorithms.objective import Objective, objective

__all__ = [
    "ALGORITHMS",
    "KNOWN_ALGORITHMS",
    "METRICS",
    "AdvantageFunction",
    "AdvantageInput",
    "AdvantageOutput",
    "Aggregate",
    "AggregatedOptions",
    "Algorithm",
    "AlgorithmOptions",
    "Clip",
    "ClippedOptions",
    "Correction",
    "Critic",
    "CustomAdvantage",
    "CustomLoss",
    "Kl",
    "LossFunction",
    "LossInput",
    "LossOutput",
    "Objective",
    "Overlong",
    "ValueLoss",
    "advantage",
    "by_group",
    "constant_length",
    "diagnose",
    "diagnose_advantages",
    "kl_estimate",
    "loss",
    "make_algorithm",
    "objective",
    "overlong_penalty",
    "sequence_mean_of_means",
    "sequence_mean_of_sums",
    "token_mean",
    "value_loss",
]
