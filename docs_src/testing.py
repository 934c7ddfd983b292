import asyncio

from agentfly import ScriptedEngine, tool
from agentfly.chat import CHATML_TOKENS, ByteTokenizer
from agentfly.testing import check_engine, check_tool, run_in_virtual_time


@tool
async def slow_echo(text: str) -> str:
    """Answer after a while, in capitals.

    Args:
        text: What to say.
    """
    await asyncio.sleep(20)
    return text.upper()


# Twenty seconds pass in a millisecond; everything that is wrong is reported at once.
result = run_in_virtual_time(check_tool(slow_echo, {"text": "hello"}))
assert result.observation == "HELLO"

engine = ScriptedEngine(lambda turn: "Hello, world.", tokenizer=ByteTokenizer(CHATML_TOKENS))
asyncio.run(check_engine(engine, prompt_ids=[1, 2, 3]))
