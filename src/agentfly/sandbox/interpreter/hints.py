"""Which of the sandbox's limits an exception comes from, and what to tell the model of it."""

import errno
from typing import NamedTuple

from agentfly.sandbox.limits import SandboxLimits


class Hint(NamedTuple):
    """A limit that was met."""

    limit: str
    text: str


def output(limits: SandboxLimits) -> Hint:
    """Return the hint for a flood of output."""
    return Hint("output", f"Output limit: a cell may print {limits.output_mb} MB. Print less.")


def of(error: BaseException, limits: SandboxLimits) -> Hint | None:
    """Recognise a limit in an exception, or in one that it comes from.

    >>> of(OSError(28, "No space left on device"), SandboxLimits()).limit
    'disk'
    """
    seen: set[int] = set()
    cause: BaseException | None = error
    while cause is not None and id(cause) not in seen:
        if (hint := _of_one(cause, limits)) is not None:
            return hint
        seen.add(id(cause))
        cause = cause.__cause__ or cause.__context__
    return None


def _of_one(error: BaseException, limits: SandboxLimits) -> Hint | None:
    number = error.errno if isinstance(error, OSError) else None
    if isinstance(error, MemoryError) or number == errno.ENOMEM:
        return Hint("memory", f"Memory limit: {limits.memory_mb} MB. Use less at a time.")
    if number == errno.EAGAIN or "can't start new thread" in str(error):
        text = f"Process limit: {limits.processes} processes and threads together."
        return Hint("processes", f"{text} Start fewer, and wait for them.")
    if number == errno.EFBIG:
        return Hint("file_size", f"File size limit: {limits.file_mb} MB. Write smaller files.")
    if number in (errno.ENOSPC, errno.EDQUOT):
        text = f"Disk limit: {limits.disk_mb} MB in at most {limits.files} files."
        return Hint("disk", f"{text} Delete what is not needed.")
    return None
