"""Runs test programs inside a sandbox, where the code under test is not: standard library only.

A test runs in a thread. When it calls the code, the thread waits, and the call goes out as the
value of a cell; the next cell brings the answer in:

    begin("assert f(3) == 9")         → ("called", "f", (3,), {})
    go_on(("returned", 9))            → ("passed",)
"""

import builtins
import queue
import threading
from collections.abc import Callable, Iterable
from typing import Any

Event = tuple[Any, ...]


class Examiner:
    """Holds the tests' variables and one running test."""

    def __init__(self, setup: str, names: Iterable[str], entry_point: str | None) -> None:
        self._asked: queue.Queue[Event] = queue.Queue()
        self._answers: queue.Queue[Event] = queue.Queue()
        self._namespace: dict[str, Any] = {"__name__": "tests"}
        for name in names:
            self._namespace[name] = self._stand_in(name)
        exec(setup, self._namespace)
        if entry_point is not None:  # What the setup may hold of it is a mere outline.
            self._namespace[entry_point] = self._stand_in(entry_point)

    def begin(self, source: str) -> Event:
        """Start a test; return its first call, or how it ended."""
        threading.Thread(target=self._run, args=(source,), daemon=True).start()
        return self._asked.get()

    def go_on(self, answer: Event) -> Event:
        """Answer the last call; return the next one, or how the test ended."""
        self._answers.put(answer)
        return self._asked.get()

    def _run(self, source: str) -> None:
        try:
            exec(source, self._namespace)
        except BaseException as error:  # noqa: BLE001 - whatever it is, the test has failed
            self._asked.put(("failed", f"{type(error).__name__}: {error}"))
        else:
            self._asked.put(("passed",))

    def _stand_in(self, name: str) -> Callable[..., Any]:
        def ask(*args: object, **kwargs: object) -> object:
            self._asked.put(("called", name, args, kwargs))
            how, what = self._answers.get()
            if how == "returned":
                return what
            kind, _, text = what.partition(": ")
            raise _exception(kind)(text)

        return ask


def _exception(name: str) -> type[Exception]:
    kind = getattr(builtins, name, RuntimeError)
    return kind if isinstance(kind, type) and issubclass(kind, Exception) else RuntimeError
