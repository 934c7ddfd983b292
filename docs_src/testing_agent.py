import re

from agentfly import Agent, ScriptedEngine, reward, tool
from agentfly.chat import CHATML_TOKENS, ByteTokenizer
from agentfly.engines import ScriptedTurn

CALL = '<tool_call>\n{{"name": "multiply", "arguments": {{"a": {}, "b": {}}}}}\n</tool_call>'


@tool
def multiply(a: int, b: int) -> int:
    """Multiply two integers."""
    return a * b


@reward
def correct(final_response: str, answer: int) -> bool:
    """Is the answer there?"""
    return str(answer) in final_response


def script(turn: ScriptedTurn) -> str:
    """Stand in for the model: call the tool, then answer; every fourth chain just guesses."""
    if turn.request.turn == 1:
        result = turn.prompt.rsplit("<tool_response>", 1)[1].split("</tool_response>")[0]
        return f"The product is {result.strip()}."
    if turn.request.chain_id.endswith("/3"):
        return "It must be about 1000."
    return CALL.format(*re.findall(r"\d+", turn.prompt.rsplit("What is", 1)[1])[:2])


rows = [{"question": f"What is {a} times 41?", "answer": a * 41} for a in range(10, 20)]
engine = ScriptedEngine(script, tokenizer=ByteTokenizer(CHATML_TOKENS))
result = Agent(engine, tools=[multiply], reward=correct).run_sync(rows, num_chains=4)

assert result.trajectories[0].final_response == "The product is 410."
assert result.rewards[:4] == (1.0, 1.0, 1.0, 0.0)
assert result.summary.chains == 40
