"""The kernel's limit on open files: raised as far as it goes, and explained where it is met."""

import errno
import resource

MOST_USEFUL = 1 << 16
"""No process of ours needs more, and some hard limits are so high that a loop over them hangs."""
WAY_OUT = (
    "keep fewer sandboxes at a time, or raise the limit (`ulimit -n` in the shell, `LimitNOFILE=` "
    "of a service, `--ulimit nofile=` of a container)"
)


def raise_limit() -> int:
    """Raise the soft limit of this process to its hard one; return what is in force then."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = MOST_USEFUL if hard == resource.RLIM_INFINITY else min(hard, MOST_USEFUL)
    if soft == resource.RLIM_INFINITY or soft >= wanted:
        return limit()
    resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
    return wanted


def limit() -> int:
    """Return how many files this process may have open."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return MOST_USEFUL if soft == resource.RLIM_INFINITY else soft


def explain(error: BaseException) -> str | None:
    """Return the way out of an error that means "no descriptor is left"; None for any other."""
    cause = error if isinstance(error, OSError) else error.__cause__
    number = cause.errno if isinstance(cause, OSError) else None
    if number == errno.EMFILE:
        return f"this process has reached its limit of {limit()} open files: {WAY_OUT}"
    if number == errno.ENFILE:
        return "the whole machine has reached its limit of open files: raise fs.file-max"
    return None
