"""A scripted player, run through the same loop as a model."""

from collections.abc import Generator
from random import Random

from agentfly import Agent, Task, reward
from agentfly.environments import PlayerModel, Say, Scene, call
from agentfly.tools import calculator


@reward
def correct(final_response: str, answer: str) -> bool:
    return answer in final_response


def expert(scene: Scene) -> Generator[Say, str, None]:
    result = yield call("calculator", expression=scene.task.fields["sum"])
    yield Say(f"It is {result}.")


task = Task.from_row({"question": "What is 57*83?", "sum": "57*83", "answer": "4731"})
player = PlayerModel(player=expert, task=task, random=Random(0))
result = Agent(player, tools=[calculator], reward=correct).run_sync(task)
assert result.rewards == (1.0,)
