"""Tasks: loading them, their order, and the ledger of their progress."""

from agentfly.tasks.ledger import Ledger, Progress
from agentfly.tasks.order import Mixture, Order, Visit
from agentfly.tasks.task_loading import Rows, find_rows, load_tasks

__all__ = [
    "Ledger",
    "Mixture",
    "Order",
    "Progress",
    "Rows",
    "Visit",
    "find_rows",
    "load_tasks",
]
