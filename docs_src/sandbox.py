import asyncio

from agentfly import Agent, ScriptedEngine, tool
from agentfly.chat import CHATML_TOKENS, ByteTokenizer
from agentfly.sandbox import PythonSandbox, SandboxLimits


async def main() -> None:
    sandbox = PythonSandbox(limits=SandboxLimits(seconds=5, memory_mb=256), unsafe=True)
    await sandbox.run("x = 20")
    result = await sandbox.run("print('adding')\nx + 1")
    assert (result.stdout, result.value) == ("adding\n", "21")

    # Errors of the code are results, worded so that a model can correct them.
    result = await sandbox.run("bytearray(2 << 30)")
    assert result.note == "Memory limit: 256 MB. Use less at a time."

    await sandbox.write_file("data.txt", "1\n2\n")
    assert (await sandbox.shell("wc -l < data.txt")).stdout.strip() == "2"
    await sandbox.reset()  # A fresh interpreter: neither x nor data.txt is left.
    assert await sandbox.list_files() == []
    await sandbox.close()


asyncio.run(main())


# As an environment, each chain has its own.
@tool(env=PythonSandbox)
async def python(code: str, env: PythonSandbox) -> str:
    """Run Python. Variables are kept from call to call.

    Args:
        code: What to run; the value of a last expression is shown.
    """
    return (await env.run(code)).observation


call = '<tool_call>\n{"name": "python", "arguments": {"code": "6 * 7"}}\n</tool_call>'
engine = ScriptedEngine([call, "It is 42."], tokenizer=ByteTokenizer(CHATML_TOKENS))
(trajectory,) = Agent(engine, tools=[python]).run_sync({"question": "6 × 7?"}).trajectories
assert trajectory.turns[0].results[0].observation == "42"
