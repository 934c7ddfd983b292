"""One mistake in a run's settings, and how all of them are told together."""

from collections.abc import Sequence
from dataclasses import dataclass

from agentfly.errors import ConfigError


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """What is wrong with one key.

    >>> str(Problem(key="train.steps", text="must be a whole number, got 'many'"))
    "train.steps: must be a whole number, got 'many'"
    """

    key: str
    """Where it is: `source.0.tasks` is the tasks of the first source."""
    text: str
    """What was wrong, what was expected and the way out."""

    def __str__(self) -> str:
        return f"{self.key}: {self.text}"


class SettingsError(ConfigError):
    """All mistakes of a run's settings.

    >>> raise SettingsError([Problem(key="name", text="missing")], "run.toml")
    Traceback (most recent call last):
    agentfly.config.problem.SettingsError: invalid settings in run.toml
      name: missing
    """

    def __init__(self, problems: Sequence[Problem], file: str | None) -> None:
        self.problems = tuple(dict.fromkeys(problems))
        where = f" in {file}" if file else ""
        super().__init__("\n  ".join([f"invalid settings{where}", *map(str, self.problems)]))


def refuse_if_any(problems: Sequence[Problem], file: str | None) -> None:
    """Raise one error that tells of all problems."""
    if problems:
        raise SettingsError(problems, file)
