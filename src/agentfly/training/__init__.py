"""From trajectories to better weights: samples, the learner, the loop, checkpoints."""

from agentfly.training.checkpoint import Checkpoint, Checkpoints
from agentfly.training.compose import train
from agentfly.training.learner.learner import Learner
from agentfly.training.learner.learnt import Learnt
from agentfly.training.learner.pack import PackedRow, Segment, pack
from agentfly.training.learner.policy import Policy
from agentfly.training.learner.sample import make_samples
from agentfly.training.result import StoppedBy, TrainResult
from agentfly.training.run_folder import RunFolder
from agentfly.training.source import Source
from agentfly.training.trainer import Trainer

__all__ = [
    "Checkpoint",
    "Checkpoints",
    "Learner",
    "Learnt",
    "PackedRow",
    "Policy",
    "RunFolder",
    "Segment",
    "Source",
    "StoppedBy",
    "TrainResult",
    "Trainer",
    "make_samples",
    "pack",
    "train",
]
