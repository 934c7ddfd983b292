"""One mistake in a run's settings, and how all of them are told together."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import ParamSpec, TypeVar

from agentfly.errors import ConfigError

P = ParamSpec("P")
T = TypeVar("T")


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


class Problems:
    """Collects what is wrong, so that all of it can be told at once.

    >>> problems = Problems("source.0.")
    >>> problems.tried("weight", float, "0.5")
    0.5
    >>> problems.found
    []
    """

    def __init__(self, prefix: str = "", found: list[Problem] | None = None) -> None:
        self.found: list[Problem] = [] if found is None else found
        self._prefix = prefix

    def under(self, prefix: str) -> "Problems":
        """Return a view whose keys begin with another prefix."""
        return Problems(f"{self._prefix}{prefix}", self.found)

    def add(self, *problems: Problem) -> None:
        """Note problems whose keys lack the prefix."""
        self.found += [replace(one, key=f"{self._prefix}{one.key}") for one in problems]

    def tried(self, key: str, find: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T | None:
        """Call a function; what it refuses is noted, and gives None."""
        try:
            return find(*args, **kwargs)
        except SettingsError as error:
            self.add(*error.problems)
        except ConfigError as error:
            self.add(Problem(key=key, text=str(error)))
        return None


def refuse_if_any(problems: Sequence[Problem], file: str | None) -> None:
    """Raise one error that tells of all problems."""
    if problems:
        raise SettingsError(problems, file)
