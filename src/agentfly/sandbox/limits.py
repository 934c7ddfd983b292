"""Limits on what code in a sandbox may use."""

from dataclasses import dataclass, fields
from typing import Any

from agentfly.errors import ConfigError


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class SandboxLimits:
    """Limits of one sandbox. Hashable, so that it can be an option of an environment's spec.

    >>> SandboxLimits(seconds=5)
    SandboxLimits(seconds=5)
    >>> SandboxLimits(seconds=0)
    Traceback (most recent call last):
    agentfly.errors.ConfigError: a sandbox's seconds must be positive, got 0
    """

    seconds: float = 10.0
    """Wall time of one cell or command."""
    grace_seconds: float = 1.0
    """From the interrupt of a cell that ran too long, which keeps its variables, to the kill."""
    cpu_seconds: int = 600
    """CPU time of any one process, over its whole life."""
    memory_mb: int = 512
    """Beyond what the preloaded packages take: of each process, and of all together."""
    processes: int = 32
    """Processes and threads together."""
    file_mb: int = 32
    """Maximum size of one file."""
    disk_mb: int = 64
    """All files of the scratch folder together."""
    files: int = 4096
    """Maximum number of files and folders."""
    output_chars: int = 20_000
    """Maximum characters shown of each of stdout, stderr and the value; the middle is left out."""
    output_mb: int = 1
    """Maximum that one cell may print; beyond it, printing raises."""

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            if value <= 0:
                raise ConfigError(f"a sandbox's {field.name} must be positive, got {value!r}")

    def __repr__(self) -> str:
        """Show only what differs from the defaults: it is part of names that people read."""
        values = ((field, getattr(self, field.name)) for field in fields(self))
        shown = ", ".join(f"{f.name}={value!r}" for f, value in values if value != f.default)
        return f"SandboxLimits({shown})"

    def to_dict(self) -> dict[str, Any]:
        """Return plain values, as sent to the sandbox."""
        return {field.name: getattr(self, field.name) for field in fields(self)}
