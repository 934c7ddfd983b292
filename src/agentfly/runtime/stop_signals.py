"""SIGTERM and SIGHUP handled as Ctrl-C is: a run that is stopped saves what it has learned.

Schedulers, containers and `timeout` end a process by SIGTERM, a closed terminal by SIGHUP. Both
call the handler of Ctrl-C, whichever is installed at that moment, so nothing else has to know them.
"""

import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

CTRL_C = 128 + signal.SIGINT
"""Exit code of a process that Ctrl-C has ended."""


class StopSignal:
    """The signal that has stopped a run, if any but Ctrl-C did."""

    def __init__(self) -> None:
        self.received: signal.Signals | None = None
        self._terminals = [number for number in (1, 2) if os.isatty(number)]

    @property
    def exit_code(self) -> int:
        """Exit code by the shell's convention: 143 for SIGTERM, 129 for SIGHUP, else 130."""
        return CTRL_C if self.received is None else 128 + self.received

    def handle(self, number: int, frame: FrameType | None) -> None:
        """Call the handler of Ctrl-C, once: `timeout` sends its signal twice.

        Inside `asyncio.run` that handler cancels the main task. A KeyboardInterrupt raised at any
        line of any task or finalizer could be lost there.
        """
        if self.received is not None:
            return
        self.received = signal.Signals(number)
        if self.received is signal.SIGHUP:
            self._leave_terminal()
        handler = signal.getsignal(signal.SIGINT)
        (handler if callable(handler) else signal.default_int_handler)(number, frame)

    def _leave_terminal(self) -> None:
        """Write to nowhere: a line to a closed terminal raises, and would end the saving."""
        nowhere = os.open(os.devnull, os.O_WRONLY)
        for terminal in self._terminals:
            os.dup2(nowhere, terminal)
        os.close(nowhere)


@contextmanager
def stop_signals() -> Iterator[StopSignal]:
    """Handle SIGTERM and SIGHUP as Ctrl-C, unless they are ignored (nohup) or handled already.

    Does nothing outside the main thread, which alone may install handlers.
    """
    stop = StopSignal()
    before = {number: signal.getsignal(number) for number in _stop_numbers()}
    for number, handler in before.items():
        if handler is signal.SIG_DFL:
            signal.signal(number, stop.handle)
    try:
        yield stop
    finally:
        for number, handler in before.items():
            if handler is signal.SIG_DFL:
                signal.signal(number, handler)


@contextmanager
def exit_on_stop_signals() -> Iterator[None]:
    """Raise SystemExit instead of KeyboardInterrupt after SIGTERM or SIGHUP, for users' scripts."""
    with stop_signals() as stop:
        try:
            yield
        except KeyboardInterrupt as error:
            if stop.received is None:
                raise
            raise SystemExit(stop.exit_code) from error


def _stop_numbers() -> tuple[signal.Signals, ...]:
    if threading.current_thread() is not threading.main_thread():
        return ()
    return tuple(signal.Signals[name] for name in ("SIGTERM", "SIGHUP") if hasattr(signal, name))
