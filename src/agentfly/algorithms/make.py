"""From a name in the settings to an algorithm."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

from pydantic import ValidationError

from agentfly.algorithms.algorithm import Algorithm
from agentfly.algorithms.catalogue import ALGORITHMS
from agentfly.algorithms.options import AggregatedOptions, AlgorithmOptions, ClippedOptions
from agentfly.algorithms.own import OwnAdvantage, OwnLoss
from agentfly.config import SettingsError, import_named, is_import_path
from agentfly.config.mistake import problems_of
from agentfly.errors import ConfigError
from agentfly.runtime.names import look_up

Table = TypeVar("Table", bound=AlgorithmOptions)


def make_algorithm(
    name: str, options: Mapping[str, Any] | None = None, *, base: Path | None = None
) -> Algorithm:
    """Make an algorithm by its name, or of your own by `module:name`.

    A function with `@advantage` gets PPO's clipped loss, and one with `@loss` the advantages of
    GRPO; an `Algorithm` is taken as it is.

    >>> make_algorithm("dapo").dynamic_sampling
    True
    >>> make_algorithm("grppo")
    Traceback (most recent call last):
    agentfly.errors.ConfigError: unknown algorithm 'grppo'. Did you mean 'grpo'? …

    Args:
        name: One of `ALGORITHMS`, or an import path.
        options: As in the settings: `{"clip": {"high": 0.28}}`.
        base: The folder of the settings that name it, where its module may be.
    """
    given = options or {}
    if not is_import_path(name):
        return _read(look_up(name, ALGORITHMS, "algorithm"), given).algorithm()
    found = import_named(name, "algorithm", base=base, fits=_is_algorithm)
    if isinstance(found, OwnAdvantage):
        joined = _read(ClippedOptions, given).algorithm()
        return replace(joined, name=found.name, advantage=found, needs_group=found.needs_group)
    if isinstance(found, OwnLoss):
        joined = _read(AggregatedOptions, given).algorithm()
        return replace(joined, name=found.name, loss=found)
    return _as_it_is(found, name, given)


def _read(table: type[Table], given: Mapping[str, Any]) -> Table:
    try:
        return table.model_validate(given)
    except ValidationError as error:
        raise SettingsError(problems_of(error, table, "algorithm"), None) from error


def _as_it_is(found: Any, name: str, given: Mapping[str, Any]) -> Algorithm:
    if not isinstance(found, Algorithm):
        raise ConfigError(
            f"{name} is a {type(found).__name__}: an algorithm of your own is an Algorithm, or a "
            "function marked with @advantage or @loss"
        )
    if given:
        raise ConfigError(
            f"{name} is a finished Algorithm, which takes no options: got {', '.join(given)}. "
            "Set them where it is made"
        )
    return found


def _is_algorithm(value: Any) -> bool:
    return isinstance(value, Algorithm | OwnAdvantage | OwnLoss)
