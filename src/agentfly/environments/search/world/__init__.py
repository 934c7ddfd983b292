"""The default task: a generated world whose questions can't be answered from memory."""

from agentfly.environments.search.world.questions import (
    Question,
    held_out_rows,
    parse_question,
    train_rows,
    write_question,
)
from agentfly.environments.search.world.world import World

__all__ = ["Question", "World", "held_out_rows", "parse_question", "train_rows", "write_question"]
