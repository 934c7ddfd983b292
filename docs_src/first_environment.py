from agentfly import Agent, SamplingParams, reward


class Shelf:
    """A plain class: its public methods with a docstring are tools."""

    def __init__(self) -> None:
        self.items: list[str] = []

    def put(self, item: str) -> str:
        """Put an item on the shelf.

        Args:
            item: What to put there.
        """
        self.items.append(item)
        return f"On the shelf: {', '.join(self.items)}."


@reward
def stored(shelf: Shelf, item: str) -> bool:
    """The chain's own shelf holds the task's item, and nothing else."""
    return shelf.items == [item]


def worked_example(item: str) -> list[dict[str, str]]:
    return [
        {"role": "user", "content": f"Put the {item} on the shelf."},
        {"role": "assistant", "content": f"<put>{item}</put>"},
        {"role": "user", "content": f"<information>On the shelf: {item}.</information>"},
        {"role": "assistant", "content": f"The {item} is on the shelf."},
    ]


EXAMPLES = [*worked_example("globe"), *worked_example("mirror")]
ITEMS = ["lamp", "vase", "clock", "candle"] * 4
rows = [
    {"messages": [*EXAMPLES, {"role": "user", "content": f"Put the {item} on the shelf."}]}
    | {"item": item}
    for item in ITEMS
]
agent = Agent(
    "smollm2-135m-instruct",
    environment=Shelf,
    reward=stored,
    kind="tags",
    sampling=SamplingParams(temperature=0, max_tokens=24),
)
result = agent.run_sync(rows)

for message in result.trajectories[0].conversation[-4:]:
    calls = [f"{call.name}({call.arguments})" for call in message.tool_calls]
    print(f"{message.role}: {message.content or ', '.join(calls)}")
print(f"{len(result.rewards)} chains, each with its own shelf: rewards {set(result.rewards)}")
