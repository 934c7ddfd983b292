"""An agent that computes with an interpreter, and one whose programs are judged by hidden tests."""

from random import Random

from agentfly import Agent, ScriptedEngine, Task
from agentfly.chat import CHATML_TOKENS, ByteTokenizer
from agentfly.environments import PlayerModel, find_definition
from agentfly.environments.code import code_interpreter, unit_tests

# The built-in environment, played by its expert. `unsafe`: where a machine offers no isolation,
# run the code without; only for code that you trust, like this.
code = find_definition("code")
kit = code.make(code.options(tasks="math", levels=(2,), count=1, unsafe=True))
(row,) = kit.tasks()  # Let a = 66*11 and b = a+90. What is a+b?
expert = PlayerModel(player=kit.expert, task=Task.from_row(row), random=Random(0))
(trajectory,) = Agent(expert, tools=kit.tools, reward=kit.reward).run_sync([row]).trajectories
assert trajectory.final_response == row["answer"]
assert trajectory.reward == 1.0

# The parts by themselves, with a task of your own.
task = {
    "question": "Write a function `f(n)` that returns the square of n.",
    "tests": [{"call": "f(3)", "expected": 9}, "assert f(-2) == f(2) == 4"],
}
answer = "Here it is:\n```python\ndef f(n):\n    return n * abs(n)\n```"
engine = ScriptedEngine([answer], tokenizer=ByteTokenizer(CHATML_TOKENS))
agent = Agent(engine, tools=[code_interpreter], reward=unit_tests())
(trajectory,) = agent.run_sync([task]).trajectories
assert trajectory.reward == 0.5  # One of two tests.
