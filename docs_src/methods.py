from agentfly import Agent, ScriptedEngine, reward
from agentfly.chat import CHATML_TOKENS, ByteTokenizer


class Inventory:
    """A plain class: its public methods with docstrings are tools."""

    def __init__(self) -> None:
        self.items: list[str] = []

    def put(self, item: str) -> str:
        """Put an item into the inventory.

        Args:
            item: What to put in.
        """
        self.items.append(item)
        return f"There are {len(self.items)} items."

    async def count(self) -> int:
        """Count the items."""
        return len(self.items)


@reward
def stored(inventory: Inventory, item: str) -> bool:
    return inventory.items == [item]


put_lamp = '<tool_call>{"name": "put", "arguments": {"item": "lamp"}}</tool_call>'
script = ScriptedEngine([put_lamp, "Done."], tokenizer=ByteTokenizer(CHATML_TOKENS))
agent = Agent(script, environment=Inventory, reward=stored)
result = agent.run_sync({"question": "Store the lamp.", "item": "lamp"}, num_chains=16)
assert [spec.name for spec in agent.tools.specs] == ["put", "count"]
assert result.rewards == (1.0,) * 16  # sixteen chains, sixteen inventories
