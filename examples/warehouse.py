"""A tool, a reward and tasks of your own: `python examples/warehouse.py` tries the tool.

`agentfly train examples/warehouse.toml --trust` trains SmolLM2 to use it.
"""

import asyncio
import json
import re
from random import Random
from typing import Any

from agentfly import ToolError, reward, tool
from agentfly.testing import make_context
from agentfly.types import ToolCall

STOCK = {part: Random(part).randint(11, 999) for part in range(1000, 1400)}
"""How many there are of each part, which no model can know."""


@tool
def stock(part: int) -> int:
    """Look up how many of a part are in stock.

    Args:
        part: The number of the part.
    """
    if part not in STOCK:
        raise ToolError(f"There is no part {part}: part numbers are 1000 to 1399.")
    return STOCK[part]


@reward
def correct(final_response: str, answer: int) -> bool:
    """Return whether the last number of the answer is the right one."""
    return re.findall(r"\d+", final_response)[-1:] == [str(answer)]


def training() -> list[dict[str, Any]]:
    """Return the tasks to train on."""
    return _tasks()[32:]


def held_out() -> list[dict[str, Any]]:
    """Return the tasks to measure with."""
    return _tasks()[:32]


def _tasks() -> list[dict[str, Any]]:
    parts = Random(7).sample(sorted(STOCK), 288)
    return [{"messages": _messages(part), "answer": STOCK[part]} for part in parts]


def _messages(part: int) -> list[dict[str, str]]:
    """Return a question after two worked examples, in which the model sees how to call the tool."""
    question = {"role": "user", "content": f"How many of part {part} are there?"}
    return [*_worked_example(4711, 58), *_worked_example(2042, 730), question]


def _worked_example(part: int, count: int) -> list[dict[str, str]]:
    return [
        {"role": "user", "content": f"How many of part {part} are there?"},
        {"role": "assistant", "content": f"<stock>{part}</stock>"},
        {"role": "user", "content": f"<information>{count}</information>"},
        {"role": "assistant", "content": f"There are {count}."},
    ]


def show(arguments: str) -> None:
    """Print what a model sees when it calls the tool with these arguments."""
    call = ToolCall(id="1", name="stock", arguments=arguments)
    result = asyncio.run(stock.run(call, make_context()))
    print(f"\n{arguments} -> {result.status}\n{result.observation}")


if __name__ == "__main__":
    print(stock.spec.description)
    print(json.dumps(stock.spec.parameters))
    show('{"part": 1234}')
    show('{"part": "the blue one"}')
    show('{"part": 7}')
