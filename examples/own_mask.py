"""A mask of your own: `python examples/own_mask.py` shows which tokens it leaves out.

`agentfly train examples/own_parts.toml --trust` trains with it.
"""

from collections.abc import Sequence

from agentfly import Agent, SamplingParams, ToolError, Turn, tool
from agentfly.chat import apply_mask


def no_failed_turns(turns: Sequence[Turn]) -> list[bool]:
    """Leave out turns in which a tool call failed, for any reason."""
    return [all(result.status == "ok" for result in turn.results) for turn in turns]


@tool
def calculator(expression: str) -> str:
    """Calculate an arithmetic expression."""
    raise ToolError(f"The calculator is broken today: {expression} must wait.")


if __name__ == "__main__":
    agent = Agent("tiny", tools=[calculator], sampling=SamplingParams(temperature=0, max_tokens=48))
    (trajectory,) = agent.run_sync("What is 57*83?", max_turns=2).trajectories
    kept_by_turn = apply_mask(no_failed_turns, trajectory.turns)
    for turn, kept in zip(trajectory.turns, kept_by_turn, strict=True):
        print(f"turn {turn.index}: {[str(result.status) for result in turn.results]}")
        print(f"    {len(turn.context_ids)} tokens of context, never trained")
        print(f"    {len(kept)} sampled tokens, {sum(kept)} of them trained")
