"""What the model calls."""

from agentfly.environments.alfworld.environment import Alfworld
from agentfly.types import Step


def act(command: str, env: Alfworld) -> Step:
    """Do one thing in the room and see what happens.

    Args:
        command: One of: go to X, open X, close X, take Y from X, move Y to X, clean Y with X,
            heat Y with X, cool Y with X, slice Y with Z, use Y, examine X, look, inventory. Name
            things with their numbers, such as "take mug 1 from desk 2".
        env: The chain's own room.
    """
    return env.step(command)


def commands(env: Alfworld) -> str:
    """List all commands that are possible now."""
    return ", ".join(env.commands())
