"""Heavy tools and rewards that the nodes of a cluster import."""

import json
import os
import time
from pathlib import Path

from agentfly.errors import ToolError
from agentfly.rewards import reward
from agentfly.tools import tool

BASE = 40
PATIENT = 300.0
"""Seconds for a call, the start of its process on a busy machine included."""


@tool(heavy=True, timeout=PATIENT)
def add_far_away(number: int) -> str:
    """Add to the base.

    Args:
        number: The number to add.
    """
    print(f"adding {number}")
    return f"{BASE + number} by {os.getpid()}"


@tool(heavy=True, timeout=PATIENT)
async def refuse() -> str:
    """Refuse."""
    raise ToolError("ask for something else")


@tool(heavy=True, timeout=0.5)
def hang() -> str:
    """Hang."""
    time.sleep(1000)
    return "never"


@tool(heavy=True, timeout=PATIENT)
def die() -> str:
    """Die."""
    os._exit(7)


@reward(heavy=True)
def right(final_response: str, answer: str) -> bool:
    return answer in final_response


def write_place(**place: object) -> None:
    """Write where a process was placed to the folder that is its address."""
    Path(str(place["address"]), str(place["rank"])).write_text(json.dumps(place))
