"""From a name in the settings to an algorithm.

Every name becomes a table of options first, and the options make the algorithm:

    grpo                        a table that is built in
    mine:Shaped                 a table of your own: a subclass of AlgorithmOptions
    mine:shaped                 a function marked with @advantage or @loss: its parameters with a
                                default are options, with those of the functions it is joined with
    mine:FINISHED               an Algorithm, which takes no options
"""

from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, ClassVar

from pydantic import ConfigDict, ValidationError, create_model
from pydantic_core import PydanticSerializationError

from agentfly.algorithms.algorithm import (
    AggregatedOptions,
    Algorithm,
    AlgorithmOptions,
    ClippedOptions,
)
from agentfly.algorithms.catalog import ALGORITHMS
from agentfly.algorithms.custom_functions import CustomAdvantage, CustomLoss
from agentfly.config import PluginKind, Settings, SettingsError
from agentfly.config.validation_errors import problems_of
from agentfly.errors import ConfigError, boundary
from agentfly.runtime.signature import MISSING


def make_algorithm(
    name: str, options: Mapping[str, Any] | None = None, *, base: Path | None = None
) -> Algorithm:
    """Make an algorithm by its name, by `module:name` of your own, or by an entry point.

    A function with `@advantage` gets PPO's clipped loss, and one with `@loss` the advantages of
    GRPO; an `Algorithm` is taken as it is.

    >>> make_algorithm("dapo").dynamic_sampling
    True
    >>> make_algorithm("grppo")
    Traceback (most recent call last):
    agentfly.errors.ConfigError: unknown algorithm 'grppo'. Did you mean 'grpo'? …

    Args:
        name: One of `ALGORITHMS`, an import path, or what an installed package brings.
        options: As in the settings: `{"clip": {"high": 0.28}}`.
        base: The folder of the settings that name it, where its module may be.
    """
    found = _KIND.find(name, base=base)
    if isinstance(found, Algorithm):
        return _as_it_is(found, name, options or {})
    chosen = _validated(_table(found), options or {})
    with boundary(ConfigError, f"making the algorithm {name}"):
        return replace(chosen.algorithm(), name=name)


def complete_options(
    name: str, options: Mapping[str, Any], *, base: Path | None = None
) -> dict[str, Any]:
    """Return an algorithm's options with the defaults of those that are not given.

    Options without a value, and defaults that a settings file can't hold, are left out.

    >>> complete_options("grpo", {"clip": {"high": 0.28}})["clip"]
    {'low': 0.2, 'high': 0.28}
    """
    found = _KIND.find(name, base=base)
    if isinstance(found, Algorithm):
        return {}
    chosen = _validated(_table(found), options)
    values: dict[str, Any] = {}
    for field in type(chosen).model_fields:
        # What is no value of JSON is an object of the user's own code.
        with suppress(PydanticSerializationError):
            values |= chosen.model_dump(mode="json", include={field}, exclude_none=True)
    return values


def _validated(table: type[AlgorithmOptions], options: Mapping[str, Any]) -> AlgorithmOptions:
    try:
        return table.model_validate(options)
    except ValidationError as error:
        raise SettingsError(problems_of(error, table, "algorithm"), None) from error


def _is_algorithm(value: Any) -> bool:
    is_table = isinstance(value, type) and issubclass(value, AlgorithmOptions)
    return is_table or isinstance(value, Algorithm | CustomAdvantage | CustomLoss)


_KIND: PluginKind[Algorithm | CustomAdvantage | CustomLoss | type[AlgorithmOptions]] = PluginKind(
    what="algorithm",
    group="agentfly.algorithms",
    builtin=ALGORITHMS,
    fits=_is_algorithm,
    way_out="an algorithm of your own is an Algorithm, a subclass of AlgorithmOptions, or a "
    "function marked with @advantage or @loss",
)


class _Known(Mapping[str, type[Settings]]):
    """Options of each algorithm; those of packages are imported when they are asked for."""

    def __getitem__(self, name: str) -> type[Settings]:
        found = _KIND.find(name)
        return Settings if isinstance(found, Algorithm) else _table(found)

    def __contains__(self, name: object) -> bool:
        return name in _KIND.builtin or name in _KIND.names()

    def __iter__(self) -> Iterator[str]:
        return iter(_KIND.names())

    def __len__(self) -> int:
        return len(_KIND.names())


KNOWN_ALGORITHMS: Mapping[str, type[Settings]] = _Known()
"""Every name, those of installed packages included, and what the algorithm of that name takes."""


def _as_it_is(found: Algorithm, name: str, given: Mapping[str, Any]) -> Algorithm:
    if given:
        raise ConfigError(
            f"{name} is a finished Algorithm, which takes no options: got {', '.join(given)}. "
            "Set them where it is made, or make it a subclass of AlgorithmOptions"
        )
    return found


def _table(found: CustomAdvantage | CustomLoss | type[AlgorithmOptions]) -> type[AlgorithmOptions]:
    if isinstance(found, CustomAdvantage):
        return _with_parameters(_advantage_table(found), found)
    if isinstance(found, CustomLoss):
        return _with_parameters(_loss_table(found), found)
    return found


def _advantage_table(own: CustomAdvantage) -> type[AlgorithmOptions]:
    class AdvantageOptions(ClippedOptions):
        model_config = ConfigDict(arbitrary_types_allowed=True)
        name: ClassVar[str] = own.name
        needs_group: ClassVar[bool] = own.needs_group

        def algorithm(self) -> Algorithm:
            filled = partial(own.function, **_chosen(self, ClippedOptions))
            return replace(super().algorithm(), advantage=replace(own, function=filled))

    return AdvantageOptions


def _loss_table(own: CustomLoss) -> type[AlgorithmOptions]:
    class LossOptions(AggregatedOptions):
        model_config = ConfigDict(arbitrary_types_allowed=True)
        name: ClassVar[str] = own.name

        def algorithm(self) -> Algorithm:
            filled = partial(own.function, **_chosen(self, AggregatedOptions))
            return replace(super().algorithm(), loss=replace(own, function=filled))

    return LossOptions


def _with_parameters(
    table: type[AlgorithmOptions], own: CustomAdvantage | CustomLoss
) -> type[AlgorithmOptions]:
    """Let the settings choose what a function's own parameters are.

    One that is called as an option of all algorithms keeps its default.
    """
    free = [parameter for parameter in own.options if not hasattr(table, parameter.name)]
    fields: dict[str, Any] = {
        parameter.name: (
            Any if parameter.annotation is MISSING else parameter.annotation,
            parameter.default,
        )
        for parameter in free
        if parameter.name not in table.model_fields
    }
    return create_model(own.name, __base__=table, **fields)


def _chosen(options: AlgorithmOptions, shared: type[AlgorithmOptions]) -> dict[str, Any]:
    """Return the values of a function's own parameters."""
    return {name: value for name, value in options if name not in shared.model_fields}
