"""Runs test programs in a sandbox without the code under test: standard library only.

A test runs in a thread. When it calls the code, the thread waits, and the call goes out as the
value of a cell; the next cell brings the answer in:

    start("assert f(3) == 9")         → ("called", "f", "f(3, )")
    resume(("returned", 9))           → ("passed",)

An exception of the code fails the test unless the test itself catches it, by `except` or `with`.
Python hides some silently: `all(map(f, …))` takes a StopIteration for the end of the list. So test
programs are compiled with hooks in their handlers, and an exception that no handler saw is a
failure.
"""

import ast
import builtins
import queue
import sys
import threading
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import Any, NoReturn

from agentfly.environments.code.judging.stand_ins import Kept, stand_in
from agentfly.environments.code.judging.writing import (
    MAX_CHARACTERS,
    UnsendableError,
    is_too_large,
    write_value,
)

Event = tuple[Any, ...]

_HELPERS = {("unittest", "handle"), ("_pytest", "raises")}
"""Functions that call the code and catch what it raises: `assertRaises(ValueError, f, 1)`."""
_CAUGHT, _WATCHED = "__caught__", "__watched__"


class CodeFailedError(BaseException):
    """The code gave no answer; a BaseException, so that no `except Exception` hides it."""


class Examiner:
    """Holds the tests' variables and one running test."""

    def __init__(self, setup: str, names: Iterable[str], entry_point: str | None) -> None:
        self._test: _Test | None = None
        self._namespace: dict[str, Any] = {
            "__name__": "tests",
            _CAUGHT: lambda: self._note_caught(sys.exc_info()[1]),
            _WATCHED: lambda manager: _Watched(manager, self._note_caught),
        }
        for name in names:
            self._namespace[name] = self._proxy(name)
        exec(_marked(setup), self._namespace)
        if entry_point is not None:  # The setup may contain only an outline of it.
            self._namespace[entry_point] = self._proxy(entry_point)

    def start(self, source: str, builtin_names: Iterable[str] = ()) -> Event:
        """Start a test; return its first call, or its result.

        A test of functions that are named like built-in ones has variables of its own.
        """
        proxies = {name: self._proxy(name) for name in builtin_names}
        namespace = {**self._namespace, **proxies} if proxies else self._namespace
        self._test = _Test(_marked(source), namespace)
        return self._test.start()

    def resume(self, answer: Event) -> Event:
        """Answer the last call; return the next one, or the result of the test."""
        assert self._test is not None, "started before"
        return self._test.resume(answer)

    def _proxy(self, name: str) -> Callable[..., Any]:
        def ask(*args: object, **kwargs: object) -> object:
            return self._ask(name, "({})", *args, **kwargs)

        return ask

    def _ask(self, target: str, form: str, *args: object, **kwargs: object) -> Any:
        if self._test is None:
            raise RuntimeError(f"{target} is called before any test runs")
        answer = self._test.ask(target, form, args, kwargs)
        return stand_in(answer, self._ask) if isinstance(answer, Kept) else answer

    def _note_caught(self, error: BaseException | None) -> None:
        if self._test is not None:
            self._test.note_caught(error)


class _Test:
    """One test in its thread."""

    def __init__(self, program: Any, namespace: dict[str, Any]) -> None:
        self._program = program
        self._namespace = namespace
        self._events: queue.Queue[Event] = queue.Queue()
        self._answers: queue.Queue[Event] = queue.Queue()
        self._one_call = threading.Lock()
        self._failed: str | None = None
        self._raised: list[Exception] = []
        """Exceptions of the code."""
        self._caught: dict[int, BaseException] = {}
        """Exceptions that were caught, by id; stored so that their ids are not reused."""

    def start(self) -> Event:
        threading.Thread(target=self._run, daemon=True).start()
        return self._events.get()

    def resume(self, answer: Event) -> Event:
        self._answers.put(answer)
        return self._events.get()

    def ask(self, target: str, form: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> object:
        """Forward a call to the code, and return or raise its result."""
        with self._one_call:
            how, what = self._answer_to(target, form, args, kwargs)
        if how == "returned":
            return what
        if how == "kept":
            return Kept._make((*what, self.fail))
        if how == "failed":
            self.fail(what)
        error = _exception(*what)
        self._raised.append(error)
        if not isinstance(error, (StopIteration, StopAsyncIteration)) and _is_called_by_helper():
            self.note_caught(error)
        raise error

    def fail(self, problem: str) -> NoReturn:
        """End the test; whatever it catches, it has failed."""
        self._failed = self._failed or problem
        raise CodeFailedError(problem)

    def note_caught(self, error: BaseException | None) -> None:
        """Record that the test has caught an exception, with its causes."""
        while error is not None and id(error) not in self._caught:
            self._caught[id(error)] = error
            for inner in getattr(error, "exceptions", ()):
                self.note_caught(inner)
            error = error.__cause__ or error.__context__

    def _answer_to(
        self, target: str, form: str, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Event:
        if self._failed is not None:
            return "failed", self._failed
        try:
            written = _written(args, kwargs)
        except UnsendableError as error:
            self._events.put(("unsendable", f"{error.args[0]!r:.80}"))
        except ValueError:
            return "failed", f"{target} is given a value that is too large to be sent"
        else:
            self._events.put(("called", target, form.format(written)))
        return self._answers.get()

    def _run(self) -> None:
        problem = None
        try:
            exec(self._program, self._namespace)
        except BaseException as error:  # noqa: BLE001 - on any error the test has failed
            problem = _said(error)
        problem = self._failed or problem or self._unnoticed()
        self._events.put(("passed",) if problem is None else ("failed", problem))

    def _unnoticed(self) -> str | None:
        """Return an exception of the code that the test did not catch and did not pass on."""
        for error in self._raised:
            if id(error) not in self._caught:
                return _said(error)
        return None


class _Watched:
    """A context manager of a test; notes which exceptions it catches."""

    def __init__(self, manager: Any, note: Callable[[BaseException | None], None]) -> None:
        self._manager = manager
        self._note = note

    def __enter__(self) -> object:
        return type(self._manager).__enter__(self._manager)

    def __exit__(self, kind: object, error: BaseException | None, traceback: object) -> bool:
        caught = bool(type(self._manager).__exit__(self._manager, kind, error, traceback))
        if caught:
            self._note(error)
        return caught


class _Marks(ast.NodeTransformer):
    """Makes every `except` and `with` of a program record what it catches."""

    def visit_ExceptHandler(self, node: ast.ExceptHandler) -> ast.AST:
        self.generic_visit(node)
        node.body.insert(0, ast.Expr(_call(_CAUGHT)))
        return node

    def visit_With(self, node: ast.With) -> ast.AST:
        self.generic_visit(node)
        for item in node.items:
            item.context_expr = _call(_WATCHED, item.context_expr)
        return node


def _call(name: str, *args: ast.expr) -> ast.Call:
    return ast.Call(func=ast.Name(id=name, ctx=ast.Load()), args=list(args), keywords=[])


def _marked(source: str) -> Any:
    tree = ast.fix_missing_locations(_Marks().visit(ast.parse(source)))
    return compile(tree, "<test>", "exec")


def _is_called_by_helper() -> bool:
    """Return whether a test framework made this call to catch an exception."""
    frame = sys._getframe()
    while (caller := frame.f_back) is not None:
        package = str(caller.f_globals.get("__name__")).partition(".")[0]
        if (package, caller.f_code.co_name) in _HELPERS:
            return True
        frame = caller
    return False


def _written(args: tuple[Any, ...], kwargs: dict[str, Any]) -> str:
    """Write arguments; ValueError if they are too large, or have too many digits."""
    if is_too_large((*args, *kwargs.values()), MAX_CHARACTERS):
        raise ValueError
    given = [write_value(arg) for arg in args]
    given += [f"{key}={write_value(value)}" for key, value in kwargs.items()]
    written = ", ".join(given)
    if len(repr(written)) > MAX_CHARACTERS:
        raise ValueError
    return written


def _exception(name: str, args: tuple[Any, ...], message: str) -> Exception:
    """Make a built-in exception with these arguments if it then says the message.

    Otherwise the message is its argument.
    """
    kind = getattr(builtins, name)
    for given in (args, (message,)):
        with suppress(Exception):  # Some take several arguments, of certain types.
            error: Exception = kind(*given)
            if str(error) == message:
                return error
    return _saying(kind, message)


def _saying(kind: type[Exception], message: str) -> Exception:
    """Make an exception of a class that would not take or not say a message."""
    own = {"__init__": lambda self, *args: None, "__str__": lambda self: message}
    try:
        error: Exception = type(kind.__name__, (kind,), own)(message)
    except TypeError:  # A group of exceptions, which are not known here.
        return Exception(message)
    return error


def _said(error: BaseException) -> str:
    with suppress(Exception):  # A message may be an integer of too many digits.
        return f"{type(error).__name__}: {error}"
    return type(error).__name__
