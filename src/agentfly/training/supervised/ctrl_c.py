"""Ctrl-C that waits for the step that is under way."""

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager


@contextmanager
def ctrl_c_waits(tell: Callable[[str], None]) -> Iterator[None]:
    """Let Ctrl-C take effect after the block: half an update leaves weights that belong to no step.

    Pressed once more, it takes effect at once. Whoever has a handler of their own keeps it.
    """
    in_main_thread = threading.current_thread() is threading.main_thread()
    if not in_main_thread or signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
        yield
        return
    pressed = False

    def note(*_: object) -> None:
        nonlocal pressed
        pressed = True
        signal.signal(signal.SIGINT, signal.default_int_handler)
        tell("stopping after this step; Ctrl-C once more stops at once")

    signal.signal(signal.SIGINT, note)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    if pressed:
        raise KeyboardInterrupt
