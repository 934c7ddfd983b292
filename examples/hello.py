"""A real model that calls a function: `python examples/hello.py`."""

from agentfly import Agent, SamplingParams, tool

STOCK = {"apples": 12, "lemons": 40, "pears": 7}


@tool
def stock(item: str) -> int:
    """Return how many of an item are in stock."""
    return STOCK[item]


def worked_example(item: str) -> list[dict[str, str]]:
    """Show a call that went well: a model this small copies what it has seen."""
    return [
        {"role": "user", "content": f"How many {item} are there?"},
        {"role": "assistant", "content": f"<stock>{item}</stock>"},
        {"role": "user", "content": f"<information>{STOCK[item]}</information>"},
        {"role": "assistant", "content": f"There are {STOCK[item]} {item}."},
    ]


greedy = SamplingParams(temperature=0, max_tokens=40)
agent = Agent("smollm2-135m-instruct", tools=[stock], kind="tags", sampling=greedy)
question = {"role": "user", "content": "How many pears are there?"}
result = agent.run_sync([*worked_example("apples"), *worked_example("lemons"), question])

for message in result.trajectories[0].conversation[-4:]:
    calls = [f"{call.name}({call.arguments})" for call in message.tool_calls]
    print(f"{message.role}: {message.content or ', '.join(calls)}")
