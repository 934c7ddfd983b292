"""What the shop sells, and where it comes from: the official files, or our own generator."""

from agentfly.environments.webshop.catalog.official_files import load_catalog
from agentfly.environments.webshop.catalog.product import Catalog, Product, Request

__all__ = ["Catalog", "Product", "Request", "load_catalog"]
