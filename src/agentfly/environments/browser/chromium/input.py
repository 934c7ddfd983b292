"""Real input into a tab: the mouse and the keyboard."""

from collections.abc import Mapping

from agentfly.environments.browser.chromium.keyboard import Key
from agentfly.environments.browser.chromium.tab import Tab

_MOUSE = "Input.dispatchMouseEvent"
_KEY = "Input.dispatchKeyEvent"


async def move_mouse(tab: Tab, at: Mapping[str, float]) -> None:
    """Move the mouse to a point."""
    await tab.input((_MOUSE, {"type": "mouseMoved", **at}))


async def click(tab: Tab, at: Mapping[str, float]) -> None:
    """Click at a point with the mouse."""
    button = {**at, "button": "left", "clickCount": 1}
    await tab.input(
        (_MOUSE, {"type": "mouseMoved", **at}),
        (_MOUSE, {"type": "mousePressed", **button}),
        (_MOUSE, {"type": "mouseReleased", **button}),
    )


async def insert(tab: Tab, text: str) -> None:
    """Type text over the selection."""
    await tab.input(("Input.insertText", {"text": text}))


async def press(tab: Tab, key: Key) -> None:
    """Press and release a key."""
    down = {"type": "keyDown" if key.text else "rawKeyDown", **key.params()}
    await tab.input((_KEY, down), (_KEY, {"type": "keyUp", **key.params(), "text": ""}))
