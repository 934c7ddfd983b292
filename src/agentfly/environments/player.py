"""Scripted players: experts, gold paths and random ones, which play through the real chain loop.

A player is a generator. It gets the scene, yields its actions, and receives observations:

    def expert(scene):
        found = yield call("search", query=scene.task.fields["subject"])
        yield Say(found.splitlines()[0])

A call is answered by the tool's observation; any other message ends the chain, unless an
environment answers it.
"""

import json
from collections.abc import Callable, Generator, Sequence
from copy import copy
from dataclasses import dataclass, field
from functools import partial
from random import Random

from agentfly.errors import EngineError, boundary
from agentfly.runtime.clock import LoopClock
from agentfly.runtime.invoke import invoke
from agentfly.types import Message, SamplingParams, Task, ToolCall, ToolSpec
from agentfly.types.short_text import count


@dataclass(frozen=True, slots=True, kw_only=True)
class Scene:
    """The information that a player starts with."""

    task: Task
    observation: str
    """The last message before its first turn: the question, or the environment's message."""
    random: Random


@dataclass(frozen=True, slots=True)
class Say:
    """One turn: words, calls, or both."""

    words: str = ""
    calls: tuple[ToolCall, ...] = ()


Play = Generator[Say, str, None]
"""Turns of a player; it receives the observations."""
Player = Callable[[Scene], Play]


def call(tool: str, /, **arguments: object) -> Say:
    """Return a turn that only calls a tool.

    >>> call("search", query="red shoes").calls[0].arguments
    '{"query": "red shoes"}'
    """
    made = ToolCall(id="", name=tool, arguments=json.dumps(arguments, ensure_ascii=False))
    return Say(calls=(made,))


@dataclass(slots=True, kw_only=True)
class PlayerModel:
    """One chain's player as a chat model, so that `Agent` runs it as it runs any other.

    A retry of the chain plays from the beginning, with the same random numbers.
    """

    player: Player
    task: Task
    random: Random
    write: Callable[[Sequence[ToolCall], str], str] | None = None
    """Formats calls as text, for agents whose calls are text."""
    _playing: Play | None = field(default=None, init=False)
    _turns: int = field(default=0, init=False)
    _opening: int = field(default=0, init=False)
    """Number of messages before the player's first turn."""

    async def reply(
        self,
        messages: Sequence[Message],
        tools: Sequence[ToolSpec],
        params: SamplingParams,
        *,
        deadline: float,
    ) -> Message:
        """Play the next turn in a thread: a player may compute for minutes."""
        del tools, params
        said: Say = await invoke(
            partial(self._next, messages),
            name=f"the player of task {self.task.id!r}",
            clock=LoopClock(),
            deadline=deadline,
        )
        self._turns += 1
        calls = tuple(
            ToolCall(id=f"call_{self._turns}_{number}", name=one.name, arguments=one.arguments)
            for number, one in enumerate(said.calls, start=1)
        )
        if self.write is None:
            return Message(role="assistant", content=said.words, tool_calls=calls)
        return Message(role="assistant", content=self.write(calls, said.words))

    def _next(self, messages: Sequence[Message]) -> Say:
        if len(messages) <= self._opening:
            # A chain only grows: this one has begun again. What is left of the player of the failed
            # attempt would go on in the middle, or end at once and hide why that attempt failed.
            self._playing, self._turns = None, 0
        observation = "\n".join(_since_last_turn(messages))
        with boundary(EngineError, f"playing task {self.task.id!r}"):
            try:
                if self._playing is None:
                    self._opening = len(messages)
                    return _require_say(next(self._begin(observation)))
                return _require_say(self._playing.send(observation))
            except StopIteration:
                raise EngineError(
                    f"the player of task {self.task.id!r} has nothing left to do after "
                    f"{count(self._turns, 'turn')}, and the chain goes on: end it with "
                    "`yield Say(...)`, or yield turns until the environment ends it"
                ) from None

    def _begin(self, observation: str) -> Play:
        # A player that was abandoned may still draw from the copy of its own.
        scene = Scene(task=self.task, observation=observation, random=copy(self.random))
        self._playing = self.player(scene)
        return self._playing


def _require_say(said: object) -> Say:
    if not isinstance(said, Say):
        raise TypeError(f"a player yields Say(...) or call(...), got {type(said).__name__}")
    return said


class NoPlayerError(EngineError):
    """A task that a scripted player was not written for: nothing is known to be wrong with it."""


def _since_last_turn(messages: Sequence[Message]) -> list[str]:
    """Return the messages since the player's last turn; at the start, the last message."""
    spoken = [place for place, m in enumerate(messages) if m.role == "assistant"]
    start = spoken[-1] + 1 if spoken else len(messages) - 1
    return [message.content for message in messages[start:]]
