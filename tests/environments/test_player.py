"""Scripted players go through the real loop, in every kind of agent."""

import asyncio
import math
import threading
from collections.abc import Awaitable, Generator
from dataclasses import replace
from random import Random
from typing import Any

import pytest
from tests.patience import PATIENCE

from agentfly import Agent, Message, Task, Trajectory, reward, tool
from agentfly.agents.demonstrate import demonstrate
from agentfly.agents.kind import KINDS
from agentfly.agents.source_parts import SourceParts
from agentfly.environments import PlayerModel, Say, Scene, call
from agentfly.errors import ConfigError, EnvError
from agentfly.runtime.clock import LoopClock
from agentfly.types import EnvSpec, SamplingParams, StopReason


@tool
def double(number: int) -> int:
    """Double a number."""
    return 2 * number


@reward
def correct(final_response: str, answer: str) -> float:
    return float(final_response == answer)


def twice(scene: Scene) -> Generator[Say, str, None]:
    once = yield call("double", number=scene.task.fields["number"])
    both = yield call("double", number=int(once.split()[-1]))
    yield Say(both.split()[-1])


def hesitant(scene: Scene) -> Generator[Say, str, None]:
    yield call("double", number=1)


def source_parts(kind: str = "tools") -> SourceParts:
    return SourceParts(
        tasks=(),
        eval_tasks=(),
        kind=KINDS[kind](),
        tools=(double,),
        reward=correct,
        group_reward=None,
        environment=None,
        system_prompt="Count.",
        max_turns=4,
    )


def row(number: int) -> Task:
    question = f"Double {number} twice."
    return Task.from_row({"question": question, "number": number, "answer": str(4 * number)})


@pytest.mark.parametrize("kind", ["tools", "react"])
async def test_a_player_acts_on_what_it_is_shown(kind: str) -> None:
    seen: list[str] = []
    chains = await demonstrate(
        source_parts(kind),
        twice,
        [row(3), row(5)],
        on_trajectory=lambda chain: seen.append(chain.task.id),
    )
    assert [chain.reward for chain in chains] == [1.0, 1.0]
    assert [len(chain.turns) for chain in chains] == [3, 3]
    assert sorted(seen) == sorted(chain.task.id for chain in chains)
    assert chains[0].messages[0].content.startswith("Count.")


async def test_concurrent_chains_each_get_their_own() -> None:
    tasks = [row(number) for number in range(40)]
    chains = await demonstrate(source_parts(), twice, tasks, max_concurrent=7)
    assert [chain.final_response for chain in chains] == [str(4 * n) for n in range(40)]


async def test_a_player_that_stops_too_early_fails_its_chain_and_says_so() -> None:
    (chain,) = await demonstrate(source_parts(), hesitant, [row(1)])
    assert chain.stop is StopReason.ENGINE_FAILED
    assert "nothing left to do after 1 turn, and the chain goes on: end it" in str(chain.error)
    assert chain.reward is None


@pytest.mark.parametrize("said", ["double 3", None, 4])
async def test_a_player_that_yields_something_else_is_told_what_to_yield(said: Any) -> None:
    def talker(scene: Scene) -> Generator[Say, str, None]:
        yield said

    (chain,) = await demonstrate(source_parts(), talker, [row(1)])
    assert chain.stop is StopReason.ENGINE_FAILED
    wrong = f"TypeError: a player yields Say(...) or call(...), got {type(said).__name__}"
    assert wrong in str(chain.error)


async def test_a_retry_plays_from_the_beginning_with_the_same_random_numbers() -> None:
    drawn: list[list[float]] = []

    class Fragile:
        """Is lost at the second call of the first chain."""

        calls = 0

        def reset(self) -> None: ...

        def poke(self) -> str:
            """Poke it."""
            Fragile.calls += 1
            if Fragile.calls == 2:
                raise EnvError("lost")
            return f"poke {Fragile.calls}"

    def poking(scene: Scene) -> Generator[Say, str, None]:
        drawn.append([scene.random.random()])
        yield call("poke")
        drawn[-1].append(scene.random.random())
        shown = yield call("poke")
        drawn[-1].append(scene.random.random())
        yield Say(shown)

    model = PlayerModel(player=poking, task=row(1), random=Random(0))
    agent = Agent(model, tools=[Fragile])
    (chain,) = (await agent.run(row(1), retries=1)).trajectories
    assert (chain.stop, chain.attempt) == (StopReason.ANSWERED, 1), chain.error
    assert chain.final_response == "poke 4"
    assert [message.tool_calls[0].id for message in asked(chain)] == ["call_1_1", "call_2_1"]
    first, second = drawn
    assert first == second[:2], "the attempt that failed, and the one after it"
    assert len(set(second)) == 3


async def test_a_retry_closes_the_player_of_the_failed_attempt_in_a_thread() -> None:
    closed_in: list[threading.Thread] = []

    def leaving(scene: Scene) -> Generator[Say, str, None]:
        del scene
        try:
            yield Say("one")
            yield Say("two")
        finally:
            closed_in.append(threading.current_thread())

    model = PlayerModel(player=leaving, task=row(1), random=Random(0))
    for _ in range(2):
        said = await model.reply([Message(role="user")], (), SamplingParams(), deadline=math.inf)
        assert said.content == "one"
    (thread,) = closed_in
    assert thread is not threading.main_thread(), "closing may take long, as that of a world does"


async def test_a_player_that_was_abandoned_draws_none_of_the_next_ones_numbers() -> None:
    go_on, went_on = threading.Event(), threading.Event()
    drawn: list[float] = []

    def slow(scene: Scene) -> Generator[Say, str, None]:
        if not drawn:
            drawn.append(scene.random.random())
            go_on.wait(PATIENCE)
            scene.random.random()
            went_on.set()
            yield Say("too late")
            return
        drawn.append(scene.random.random())
        yield Say("one")
        drawn.append(scene.random.random())
        yield Say("two")

    def reply(count: int, seconds: float) -> Awaitable[Message]:
        asked = [Message(role="user"), *[Message(role="assistant"), Message(role="user")] * count]
        deadline = LoopClock().now() + seconds
        return model.reply(asked, (), SamplingParams(), deadline=deadline)

    model = PlayerModel(player=slow, task=row(1), random=Random(0))
    with pytest.raises(TimeoutError):
        await reply(0, 0.05)
    assert (await reply(0, PATIENCE)).content == "one"
    go_on.set()
    assert await asyncio.to_thread(went_on.wait, PATIENCE)
    assert (await reply(1, PATIENCE)).content == "two"
    expected = Random(0)
    first, second = expected.random(), expected.random()
    assert drawn == [first, first, second]


def asked(chain: Trajectory) -> list[Message]:
    return [message for message in chain.conversation if message.tool_calls]


async def test_a_mistake_in_a_task_comes_out_as_itself() -> None:
    class Picky:
        def reset(self, task: Task, seed: int) -> None:
            if task.fields["number"] == 5:
                raise ConfigError("there is no 5")

        def wait(self) -> str:
            """Wait."""
            return ""

    parts = replace(source_parts(), environment=EnvSpec(Picky))
    with pytest.raises(ConfigError, match="there is no 5"):
        await demonstrate(parts, twice, [row(number) for number in range(8)])


async def test_the_scene_is_the_last_thing_said_and_seeds_repeat() -> None:
    told: list[tuple[str, float]] = []

    def noting(scene: Scene) -> Generator[Say, str, None]:
        told.append((scene.observation, scene.random.random()))
        yield Say("done")

    for seed in (1, 1, 2):
        await demonstrate(source_parts(), noting, [row(3)], seed=seed)
    assert [observation for observation, _ in told] == ["Double 3 twice."] * 3
    assert told[0] == told[1] != told[2]


async def test_a_player_that_thinks_holds_nobody_up() -> None:
    thought = threading.Event()

    def slow(scene: Scene) -> Generator[Say, str, None]:
        del scene
        yield Say(str(thought.wait(20)))

    def quick(scene: Scene) -> Generator[Say, str, None]:
        del scene
        thought.set()
        yield Say("Go on.")

    models = [PlayerModel(player=one, task=row(1), random=Random(0)) for one in (slow, quick)]
    asked = [Message(role="user")]
    async with asyncio.TaskGroup() as group:
        replies = [
            group.create_task(model.reply(asked, (), SamplingParams(), deadline=math.inf))
            for model in models
        ]
    assert [reply.result().content for reply in replies] == ["True", "Go on."]


async def test_calls_have_ids_of_their_own() -> None:
    def both(scene: Scene) -> Generator[Say, str, None]:
        del scene
        pair = call("double", number=1).calls + call("double", number=2).calls
        shown = yield Say("Two at once.", pair)
        yield Say(shown)

    model = PlayerModel(player=both, task=row(1), random=Random(0))
    said = await model.reply([Message(role="user")], (), SamplingParams(), deadline=math.inf)
    assert [one.id for one in said.tool_calls] == ["call_1_1", "call_1_2"]
    result = await Agent(
        PlayerModel(player=both, task=row(1), random=Random(0)), tools=[double]
    ).run(row(1))
    assert result.trajectories[0].final_response == "2\n4"
