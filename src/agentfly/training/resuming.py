"""Whether a run may be resumed with settings other than those it was started with."""

import tomllib
from collections.abc import Iterator
from typing import Any

from agentfly.errors import ConfigError

MAY_CHANGE = (
    "folder",
    "name",
    "checkpoint.",
    "environments.",
    "eval.",
    "model.gradient_checkpointing",
    "track.",
    "train.evaluate_every",
    "train.share_prefixes",
    "train.steps",
    "train.target_",
    "train.tokens_per_microbatch",
    "rollout.max_concurrent",
    "rollout.max_failed_share",
    "rollout.retries",
)
"""What decides when to stop, measure and save, and how much memory is taken: a run that had too
little goes on with less. Everything else decides what is learnt."""


def require_same_run(then: str, now: str) -> None:
    """Refuse settings that would make the rest of a run another experiment.

    Args:
        then: The settings that the run was started with, as TOML.
        now: Those that it is to be resumed with.
    """
    old, new = dict(_flat(tomllib.loads(then))), dict(_flat(tomllib.loads(now)))
    changed = [
        f"{key}: {old.get(key)!r} then, {new.get(key)!r} now"
        for key in sorted(old.keys() | new.keys())
        if old.get(key) != new.get(key) and not key.startswith(MAY_CHANGE)
    ]
    if changed:
        listed = "".join(f"\n  {change}" for change in changed)
        raise ConfigError(
            f"the run was started with other settings:{listed}\nResume with those that it was "
            "started with (its config.toml has them all), or give a new run another name"
        )


def _flat(table: dict[str, Any], path: str = "") -> Iterator[tuple[str, Any]]:
    for key, value in table.items():
        if isinstance(value, dict):
            yield from _flat(value, f"{path}{key}.")
        elif isinstance(value, list) and value and isinstance(value[0], dict):
            for number, one in enumerate(value):
                yield from _flat(one, f"{path}{key}.{number}.")
        else:
            yield f"{path}{key}", value
