"""A mask of your own: `python examples/own_mask.py` shows which tokens it leaves out.

`agentfly train examples/own_parts.toml --trust` trains with it.
"""

import math
from collections.abc import Sequence

from agentfly import Agent, SamplingParams, ToolError, Turn, tool
from agentfly.chat import apply_mask


def no_failed_turns(turns: Sequence[Turn]) -> list[bool]:
    """Leave out turns in which a tool call failed, for any reason."""
    return [all(result.status == "ok" for result in turn.results) for turn in turns]


@tool
def calculator(expression: str) -> int:
    """Calculate an arithmetic expression."""
    if "*" not in expression:
        raise ToolError(f"This calculator only multiplies, got {expression}.")
    return math.prod(map(int, expression.split("*")))


if __name__ == "__main__":
    agent = Agent("tiny", tools=[calculator], sampling=SamplingParams(temperature=0, max_tokens=48))
    rows = [{"question": "What is 57*83?"}, {"question": "What is 64+28?"}]
    for trajectory in agent.run_sync(rows, max_turns=1).trajectories:
        (turn,) = trajectory.turns
        (kept,) = apply_mask(no_failed_turns, trajectory.turns)
        print(f"{turn.results[0].status}: {turn.results[0].observation}")
        print(f"    {len(turn.context_ids)} tokens of context, never trained")
        print(f"    {len(kept)} sampled tokens, {sum(kept)} of them trained")
