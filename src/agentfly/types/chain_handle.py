"""Link to a chain while it runs: what it is doing, and a way to end it early."""

import time
from collections.abc import Callable
from dataclasses import dataclass, field

from agentfly.types.stop_reason import StopReason


@dataclass(slots=True, eq=False)
class ChainHandle:
    """Link between a running chain, which reports to it, and others that may end the chain.

    >>> handle = ChainHandle()
    >>> handle.report("tool 'search' in turn 2")
    >>> handle.stop(StopReason.SURPLUS)
    >>> handle.stopped, handle.doing
    (<StopReason.SURPLUS: 'surplus'>, "tool 'search' in turn 2")
    """

    _doing: str | Callable[[], str] = field(default="nothing yet", init=False)
    since: float = field(default_factory=time.monotonic)
    """Time of the last report, on the system's monotonic clock."""
    stopped: StopReason | None = None
    """Reason to end early, if any."""
    error: str | None = None
    on_stop: Callable[[], None] | None = None
    """Ends the conversation; set by the chain while it can be ended."""

    def report(self, doing: str | Callable[[], str]) -> None:
        """Note what the chain does from now on; a function is called where someone asks for it."""
        self._doing = doing
        self.since = time.monotonic()

    @property
    def doing(self) -> str:
        """Description of what the chain does."""
        return self._doing if isinstance(self._doing, str) else self._doing()

    def early_end(self) -> tuple[StopReason, str | None] | None:
        """Return why to end early, and the error if it is a failure; None to go on."""
        return None if self.stopped is None else (self.stopped, self.error)

    def retry(self) -> None:
        """Forget that a stall has ended the attempt before; other reasons to stop remain."""
        if self.stopped is StopReason.STALLED:
            self.stopped, self.error = None, None

    def stop(self, reason: StopReason, error: str | None = None) -> None:
        """Ask the chain to end with this reason; the first one counts."""
        if self.stopped is None:
            self.stopped, self.error = reason, error
            if self.on_stop is not None:
                self.on_stop()
