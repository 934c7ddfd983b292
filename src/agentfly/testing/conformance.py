"""How a checker reports: everything that is wrong at once, in words that say what to mend."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from agentfly.errors import AgentFlyError


class ConformanceError(AgentFlyError, AssertionError):
    """Something doesn't keep the contract of its seam."""


@dataclass(slots=True)
class Findings:
    """Collects what is wrong."""

    what: str
    wrong: list[str] = field(default_factory=list)

    def expect(self, holds: object, otherwise: str) -> None:
        """Note a breach unless the claim holds."""
        if not holds:
            self.wrong.append(otherwise)

    @contextmanager
    def no_error(self, doing: str) -> Iterator[None]:
        """Note whatever the body raises."""
        try:
            yield
        except Exception as error:  # noqa: BLE001 - reported with all other findings
            self.wrong.append(f"{doing} raised {type(error).__name__}: {error}")

    @contextmanager
    def error(self, kind: type[BaseException], doing: str) -> Iterator[None]:
        """Note if the body doesn't raise this kind of error."""
        try:
            yield
        except kind:
            return
        except Exception as error:  # noqa: BLE001 - reported with all other findings
            self.wrong.append(
                f"{doing} must raise {kind.__name__}, but raised {type(error).__name__}: {error}"
            )
        else:
            self.wrong.append(f"{doing} must raise {kind.__name__}, but raised nothing")

    def report(self) -> None:
        """Raise ConformanceError if anything was wrong."""
        if self.wrong:
            lines = "".join(f"\n  - {line}" for line in self.wrong)
            raise ConformanceError(f"{self.what} breaks its contract:{lines}")
