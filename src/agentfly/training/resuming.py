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
little goes on with less. Everything else decides what is learned."""


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
        if old.get(key) != new.get(key) and not _may_change(key, old)
    ]
    if changed:
        listed = "".join(f"\n  {change}{_reason(change)}" for change in changed)
        raise ConfigError(
            f"the run was started with other settings:{listed}\nResume with those that it was "
            "started with (its config.toml has them all), or start a new run under another name. "
            "Where neither was changed, config.toml is damaged: correct it there"
        )


def _may_change(key: str, old: dict[str, Any]) -> bool:
    if key == "train.steps" and old.get("train.schedule") == "cosine":
        # The rates of the steps that are done would be those of no schedule.
        return False
    return key.startswith(MAY_CHANGE)


def missing_keys(tables: dict[str, Any], complete: str) -> list[str]:
    r"""List the settings of a complete file that some tables have no value for.

    >>> missing_keys({"name": "x"}, 'name = "x"\n[train]\nsteps = 3')
    ['train.steps']
    """
    return sorted(dict(_flat(tomllib.loads(complete))).keys() - dict(_flat(tables)).keys())


def _reason(change: str) -> str:
    """Say why, where the setting itself does not tell."""
    if not change.startswith("train.steps:"):
        return ""
    return (
        " (train.schedule is 'cosine': its rates were those of a fall to 0 at the step named first,"
        " and would jump)"
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
