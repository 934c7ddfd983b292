"""Lookup of parts by name: tools, engines, environments and all others that settings can name.

A name has one of three forms:

    calculator          built in
    my_tools:search     `module:name` of a file next to the settings, or of an installed package
    wordle              an entry point of an installed package, in the group `agentfly.environments`

A package registers its environments in its pyproject.toml:

    [project.entry-points."agentfly.environments"]
    wordle = "wordle_agents.environment:WORDLE"
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from typing import Any, Generic, TypeVar

from agentfly.config.import_path import import_named
from agentfly.errors import ConfigError, boundary
from agentfly.runtime.names import suggestion

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class PluginKind(Generic[T]):
    """One kind of part that is looked up by name, such as tools or engines.

    >>> kind = PluginKind(what="tool", group="agentfly.tools", builtin={"pi": "math:pi"})
    >>> kind.find("pi")
    3.141592653589793
    >>> kind.find("pie")
    Traceback (most recent call last):
    agentfly.errors.ConfigError: unknown tool 'pie'. Did you mean 'pi'? Known: pi. …
    """

    what: str
    """Noun for error messages: "tool"."""
    group: str | None = None
    """Group of entry points: "agentfly.tools"; None if packages can't add to this kind."""
    builtin: Mapping[str, Any] = field(default_factory=dict)
    """Built-in parts by name: the part itself, or its `module:name`, which is imported on first
    use. Packages can't replace them."""
    fits: Callable[[Any], bool] = lambda _: True
    """Check of whether a value is such a part."""
    way_out: str = ""
    """Advice for a value that is not such a part: "decorate it with @tool"."""

    def find(self, name: str, *, base: Path | None = None) -> T:
        """Return the part of a name; raise ConfigError for an unknown name.

        Args:
            name: Name of a built-in part, `module:name`, or the name of an entry point.
            base: Folder of the settings file, where modules are looked up first.
        """
        if name in self.builtin:
            return self._built_in(name)
        found = self._imported(name, base) if ":" in name else self._installed(name)
        if not self.fits(found):
            kind = type(found).__name__
            raise ConfigError(f"{name} is no {self.what}, but of type {kind}: {self.way_out}")
        part: T = found
        return part

    def names(self) -> list[str]:
        """Return all names: the built-in ones in their order, then those of installed packages."""
        return [*self.builtin, *sorted(self.packages().keys() - self.builtin.keys())]

    def packages(self) -> dict[str, str]:
        """Return the installed package of each entry point."""
        return {point.name: _package(point) for point in self._entry_points()}

    def _built_in(self, name: str) -> T:
        value = self.builtin[name]
        part: T = self._imported(value, None) if isinstance(value, str) else value
        return part

    def _imported(self, path: str, base: Path | None) -> Any:
        return import_named(path, self.what, base=base, fits=self.fits)

    def _installed(self, name: str) -> Any:
        named = [point for point in self._entry_points() if point.name == name]
        if not named:
            raise ConfigError(
                f"unknown {self.what} {name!r}. {suggestion(name, self.names())} "
                "One of your own is named module:name"
            )
        if len({point.value for point in named}) > 1:
            both = " and ".join(f"{_package(point)} ({point.value})" for point in named)
            raise ConfigError(
                f"several packages bring a {self.what} {name!r}: {both}. Name the one you mean by "
                "its module:name"
            )
        with boundary(ConfigError, f"loading the {self.what} {name!r} of {_package(named[0])}"):
            return named[0].load()

    def _entry_points(self) -> tuple[EntryPoint, ...]:
        return tuple(entry_points(group=self.group)) if self.group else ()


def _package(point: EntryPoint) -> str:
    return point.dist.name if point.dist else "an unknown package"
