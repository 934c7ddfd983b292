"""The browser as nine tools."""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from typing import Literal

from agentfly.environments.browser.environment import STEP_SECONDS, BrowserSession
from agentfly.environments.browser.options import ToolName
from agentfly.tools import tool
from agentfly.tools.tool_result import to_result
from agentfly.types import EnvSpec, Image, Step, Tool, ToolResult

TOOL_SECONDS = 3 * STEP_SECONDS
"""Timeout of a tool: longer than a step and a screenshot can take, so that a hang ends as a failure
of the environment and not as an observation."""


async def open(url: str, env: BrowserSession) -> ToolResult:
    """Open an address.

    Args:
        url: The address, whole or as a path of this site.
        env: The chain's own browser.
    """
    return await _result(env, await env.open(url))


async def click(id: int, env: BrowserSession) -> ToolResult:
    """Click an element of the page.

    Args:
        id: Its number.
        env: The chain's own browser.
    """
    return await _result(env, await env.click(id))


async def type(id: int, text: str, env: BrowserSession) -> ToolResult:
    """Type text into a field, in place of what is in it.

    Args:
        id: Number of the field.
        text: The text.
        env: The chain's own browser.
    """
    return await _result(env, await env.type(id, text))


async def select(id: int, option: str, env: BrowserSession) -> ToolResult:
    """Select an option of a list.

    Args:
        id: Number of the list.
        option: Text of the option.
        env: The chain's own browser.
    """
    return await _result(env, await env.select(id, option))


async def press(key: str, env: BrowserSession, id: int | None = None) -> ToolResult:
    """Press a key.

    Args:
        key: Such as Enter, Tab, Escape, ArrowDown, a or Control+a.
        env: The chain's own browser.
        id: Number of the element to press it in; default where the focus is.
    """
    return await _result(env, await env.press(key, id))


async def scroll(
    env: BrowserSession, direction: Literal["down", "up"] = "down", id: int | None = None
) -> ToolResult:
    """Show the next or the previous part of a long page, or scroll inside an element.

    Args:
        env: The chain's own browser.
        direction: Down or up.
        id: Number of the element; default the page.
    """
    return await _result(env, await env.scroll(direction == "down", id))


async def back(env: BrowserSession) -> ToolResult:
    """Go back to the page before."""
    return await _result(env, await env.back())


async def read(env: BrowserSession, id: int | None = None) -> ToolResult:
    """Show the page as it is now, or the whole text of an element.

    Args:
        env: The chain's own browser.
        id: Number of the element; default the page.
    """
    return await _result(env, await env.read(id))


async def tabs(env: BrowserSession, number: int | None = None) -> ToolResult:
    """List the open tabs, or go to another tab.

    Args:
        env: The chain's own browser.
        number: Number of the tab to go to.
    """
    return await _result(env, await env.tabs(number))


def browser_tools(spec: EnvSpec, names: Sequence[ToolName]) -> tuple[Tool, ...]:
    """Return the tools of these names, for the browser of this spec."""
    functions: dict[ToolName, Callable[..., Awaitable[ToolResult]]] = {
        "open": open,
        "click": click,
        "type": type,
        "select": select,
        "press": press,
        "scroll": scroll,
        "back": back,
        "read": read,
        "tabs": tabs,
    }
    return tuple(tool(functions[name], env=spec, timeout=TOOL_SECONDS) for name in names)


async def _result(env: BrowserSession, step: Step) -> ToolResult:
    result = to_result(step)
    if not env.options.screenshots or step.done:
        return result
    picture = await env.screenshot()
    return result if picture is None else replace(result, images=(Image(data=picture),))
