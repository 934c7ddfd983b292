"""ScienceWorld: school experiments in a house of text (arXiv:2203.07540)."""

from agentfly.environments.scienceworld.builtin import SCIENCEWORLD, ScienceWorldOptions
from agentfly.environments.scienceworld.environment import ScienceWorld

__all__ = ["SCIENCEWORLD", "ScienceWorld", "ScienceWorldOptions"]
