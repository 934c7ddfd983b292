"""A catalog of our own making, in the shape of the official one: nothing in it is scraped."""

from agentfly.environments.webshop.generated.catalog import generate_catalog
from agentfly.environments.webshop.generated.level import LEVELS, Level

__all__ = ["LEVELS", "Level", "generate_catalog"]
