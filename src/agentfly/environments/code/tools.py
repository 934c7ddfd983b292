"""Tools that use a sandbox; all of a chain's tools share one, except `python`."""

import asyncio
from collections.abc import Callable
from typing import Any

from agentfly.errors import ToolError
from agentfly.sandbox import CellResult, PythonSandbox, SandboxLimits
from agentfly.sandbox.cell_result import shown
from agentfly.tools import FunctionTool, tool
from agentfly.types import EnvSpec, Seed, Task, ToolResult


class OneShotPython(PythonSandbox):
    """Runs each piece of code in an interpreter of its own."""

    def __init__(self, **options: Any) -> None:
        """Take what `PythonSandbox` takes."""
        super().__init__(**options)
        self._chain_seed = Seed(0)
        self._runs = 0
        self._one_run = asyncio.Lock()

    async def reset(self, task: Task | None = None, seed: Seed | None = None) -> str:
        """Start a chain, whose runs derive their random numbers from the seed."""
        self._chain_seed, self._runs = seed or Seed(0), 0
        return await super().reset(task, seed)

    async def run(self, code: str) -> CellResult:
        """Run code in a fresh interpreter; calls at the same time wait for each other."""
        async with self._one_run:
            self._runs += 1
            await super().reset(None, self._chain_seed.child("run", self._runs))
            return await super().run(code)


SLACK_SECONDS = 20.0
"""Time in addition to a cell's own, to start the interpreter: the sandbox reports limits."""
_TIMEOUT = SandboxLimits().seconds + SLACK_SECONDS


@tool(timeout=_TIMEOUT)
async def code_interpreter(code: str, sandbox: PythonSandbox) -> ToolResult:
    """Run Python. Variables and files are kept from call to call.

    Args:
        code: The value of a last expression is shown, and what is printed.
        sandbox: The chain's own.
    """
    return _shown(code, await sandbox.run(code))


@tool(timeout=_TIMEOUT)
async def python(code: str, sandbox: OneShotPython) -> ToolResult:
    """Run a Python program. Nothing is kept from call to call.

    Args:
        code: The value of a last expression is shown, and what is printed.
        sandbox: The chain's own.
    """
    return _shown(code, await sandbox.run(code))


@tool(timeout=_TIMEOUT)
async def shell(command: str, sandbox: PythonSandbox) -> str:
    """Run a shell command in the working folder.

    Args:
        command: For /bin/sh.
        sandbox: The chain's own.
    """
    return (await sandbox.shell(command)).observation


@tool(timeout=_TIMEOUT)
async def read_file(path: str, sandbox: PythonSandbox) -> str:
    """Read a text file.

    Args:
        path: From the working folder.
        sandbox: The chain's own.
    """
    content = await sandbox.read_file(path)
    try:
        text = content.decode()
    except UnicodeDecodeError:
        raise ToolError(f"{path} is not a text: {len(content)} bytes that are not UTF-8") from None
    return shown(text, sandbox.limits.output_chars) or "(empty file)"


@tool(timeout=_TIMEOUT)
async def write_file(path: str, content: str, sandbox: PythonSandbox) -> str:
    """Write a text file, and make its folders.

    Args:
        path: From the working folder.
        content: All of it; what was there before is replaced.
        sandbox: The chain's own.
    """
    await sandbox.write_file(path, content)
    return f"{len(content)} characters written."


@tool(timeout=_TIMEOUT)
async def list_files(sandbox: PythonSandbox, path: str = ".") -> str:
    """List the files below a folder.

    Args:
        path: From the working folder.
        sandbox: The chain's own.
    """
    names = "\n".join(await sandbox.list_files(path))
    return shown(names, sandbox.limits.output_chars) or "(no files)"


FILE_TOOLS = (shell, read_file, write_file, list_files)


def with_sandbox(
    made: FunctionTool[..., Any], factory: Callable[..., Any], options: dict[str, Any]
) -> FunctionTool[..., Any]:
    """Return the same tool with a sandbox that is made with these options.

    >>> with_sandbox(shell, PythonSandbox, {"unsafe": True}).environments[0].name
    'PythonSandbox(unsafe=True)'
    """
    limits: SandboxLimits = options.get("limits", SandboxLimits())
    return tool(
        made.function,
        env=EnvSpec(factory, tuple(options.items())),
        timeout=limits.seconds + limits.grace_seconds + SLACK_SECONDS,
    )


def _shown(code: str, result: CellResult) -> ToolResult:
    info = {"code": code, "ok": result.ok, "limit": result.limit}
    return ToolResult(observation=result.observation, info=info, images=result.images)
