import asyncio

from agentfly import Agent, SamplingParams
from agentfly.tools import calculator


async def main() -> None:
    # A name is a folder, a built-in model (`agentfly models list`) or a hub id.
    async with Agent(
        "tiny",
        tools=[calculator],
        system_prompt="Use the calculator.",
        sampling=SamplingParams(temperature=1.0, max_tokens=80),
        max_turns=3,
    ) as agent:
        result = await agent.run({"question": "What is 23*41?"}, num_chains=8)
    for trajectory in result.trajectories:
        completion = trajectory.turns[0].completion
        assert completion is not None
        assert len(completion.token_ids) == len(completion.logprobs)


asyncio.run(main())
