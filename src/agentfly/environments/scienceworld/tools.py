"""What the model calls."""

from agentfly.environments.scienceworld.environment import ScienceWorld
from agentfly.types import Step

MAX_LISTED = 40
"""How many valid actions an answer names: there are often a thousand."""


def act(action: str, env: ScienceWorld) -> Step:
    """Do one thing and see what happens.

    Args:
        action: Such as: look around, look at X, inventory, task, go to X, teleport to X, open X,
            pick up X, put down X, move X to Y, pour X in Y, use X on Y, connect X to Y,
            activate X, read X, mix X, eat X, wait, focus on X. Focus only on what the task names.
        env: The chain's own world.
    """
    return env.step(action)


def things(env: ScienceWorld) -> str:
    """List the kinds of actions, and the things that are here."""
    return env.things()


def valid(about: str, env: ScienceWorld) -> str:
    """List the actions that would do something now. This is slow.

    Args:
        about: A word that the actions must contain, such as the name of a thing.
        env: The chain's own world.
    """
    found = [action for action in env.valid_actions() if about in action]
    more = len(found) - MAX_LISTED
    listed = ", ".join(found[:MAX_LISTED]) or f"No valid action contains {about!r}."
    return f"{listed} and {more} more" if more > 0 else listed
