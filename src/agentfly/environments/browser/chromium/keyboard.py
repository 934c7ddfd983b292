"""Keys by name, as the protocol takes them."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

_SHIFT = 8
_MODIFIERS = {"alt": 1, "control": 2, "ctrl": 2, "meta": 4, "shift": _SHIFT}
NAMED_KEYS = {
    "Enter": ("\r", 13),
    "Tab": ("", 9),
    "Escape": ("", 27),
    "Backspace": ("", 8),
    "Delete": ("", 46),
    "Space": (" ", 32),
    "ArrowLeft": ("", 37),
    "ArrowUp": ("", 38),
    "ArrowRight": ("", 39),
    "ArrowDown": ("", 40),
    "Home": ("", 36),
    "End": ("", 35),
    "PageUp": ("", 33),
    "PageDown": ("", 34),
}
"""Text and code of the keys with a name; every other key is named by its character."""
FUNCTION_KEYS = {f"F{number}": ("", 111 + number) for number in range(1, 13)}
"""Text and code of the function keys."""
_NAMED = {**NAMED_KEYS, **FUNCTION_KEYS}
_COMMANDS = {("a", 2): "selectAll", ("c", 2): "copy", ("v", 2): "paste", ("x", 2): "cut"}
"""Shortcuts of editing, which headless Chromium performs only as commands."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Key:
    """A key with its modifiers."""

    key: str
    code: int
    text: str = ""
    modifiers: int = 0
    commands: tuple[str, ...] = ()

    def params(self) -> Mapping[str, Any]:
        """Return the parameters of a key event."""
        return {
            "key": self.key,
            "code": self.key if self.key in _NAMED else "",
            "windowsVirtualKeyCode": self.code,
            "modifiers": self.modifiers,
            "text": self.text,
            "commands": list(self.commands),
        }


def parse_key(name: str) -> Key | None:
    """Return the key of a name such as `Enter`, `a` or `Control+a`; None if there is none.

    >>> parse_key("Control+a").commands, parse_key("down").key, parse_key("Hyper")
    (('selectAll',), 'ArrowDown', None)
    >>> parse_key("Shift+a").text
    'A'
    """
    *held, last = name.split("+") if name.strip() != "+" else ["+"]
    last = "Space" if last == " " else last.strip()
    if not last or any(one.strip().lower() not in _MODIFIERS for one in held):
        return None
    modifiers = 0
    for one in held:
        modifiers |= _MODIFIERS[one.strip().lower()]
    return _key(last, modifiers)


def _key(name: str, modifiers: int) -> Key | None:
    if len(name) == 1:
        key = name.upper() if modifiers & _SHIFT else name
        text = "" if modifiers & ~_SHIFT else key
        command = _COMMANDS.get((name.lower(), modifiers))
        commands = (command,) if command else ()
        # The codes of other characters are those of keys without text: 46, a full stop, is Delete.
        code = ord(name.upper()) if name.isascii() and name.isalnum() else 0
        return Key(key=key, code=code, text=text, modifiers=modifiers, commands=commands)
    known = {one.lower().removeprefix("arrow"): one for one in _NAMED}
    known |= {one.lower(): one for one in _NAMED} | {"esc": "Escape"}
    found = known.get(name.lower().replace(" ", ""))
    if found is None:
        return None
    text, code = _NAMED[found]
    key = " " if found == "Space" else found
    return Key(key=key, code=code, text="" if modifiers & ~_SHIFT else text, modifiers=modifiers)
