"""Find the limit that an exception comes from, and explain it to the model."""

import errno

from agentfly.sandbox.limits import SandboxLimits

TEXTS = {
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


def text(limit: str, limits: SandboxLimits) -> str:
    """Return the text about a limit that a model is shown.

    >>> text("output", SandboxLimits(output_mb=2))
    'Output limit: a cell may print 2 MB. Print less.'
    """
    return TEXTS[limit].format(**limits.to_dict())


def limit_of(error: BaseException) -> str | None:
    """Recognize a limit in an exception, or in one that it comes from.

    Whatever a foreign exception does when it is looked at, this returns.

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
    # By its true type, because `isinstance` believes what an object says of its class.
    kind = type(error)
    if issubclass(kind, MemoryError):
        return "memory"
    if issubclass(kind, OSError):
        return _ERRORS.get(error.errno)  # type: ignore[attr-defined]
    if issubclass(kind, RuntimeError) and "can't start new thread" in str(error):
        return "processes"
    return None
