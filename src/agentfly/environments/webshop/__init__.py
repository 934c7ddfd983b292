"""WebShop (arXiv:2207.01206), reimplemented: a shop to search, click through and buy in."""

from agentfly.environments.webshop.builtin import WEBSHOP
from agentfly.environments.webshop.environment import WebShop
from agentfly.environments.webshop.goal import Goal
from agentfly.environments.webshop.options import WebShopOptions
from agentfly.environments.webshop.purchase import Verdict, judge

__all__ = ["WEBSHOP", "Goal", "Verdict", "WebShop", "WebShopOptions", "judge"]
