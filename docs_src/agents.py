import asyncio

from agentfly import Agent, Event, Limits, RunResult, ScriptedEngine
from agentfly.chat import CHATML_TOKENS, ByteTokenizer
from agentfly.rewards import numeric_match
from agentfly.tools import calculator

SCRIPT = [
    '<tool_call>\n{"name": "calculator", "arguments": {"expression": "6*7"}}\n</tool_call>',
    "It is 42.",
]


def watch(event: Event) -> None:
    """Called for every token, call, observation, reward and stop, of every chain."""


async def main() -> None:
    agent = Agent(
        ScriptedEngine(SCRIPT, tokenizer=ByteTokenizer(CHATML_TOKENS)),
        tools=[calculator],
        reward=numeric_match(),
        system_prompt="Use the calculator.",
        limits=Limits(max_turns=4, max_tool_calls=6, seconds=60),
    )
    rows = [{"question": "What is 6*7?", "answer": "42"}]
    result = await agent.run(rows, num_chains=8, max_concurrent_chains=4, on_event=watch)

    assert result.rewards == (1.0,) * 8
    trajectory = result.trajectories[0]
    (stream,) = trajectory.streams
    assert len(stream.token_ids) == len(stream.sampled)

    result.save("runs/docs/agents.jsonl")
    assert RunResult.load("runs/docs/agents.jsonl") == result


asyncio.run(main())
