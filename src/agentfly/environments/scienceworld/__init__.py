"""ScienceWorld: school experiments in a house of text (arXiv:2203.07540)."""

from agentfly.environments.scienceworld.environment import ScienceWorld
from agentfly.environments.scienceworld.ready_made import SCIENCEWORLD, ScienceWorldOptions

__all__ = ["SCIENCEWORLD", "ScienceWorld", "ScienceWorldOptions"]
