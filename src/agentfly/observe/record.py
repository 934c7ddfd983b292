"""Trajectories and events as JSON objects, and back: what is read equals what was written.

Field names on disk are those of the dataclasses in `agentfly.types`. Floats are exact, images are
base64, tuples and enums come back as such. Text is exact too, but for one thing that JSON can't
say: a high surrogate right before a low one is read as the character that the two encode.
"""

from collections.abc import Iterator, Mapping
from functools import cache
from types import GenericAlias
from typing import Any, Generic, TypeVar

from pydantic import ConfigDict, TypeAdapter, ValidationError

from agentfly.errors import ConfigError, FormatError
from agentfly.runtime.journal import plain
from agentfly.types import Trajectory

FORMAT_VERSION = 1
"""Raised whenever a field is added, removed or changes its meaning; readers know all before it."""

T = TypeVar("T")


class Decoder(Generic[T]):
    """Reads one kind of dataclass from JSON values, checking every field.

    >>> from agentfly.types import Score
    >>> Decoder(Score).decode({"value": 0.1, "per_turn": [0.1]}, where="scores.jsonl:1")
    Score(value=0.1, parts={}, per_turn=(0.1,))
    """

    def __init__(self, of: type[T]) -> None:
        # A plain dataclass takes no config of its own: it inherits the one of the tuple.
        around: Any = GenericAlias(tuple, (of,))
        self._adapter: TypeAdapter[tuple[T]] = TypeAdapter(around, config=_CONFIG)

    def decode(self, record: Mapping[str, Any], *, where: str) -> T:
        """Read a record; `where` is named in errors, as file and line."""
        try:
            (value,) = self._adapter.validate_python((record,))
        except ValidationError as error:
            raise FormatError(f"{where}: {_problems(error)}") from error
        return value


_CONFIG = ConfigDict(extra="forbid", val_json_bytes="base64")


def _problems(error: ValidationError) -> str:
    """Say what is wrong where, for example `streams.0.turns.2.temperature: Field required`."""
    return "; ".join(
        f"{'.'.join(str(step) for step in problem['loc'][1:]) or 'record'}: {problem['msg']}"
        for problem in error.errors(include_url=False, include_input=False)
    )


def encode_trajectory(trajectory: Trajectory) -> dict[str, Any]:
    """Return a record for a journal; a ConfigError names what a user put in that it can't hold.

    As text: `json.dumps(encode_trajectory(trajectory), default=plain)`, with the journal's `plain`.
    """
    for where, value in _user_values(trajectory):
        require_json(value, f"chain {trajectory.chain_id!r}, {where}")
    record: dict[str, Any] = plain(trajectory)
    return record


def decode_trajectory(record: Mapping[str, Any], *, where: str) -> Trajectory:
    """Read back what `encode_trajectory` gave, once it has been through JSON."""
    return _decoder().decode(record, where=where)


@cache
def _decoder() -> Decoder[Trajectory]:
    """Build it at its first use: it takes longer than importing all the rest."""
    return Decoder(Trajectory)


def _user_values(trajectory: Trajectory) -> Iterator[tuple[str, object]]:
    yield "task.fields", trajectory.task.fields
    yield "metadata", trajectory.metadata
    for spec in trajectory.tools:
        yield f"tool {spec.name!r} parameters", spec.parameters
    for turn in trajectory.turns:
        for position, result in enumerate(turn.results):
            yield f"turn {turn.index} results[{position}].info", result.info


def require_json(value: object, where: str) -> None:
    """Refuse what a journal can't hold, naming where it is."""
    if isinstance(value, Mapping):
        for key, item in value.items():
            if not isinstance(key, str):
                raise _not_json(key, f"a key of {where}")
            require_json(item, f"{where}[{key!r}]")
    elif isinstance(value, list | tuple):
        for position, item in enumerate(value):
            require_json(item, f"{where}[{position}]")
    elif not (value is None or isinstance(value, str | int | float)):
        raise _not_json(value, where)


def _not_json(value: object, where: str) -> ConfigError:
    return ConfigError(
        f"{where} can't be saved: got a {type(value).__name__}, expected a JSON value (text keys; "
        "text, numbers, booleans, None, lists, dicts). Convert it where it is made"
    )
