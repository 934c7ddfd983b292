"""ALFWorld: household tasks in rooms of text (arXiv:2010.03768)."""

from agentfly.environments.alfworld.builtin import ALFWORLD, AlfworldOptions
from agentfly.environments.alfworld.environment import Alfworld, AlfworldTextWorld

__all__ = ["ALFWORLD", "Alfworld", "AlfworldOptions", "AlfworldTextWorld"]
