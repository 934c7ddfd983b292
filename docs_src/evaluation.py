from agentfly import Agent, ScriptedEngine
from agentfly.chat import CHATML_TOKENS, ByteTokenizer
from agentfly.engines import ScriptedTurn
from agentfly.observe import Counting
from agentfly.observe.comparison import compare_groups
from agentfly.observe.evaluation_summary import evaluation_rows
from agentfly.rewards import numeric_match

rows = [{"question": f"What is {n}+{n}?", "answer": 2 * n, "size": n // 10} for n in range(40)]


def agent(chance: float) -> Agent:
    """Stand in for a model that knows a share of the answers, the small ones first."""

    def answer(turn: ScriptedTurn) -> str:
        number = int(turn.prompt.rsplit("What is ", 1)[1].split("+")[0])
        return str(2 * number) if number < 40 * chance else "No idea."

    engine = ScriptedEngine(answer, tokenizer=ByteTokenizer(CHATML_TOKENS))
    return Agent(engine, reward=numeric_match())


before = agent(0.5).run_sync(rows, num_chains=2).groups
after = agent(0.8).run_sync(rows, num_chains=2).groups

for row in evaluation_rows(after, Counting(), by=["size"]):
    assert row.reward is not None
    print(f"{row.title:10} {row.tasks} tasks, reward {row.reward.value:.2f}")
found = compare_groups(before, after, names=("before", "after"), counting=Counting())
print(found.sentence)
