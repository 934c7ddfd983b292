"""What the shop sells, and where it comes from: the official files, or our own generator."""

from agentfly.environments.webshop.catalogue.files import load_catalogue
from agentfly.environments.webshop.catalogue.product import Product
from agentfly.environments.webshop.catalogue.request import Catalogue, Request

__all__ = ["Catalogue", "Product", "Request", "load_catalogue"]
