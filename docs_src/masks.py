from collections.abc import Sequence

from agentfly import Agent, ScriptedEngine, Turn, tool
from agentfly.chat import CHATML_TOKENS, ByteTokenizer, apply_mask


def first_words(turns: Sequence[Turn]) -> list[bool | list[bool]]:
    """Train turns with a call as they are, and of others the first four tokens alone."""
    return [True if turn.results else four(turn) for turn in turns]


def four(turn: Turn) -> list[bool]:
    """Return one bool for each token that the model sampled in this turn."""
    return [place < 4 for place in range(len(turn.completion.token_ids))]


@tool
def add(a: int, b: int) -> int:
    """Add two integers."""
    return a + b


call = '<tool_call>{"name": "add", "arguments": {"a": 1, "b": 2}}</tool_call>'
script = ScriptedEngine([call, "It is 3."], tokenizer=ByteTokenizer(CHATML_TOKENS))
(chain,) = Agent(script, tools=[add]).run_sync({"question": "1 + 2?"}).trajectories

# One entry for each turn: the call is kept whole, of the answer's nine tokens four are.
assert first_words(chain.turns) == [True, [True] * 4 + [False] * 5]
# As the learner uses it: one bool for each sampled token. Context has no place in it.
assert [sum(kept) for kept in apply_mask(first_words, chain.turns)] == [len(call) + 1, 4]
