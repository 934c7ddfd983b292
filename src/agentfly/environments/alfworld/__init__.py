"""ALFWorld: household tasks in rooms of text (arXiv:2010.03768)."""

from agentfly.environments.alfworld.environment import Alfworld, AlfworldTextWorld
from agentfly.environments.alfworld.ready_made import ALFWORLD, AlfworldOptions

__all__ = ["ALFWORLD", "Alfworld", "AlfworldOptions", "AlfworldTextWorld"]
