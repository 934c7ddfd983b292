"""From trajectories to better weights: samples, the learner, the loop, checkpoints."""

from agentfly.agents.source import Source
from agentfly.observe.run_folder import RunFolder
from agentfly.training.checkpoint import Checkpoint, Checkpoints
from agentfly.training.learner.learner import LocalLearner
from agentfly.training.learner.pack import PackedRow, Segment, pack
from agentfly.training.learner.policy import Policy
from agentfly.training.learner.trainable_chains import make_samples
from agentfly.training.train_result import StoppedBy, TrainResult
from agentfly.training.trainer import Trainer, train

__all__ = [
    "Checkpoint",
    "Checkpoints",
    "LocalLearner",
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
