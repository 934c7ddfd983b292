"""Methods as tools: each chain leases an instance of a plain class, and shares it with no other."""

import asyncio
import functools
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

import pytest
from tests.agents.scripts import call, engine

from agentfly import Agent, EnvSpec, StopReason, Task, reward, tool
from agentfly.agents.source_parts import resolve_source
from agentfly.config import SourceSettings
from agentfly.engines import ScriptedTurn
from agentfly.errors import ConfigError
from agentfly.resources import Pooling
from agentfly.tools import calculator
from agentfly.types import Seed

ROWS = [{"id": str(number), "question": "Store it.", "item": f"item-{number}"} for number in (0, 1)]


class Inventory:
    """A plain class: no base class, no reset, no close."""

    def __init__(self, size: int = 10) -> None:
        self.items: list[str] = []
        self.size = size

    def put(self, item: str) -> str:
        """Put an item into the inventory."""
        self.items.append(item)
        return f"{len(self.items)} of {self.size}"

    async def count(self) -> int:
        """Count the items."""
        await asyncio.sleep(0)
        return len(self.items)

    @staticmethod
    def shout(text: str) -> str:
        """Shout."""
        return text.upper()

    @classmethod
    def kind(cls) -> str:
        """Return the kind of container."""
        return cls.__name__

    def undocumented(self) -> None: ...

    def _private(self) -> None:
        """Not a tool."""


class Warehouse(Inventory):
    """Inherits all but one method."""

    async def count(self) -> int:
        """Count in hundreds."""
        return 100 * await super().count()


class InWorker(Inventory):
    pooling = Pooling(where="process")


class Recycled(Inventory):
    pooling = Pooling(max_uses=50)
    made: ClassVar[int] = 0

    def __init__(self) -> None:
        super().__init__()
        Recycled.made += 1

    def reset(self) -> None:
        self.items = []


@reward
def stored(inventory: Inventory, item: str) -> float:
    return float(inventory.items == [item, item])


def store_twice(turn: ScriptedTurn) -> str:
    """Put the name of the own chain twice, then answer with the count."""
    calls = [call("put", item=_item(turn)), call("put", item=_item(turn)), call("count")]
    return calls[turn.request.turn] if turn.request.turn < len(calls) else "Done."


def _item(turn: ScriptedTurn) -> str:
    return f"item-{turn.request.chain_id.split('/')[0]}"


async def run(agent: Agent, chains: int = 8) -> list[str]:
    """Return each chain's observations, and check that every reward is 1."""
    async with agent:
        result = await agent.run(ROWS, num_chains=chains)
    assert [t.error for t in result.trajectories] == [None] * len(ROWS) * chains
    if agent.reward is not None:
        assert result.rewards == (1.0,) * len(ROWS) * chains
    return [
        " ".join(r.observation for turn in trajectory.turns for r in turn.results)
        for trajectory in result.trajectories
    ]


@pytest.mark.parametrize(
    "given",
    [
        {"tools": [Inventory]},
        {"environment": Inventory},
        {"environment": functools.partial(Inventory, size=10)},
        {"environment": EnvSpec(Inventory, (("size", 10),))},
        {"tools": [Inventory.put, Inventory.count], "environment": Inventory},
    ],
)
async def test_sixteen_chains_have_an_instance_each(given: dict[str, Any]) -> None:
    seen = await run(Agent(engine(store_twice), reward=stored, **given))
    assert seen == ["1 of 10 2 of 10 2"] * 16


async def test_single_methods_are_taken_from_their_class_wherever_it_is_defined() -> None:
    class Shelf:
        def __init__(self) -> None:
            self.items: list[str] = []

        def put(self, item: str) -> int:
            """Put an item on the shelf."""
            self.items.append(item)
            return len(self.items)

        @tool
        async def count(self) -> int:
            """Count the items."""
            return len(self.items)

    @reward
    def both(shelf: Shelf) -> float:
        return float(len(shelf.items) == 2)

    agent = Agent(engine(store_twice), tools=[Shelf.put, Shelf.count], reward=both)
    assert agent.environments == (EnvSpec(Shelf),)
    assert await run(agent) == ["1 2 2"] * 16


async def test_all_documented_methods_are_tools_static_and_class_methods_too() -> None:
    agent = Agent(
        engine([call("shout", text="hi"), call("kind"), call("count"), "Done."] * 2),
        environment=Warehouse,
    )
    assert [spec.name for spec in agent.tools.specs] == ["put", "count", "shout", "kind"]
    assert agent.tools.specs[1].description == "Count in hundreds."
    assert await run(agent, chains=1) == ["HI Warehouse 0"] * 2


async def test_an_inherited_method_is_served_by_the_class_that_is_named() -> None:
    by_method = Agent(engine(store_twice), tools=[Warehouse.put, Warehouse.count])
    by_environment = Agent(engine(store_twice), tools=[Inventory.put], environment=Warehouse)
    assert by_method.environments == by_environment.environments == (EnvSpec(Warehouse),)
    assert await run(by_method, chains=1) == ["1 of 10 2 of 10 200"] * 2
    with pytest.raises(ConfigError, match=r"Inventory\.put is also a method of Warehouse, InWork"):
        Agent(tools=[Inventory.put])


async def test_instances_may_live_in_processes_of_their_own() -> None:
    agent = Agent(engine(store_twice), environment=InWorker, reward=stored)
    assert await run(agent, chains=2) == ["1 of 10 2 of 10 2"] * 4


async def test_instances_with_a_reset_may_be_used_again() -> None:
    Recycled.made = 0
    agent = Agent(engine(store_twice), tools=[Recycled], reward=stored)
    async with agent:
        result = await agent.run(ROWS, num_chains=8, max_concurrent_chains=2)
    assert result.rewards == (1.0,) * 16
    assert Recycled.made <= 4


async def test_a_close_is_called_if_there_is_one(caplog: pytest.LogCaptureFixture) -> None:
    closed: list[list[str]] = []

    class Closing(Inventory):
        async def close(self) -> None:
            closed.append(self.items)

    for kind in (Closing, Inventory):
        await run(Agent(engine(store_twice), environment=kind), chains=2)
    assert sorted(closed) == [["item-0"] * 2] * 2 + [["item-1"] * 2] * 2
    assert caplog.messages == []


@dataclass
class Dice:
    """Every form of `reset`, by subclasses; a dataclass is as good as any other class."""

    log: list[object] = field(default_factory=list)

    def look(self) -> str:
        """Look at the log."""
        return repr(self.log)


class WithFields(Dice):
    def reset(self, item: str, color: str = "red") -> str:
        self.log = [item, color]
        return "The dice are ready."


class WithAll(Dice):
    def reset(self, **fields: Any) -> None:
        self.log = [sorted(fields)]


class WithTask(Dice):
    def reset(self, _row: Task, _random: Seed) -> None:
        self.log = [_row.id, type(_random).__name__]


class WithUnknown(Dice):
    def reset(self, weight: float) -> None:
        raise NotImplementedError


async def test_reset_takes_the_fields_it_names() -> None:
    async def observed(kind: type[Dice]) -> tuple[list[str], str]:
        agent = Agent(engine([call("look"), "Done."]), environment=kind)
        (trajectory,) = (await agent.run(ROWS[0], retries=0)).trajectories
        said = [m.content for m in trajectory.messages]
        return said, trajectory.error or trajectory.turns[0].results[0].observation

    first = ["Store it.", "The dice are ready."]
    assert await observed(WithFields) == (first, "['item-0', 'red']")
    assert await observed(WithAll) == (first[:1], "[['id', 'item', 'question']]")
    assert await observed(WithTask) == (first[:1], "['0', 'Seed']")
    said = (await observed(WithUnknown))[1]
    assert "reset of WithUnknown takes 'weight', which task '0' lacks" in said


async def test_a_reward_for_a_class_that_no_tool_leases_says_so() -> None:
    agent = Agent(engine(["Done."]), reward=stored)
    (trajectory,) = (await agent.run(ROWS[0], retries=0)).trajectories
    assert trajectory.stop is StopReason.REWARD_FAILED
    assert "this chain has no Inventory" in (trajectory.error or "")
    assert "tools=[Inventory]" in (trajectory.error or "")


class Counter:
    """Has its state in a class attribute, until the first call."""

    total = 0

    def add(self) -> int:
        """Add one."""
        self.total += 1
        return self.total

    @tool(shared=True)
    def show(self) -> int:
        """Show the total."""
        return self.total


async def test_a_bound_method_of_an_object_with_state_is_refused_unless_shared() -> None:
    for bound in (Inventory().put, tool(Inventory().put), functools.partial(Inventory().put, "a")):
        with pytest.raises(ConfigError, match=r"whose state all chains would share\. For an inst"):
            Agent(tools=[bound])
    with pytest.raises(ConfigError, match=r"tools=\[Counter.add\].*tool\(obj.add, shared=True\)"):
        Agent(tools=[Counter().add])
    counter = Counter()
    agent = Agent(
        engine(lambda turn: call("add") if turn.request.turn == 0 else "Done."),
        tools=[tool(counter.add, shared=True), counter.show],
    )
    await run(agent)
    assert counter.total == 16


class NoTools:
    def plain(self) -> None: ...


class NeedsSize(Inventory):
    def __init__(self, size: int) -> None:
        super().__init__(size)


def unknown() -> Any: ...


def known() -> NeedsSize:
    return NeedsSize(10)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"tools": [NoTools]}, r"NoTools has no tools: .* methods are: plain\. Write a docstring"),
        ({"environment": NoTools}, r"NoTools has no tools"),
        ({"environment": NeedsSize}, r"without arguments \(missing a required argument: 'size'\)"),
        ({"tools": [NeedsSize]}, r"environment=functools\.partial\(NeedsSize, \.\.\.\)"),
        ({"tools": [EnvSpec(unknown)]}, r"unknown class: annotate what it returns"),
        ({"environment": Inventory()}, r"got an instance: .* Pass Inventory"),
        ({"tools": [Warehouse, InWorker]}, r"two tools are named 'put'"),
    ],
)
def test_wrong_uses_are_refused(given: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        Agent(**given)


async def test_a_function_that_makes_instances() -> None:
    seen = await run(Agent(engine(store_twice), environment=known, reward=stored), chains=1)
    assert seen == ["1 of 10 2 of 10 2"] * 2


async def test_reuse_needs_a_reset() -> None:
    class Kept(Inventory):
        pooling = Pooling(max_uses=2)

    agent = Agent(engine(store_twice), environment=Kept)
    with pytest.raises(ConfigError, match=r"Kept is to serve 2 chains in turn .* no `reset`"):
        await agent.run(ROWS[0], retries=0)


def test_settings_name_classes_and_methods(tmp_path: Path) -> None:
    (tmp_path / "methods_shop.py").write_text(
        'class Shop:\n    def buy(self, item: str) -> str:\n        """Buy."""\n'
        '    def sell(self, item: str) -> str:\n        """Sell."""\n'
    )
    (tmp_path / "tasks.jsonl").write_text('{"question": "Buy it."}\n')

    def names(**given: Any) -> tuple[list[str], list[str]]:
        parts = resolve_source(SourceSettings(tasks="tasks.jsonl", **given), base=tmp_path)
        agent = Agent(tools=parts.tools, environment=parts.environment)
        return [s.name for s in agent.tools.specs], [s.name for s in agent.environments]

    assert names(tools=["methods_shop:Shop"]) == (["buy", "sell"], ["Shop"])
    assert names(tools=["methods_shop:Shop.sell"]) == (["sell"], ["Shop"])
    assert names(environment="methods_shop:Shop") == (["buy", "sell"], ["Shop"])
    with pytest.raises(
        ConfigError, match=r"methods_shop:Shop has no tool 'bye'\. Did you mean 'buy"
    ):
        names(tools=["methods_shop:Shop.bye"])


def test_a_model_that_never_saw_the_tools_is_reported_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    @tool
    def polish(item: str) -> str:
        """Polish an item."""
        return item

    agent = Agent("tiny", tools=[polish])
    agent.with_engine(engine("Done."))
    (said,) = caplog.messages
    assert "The model 'tiny' never saw the tools polish, and will not call them" in said
    assert "`agentfly models info tiny`" in said
    assert "agentfly sft" in said
    caplog.clear()
    Agent("tiny", tools=[calculator])
    Agent(engine("Done."), tools=[polish])
    assert not caplog.messages
