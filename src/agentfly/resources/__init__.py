"""The central manager that leases environment instances to chains."""

from agentfly.resources.pool import FreshPool

__all__ = ["FreshPool"]
