"""The kinds differ in how the prompt is made and the output read; the loop is one."""

from collections.abc import Sequence

import pytest
from tests.agents.scripts import engine

from agentfly import Agent, CodeBlocks, ConfigError, Message, ReAct, StopReason, Tags, tool
from agentfly.agents import ToolCalling
from agentfly.engines import ScriptedTurn
from agentfly.errors import TrainingDataError
from agentfly.training import make_samples
from agentfly.types import SamplingParams, Task, ToolCall, ToolSpec


@tool
def search(query: str) -> str:
    """Search the library.

    Args:
        query: What to look for.
    """
    return f"NOTHING ABOUT {query.upper()}"


@tool
def python(code: str) -> str:
    """Run code.

    Args:
        code: Python code.
    """
    return f"RAN {len(code.splitlines())} LINES"


REACT = [
    'Thought: I should look.\nAction: search\nAction Input: {"query": "owls"}\nObservation:',
    "Thought: I know now.\nFinal Answer: Owls hoot.",
]
TAGS = ["Let me see. <search>owls</search>", "<answer>Owls hoot.</answer>"]
CODE = ["Let me count.\n```python\na = 1\nprint(a)\n```", "It ran."]


@pytest.mark.parametrize(
    ("kind", "script", "tools", "shown"),
    [
        ("react", REACT, [search], "Observation: NOTHING ABOUT OWLS"),
        ("tags", TAGS, [search], "<information>NOTHING ABOUT OWLS</information>"),
        ("code", CODE, [python], "Output:\nRAN 2 LINES"),
    ],
)
async def test_textual_kinds_call_and_are_answered_in_their_own_words(
    kind: str, script: list[str], tools: list[object], shown: str
) -> None:
    seen: list[str] = []

    def model(turn: ScriptedTurn) -> str:
        seen.append(turn.prompt)
        return script[turn.request.turn]

    agent = Agent(engine(model), tools=tools, kind=kind, system_prompt="Be brief.")  # type: ignore[arg-type]
    (trajectory,) = (await agent.run("What do owls do?")).trajectories
    assert trajectory.stop is StopReason.ANSWERED
    assert trajectory.turns[0].replies == (Message(role="user", content=shown),)
    assert shown in seen[1]
    assert "Be brief." in seen[0]
    assert agent.tools.specs[0].name in seen[0], "the prompt must teach the tool"
    assert seen[0].count("<|im_start|>system") == 1


async def test_the_final_answer_is_what_a_reward_reads() -> None:
    for kind, script in (("react", REACT), ("tags", TAGS)):
        agent = Agent(engine(script), tools=[search], kind=kind)
        (trajectory,) = (await agent.run("What do owls do?")).trajectories
        assert trajectory.final_response == "Owls hoot."


async def test_a_kind_of_ones_own_changes_the_prompt_and_the_reading_only() -> None:
    class Bracketed(ToolCalling):
        def open(
            self, task: Task, tools: Sequence[ToolSpec], observation: str | None
        ) -> Sequence[Message]:
            return [Message(role="user", content=f"{task.fields['question']} Write [query].")]

        def read(self, message: Message) -> Message:
            if not message.content.startswith("["):
                return message
            arguments = f'{{"query": "{message.content.strip("[]")}"}}'
            call = ToolCall(id="call_0", name="search", arguments=arguments)
            return Message(role="assistant", content=message.content, tool_calls=(call,))

    agent = Agent(engine(["[owls]", "They hoot."]), tools=[search], kind=Bracketed())
    (trajectory,) = (await agent.run("What do owls do?")).trajectories
    assert trajectory.messages[0].content == "What do owls do? Write [query]."
    assert trajectory.turns[0].results[0].observation == "NOTHING ABOUT OWLS"
    assert trajectory.final_response == "They hoot."


def test_kinds_are_classes_that_can_be_passed_too() -> None:
    for kind in (ReAct(), CodeBlocks(), Tags(), ToolCalling()):
        agent = Agent(engine(["Hi"]), tools=[python], kind=kind, system_prompt="Short.")
        assert agent.run_sync("Hi").trajectories[0].stop is StopReason.ANSWERED


class Parrot:
    """A chat model that gives text and no ids."""

    async def reply(
        self,
        messages: Sequence[Message],
        tools: Sequence[ToolSpec],
        params: SamplingParams,
        *,
        deadline: float,
    ) -> Message:
        if messages[-1].role == "tool":
            return Message(role="assistant", content="It said: " + messages[-1].content.lower())
        call = ToolCall(id="x1", name=tools[0].name, arguments='{"query": "owls"}')
        return Message(role="assistant", tool_calls=(call,))


async def test_a_chat_model_can_be_run_but_not_trained_on() -> None:
    (trajectory,) = (await Agent(Parrot(), tools=[search]).run("Owls?")).trajectories
    assert trajectory.final_response == "It said: nothing about owls"
    assert not trajectory.trainable
    with pytest.raises(TrainingDataError, match="without token ids"):
        make_samples(trajectory)


async def test_a_format_can_be_named_and_a_wrong_name_is_refused() -> None:
    script = ['[TOOL_CALLS][{"name": "search", "arguments": {"query": "owls"}}]', "Done."]
    agent = Agent(engine(script), tools=[search], format="mistral")
    (trajectory,) = (await agent.run("Owls?")).trajectories
    assert trajectory.turns[0].results[0].observation == "NOTHING ABOUT OWLS"
    with pytest.raises(ConfigError, match="Did you mean 'mistral'"):
        Agent(engine(script), format="mistrall")


async def test_a_chat_model_works_with_textual_kinds_too() -> None:
    shown: list[list[str]] = []

    class TextOnly:
        async def reply(
            self,
            messages: Sequence[Message],
            tools: Sequence[ToolSpec],
            params: SamplingParams,
            *,
            deadline: float,
        ) -> Message:
            assert not tools
            assert "</search>" in params.stop
            shown.append([message.content for message in messages])
            return Message(role="assistant", content=TAGS[len(shown) - 1])

    (trajectory,) = (await Agent(TextOnly(), tools=[search], kind="tags").run("Owls?")).trajectories
    assert trajectory.final_response == "Owls hoot."
    assert "Search the library." in shown[0][0]
    assert shown[1][-2] == "Let me see.\n<search>owls</search>"
    assert shown[1][-1] == "<information>NOTHING ABOUT OWLS</information>"
