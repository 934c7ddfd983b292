"""Right paths of an own class, played by a script: a check of its tasks, and a warm start."""

import tempfile
from collections.abc import Generator
from pathlib import Path
from random import Random

from agentfly import Agent, RunResult, Task, reward
from agentfly.environments import PlayerModel, Say, Scene, call


class Inventory:
    def __init__(self) -> None:
        self.items: list[str] = []

    def put(self, item: str) -> str:
        """Put an item into the inventory.

        Args:
            item: What to put in.
        """
        self.items.append(item)
        return f"There are {len(self.items)} items."


@reward
def stored(inventory: Inventory, item: str) -> bool:
    return inventory.items == [item]


def expert(scene: Scene) -> Generator[Say, str, None]:
    yield call("put", item=scene.task.fields["item"])
    yield Say("Done.")


def play(task: Task) -> RunResult:
    player = PlayerModel(player=expert, task=task, random=Random(0))
    return Agent(player, environment=Inventory, reward=stored).run_sync(task)


names = ("lamp", "book", "cup")
tasks = [
    Task.from_row({"id": name, "question": f"Store the {name}.", "item": name}) for name in names
]
groups = tuple(group for task in tasks for group in play(task).groups)
result = RunResult(groups=groups)
assert result.rewards == (1.0, 1.0, 1.0)  # a right path gets full reward: the tasks are sound
file = Path(tempfile.mkdtemp()) / "paths.jsonl"
result.save(file)
print(file)
