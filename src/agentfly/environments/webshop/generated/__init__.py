"""A catalogue of our own making, in the shape of the official one: nothing in it is scraped."""

from agentfly.environments.webshop.generated.catalogue import generate_catalogue
from agentfly.environments.webshop.generated.level import LEVELS, Level

__all__ = ["LEVELS", "Level", "generate_catalogue"]
