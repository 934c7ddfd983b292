"""From trajectories to updates of the policy."""

from agentfly.training.pack import PackedRow, Segment, pack, unpack
from agentfly.training.sample import make_samples

__all__ = ["PackedRow", "Segment", "make_samples", "pack", "unpack"]
