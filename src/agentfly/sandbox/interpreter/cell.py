"""Run a cell: its statements, then its last expression, whose value is returned.

x = 20
x + 1        → 21
"""

import ast
import asyncio
import errno
import inspect
import linecache
import os
import traceback
from contextlib import suppress
from pathlib import Path
from types import CodeType
from typing import Any

from agentfly.sandbox.limits import SandboxLimits


class Cells:
    """The cells of one interpreter: they share their variables and their event loop."""

    def __init__(self, namespace: dict[str, Any]) -> None:
        self._namespace = namespace
        self._count = 0
        self._loop: asyncio.AbstractEventLoop | None = None

    def run(self, source: str) -> object:
        """Run a cell and return the value of its last expression; None if it ends otherwise."""
        self._count += 1
        name = f"<cell {self._count}>"
        # So that tracebacks can show the lines; None keeps them from being looked for on disk.
        lines = [f"{line}\n" for line in source.splitlines()]
        linecache.cache[name] = (len(source), None, lines, name)
        body = ast.parse(source, name)
        last = body.body[-1] if body.body else None
        if isinstance(last, ast.Expr):
            body.body.pop()
        if body.body:
            self._evaluate(compile(body, name, "exec", ast.PyCF_ALLOW_TOP_LEVEL_AWAIT))
        if not isinstance(last, ast.Expr):
            return None
        expression = ast.Expression(last.value)
        value = self._evaluate(compile(expression, name, "eval", ast.PyCF_ALLOW_TOP_LEVEL_AWAIT))
        if value is not None:
            self._namespace["_"] = value
        return value

    def _evaluate(self, code: CodeType) -> object:
        result = eval(code, self._namespace)
        return self._await(result) if code.co_flags & inspect.CO_COROUTINE else result

    def _await(self, coroutine: Any) -> object:
        """Run a cell with a top-level `await`, in an event loop that lives across cells."""
        if self._loop is None or self._loop.is_closed():
            self._loop = asyncio.new_event_loop()
            asyncio.set_event_loop(self._loop)
        task = self._loop.create_task(coroutine)
        try:
            return self._loop.run_until_complete(task)
        except KeyboardInterrupt:
            task.cancel()
            with suppress(asyncio.CancelledError):
                self._loop.run_until_complete(task)
            raise


def describe(error: BaseException) -> str:
    """Return the traceback without the frames of the interpreter itself.

    An exception whose own methods raise, or that is too deep or too large, is described by less.
    """
    for description in (_traceback, _summary):
        with suppress(BaseException):  # Foreign methods may raise anything.
            return description(error)
    return f"{_type_name(type(error))}: its message can't be shown\n"


def _traceback(error: BaseException) -> str:
    described = traceback.TracebackException.from_exception(error)
    _trim(described)
    return "".join(described.format())


def _summary(error: BaseException) -> str:
    return f"{_type_name(type(error))}: {error}\n"


_type_name = type.__dict__["__name__"].__get__
"""Returns a class's name even if its metaclass has other ideas."""
_OWN_FOLDER = f"{Path(__file__).parent}{os.sep}"


def _trim(described: traceback.TracebackException) -> None:
    """Cut off the interpreter's own frames: above the cell, and below it after an interrupt.

    Chains of exceptions can be longer than the stack is deep, so this does not recurse.
    """
    todo: list[traceback.TracebackException | None] = [described]
    while todo:
        if (one := todo.pop()) is None:
            continue
        frames = list(one.stack)
        inside = (i for i, frame in enumerate(frames) if frame.filename.startswith("<cell "))
        first = next(inside, len(frames))
        one.stack[:] = [f for f in frames[first:] if not f.filename.startswith(_OWN_FOLDER)]
        todo += [one.__cause__, one.__context__, *(getattr(one, "exceptions", None) or ())]


LIMIT_TEXTS = {
    "memory": "Memory limit: {memory_mb} MB. Use less at a time.",
    "processes": (
        "Process limit: {processes} processes and threads together. Start fewer, and wait for them."
    ),
    "file_size": "File size limit: {file_mb} MB. Write smaller files.",
    "disk": "Disk limit: {disk_mb} MB in at most {files} files. Delete what is not needed.",
    "output": "Output limit: a cell may print {output_mb} MB. Print less.",
}
"""One for each limit that code can meet and survive."""
_ERRORS = {
    errno.ENOMEM: "memory",
    errno.EAGAIN: "processes",
    errno.EFBIG: "file_size",
    errno.ENOSPC: "disk",
    errno.EDQUOT: "disk",
}
_MOST_LINKS = 100
"""Exceptions of a chain that are looked at."""


def limit_text(limit: str, limits: SandboxLimits) -> str:
    """Return the text about a limit that a model is shown.

    >>> limit_text("output", SandboxLimits(output_mb=2))
    'Output limit: a cell may print 2 MB. Print less.'
    """
    return LIMIT_TEXTS[limit].format(**limits.to_dict())


def limit_of(error: BaseException) -> str | None:
    """Recognize a limit in an exception, or in one that it comes from.

    This always returns, even if a foreign exception raises when it is inspected.

    >>> limit_of(OSError(28, "No space left on device"))
    'disk'
    """
    cause: BaseException | None = error
    for _ in range(_MOST_LINKS):
        if cause is None:
            return None
        try:
            if (limit := _limit_of_one(cause)) is not None:
                return limit
            cause = cause.__cause__ or cause.__context__
        except Exception:  # noqa: BLE001 - foreign attributes may raise anything
            return None
    return None


def _limit_of_one(error: BaseException) -> str | None:
    # By its true type, because `isinstance` trusts the object's own `__class__`.
    kind = type(error)
    if issubclass(kind, MemoryError):
        return "memory"
    if issubclass(kind, OSError):
        return _ERRORS.get(error.errno)  # type: ignore[attr-defined]
    if issubclass(kind, RuntimeError) and "can't start new thread" in str(error):
        return "processes"
    return None
