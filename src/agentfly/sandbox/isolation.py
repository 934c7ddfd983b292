"""The levels of isolation, best first."""

from enum import StrEnum


class Isolation(StrEnum):
    """What stands between foreign code and this machine."""

    WARM = "warm"
    """A fork server with namespaces, Landlock, seccomp, limits and a quota: the default."""
    WARM_WITHOUT_LANDLOCK = "warm-without-landlock"
    """The same on a kernel without Landlock: one wall less around the files."""
    BUBBLEWRAP = "bubblewrap"
    """`bwrap`, with a fresh interpreter in each: where the first can't be had."""
    DOCKER = "docker"
    """By choice: a container for each, which needs a daemon."""
    PODMAN = "podman"
    """By choice: the same without a daemon."""
    UNSAFE = "unsafe"
    """None at all: only for code that you would run yourself."""
