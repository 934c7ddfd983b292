"""An agent that answers arithmetic with a calculator, over many chains at once.

Run it with `python examples/calculator_agent.py`. A script stands in for the model here; give
`Agent` an engine or a model's name instead, and nothing else changes.
"""

import re

from agentfly import Agent, ScriptedEngine, reward, tool
from agentfly.chat import CHATML_TOKENS, ByteTokenizer
from agentfly.engines import ScriptedTurn

CALL = '<tool_call>\n{{"name": "multiply", "arguments": {{"a": {}, "b": {}}}}}\n</tool_call>'


@tool
def multiply(a: int, b: int) -> int:
    """Multiply two integers.

    Args:
        a: The first factor.
        b: The second factor.
    """
    return a * b


@reward
def correct(final_response: str, answer: int) -> bool:
    """Is the answer there?"""
    return str(answer) in final_response


def model(turn: ScriptedTurn) -> str:
    """Call the tool first, then answer with what it returned; every fourth chain just guesses."""
    if turn.request.turn == 1:
        result = turn.prompt.rsplit("<tool_response>", 1)[1].split("</tool_response>")[0]
        return f"The product is {result.strip()}."
    if turn.request.chain_id.endswith("/3"):
        return "It must be about 1000."
    return CALL.format(*re.findall(r"\d+", turn.prompt.rsplit("What is", 1)[1])[:2])


rows = [{"question": f"What is {a} times 41?", "answer": a * 41} for a in range(10, 20)]
agent = Agent(
    ScriptedEngine(model, tokenizer=ByteTokenizer(CHATML_TOKENS)),
    tools=[multiply],
    reward=correct,
    system_prompt="Answer with the help of the tool.",
)
result = agent.run_sync(rows, num_chains=4)

print(result.summary)
for message in result.trajectories[0].conversation:
    print(f"{message.role}: {message.content or message.tool_calls[0].arguments}")
