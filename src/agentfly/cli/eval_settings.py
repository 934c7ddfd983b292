"""Settings of an evaluation, from the options of `agentfly eval` and the settings of a run."""

import asyncio
import re
from pathlib import Path
from typing import Any

from agentfly.cli.eval_sources import ChosenSources
from agentfly.config import RunSettings
from agentfly.config.evaluation_settings import (
    AttemptSettings,
    EvaluatedCheckpoint,
    EvaluatedModelSettings,
    PriceSettings,
)
from agentfly.errors import ConfigError
from agentfly.evaluation.checkpoint_names import NamedCheckpoints
from agentfly.evaluation.model_under_test import served_model


def is_server(model: str) -> bool:
    """Return whether a model is named by the address of a chat server."""
    return model.startswith(("http://", "https://"))


def model_settings(
    given: str,
    checkpoints: NamedCheckpoints | None,
    chosen: ChosenSources,
    *,
    server_model: str | None,
    api_key_env: str | None,
    trust_remote_code: bool,
    template_options: dict[str, Any],
) -> EvaluatedModelSettings:
    """Return the evaluated model; the only one of a server is asked for by its name."""
    if is_server(given):
        name = server_model or asyncio.run(served_model(given, api_key_env))
        return EvaluatedModelSettings(name=name, url=given, api_key_env=api_key_env)
    if server_model or api_key_env:
        raise ConfigError(
            f"--server-model and --api-key-env are for chat servers, and {given} is not an "
            "http address: leave them out"
        )
    own = chosen.settings.model.template_options if chosen.settings else {}
    return EvaluatedModelSettings(
        name=list(checkpoints.folders.values())[-1] if checkpoints else given,
        run=str(checkpoints.run.path) if checkpoints else None,
        trust_remote_code=trust_remote_code,
        template_options=template_options or own,
    )


def attempt_settings(run: RunSettings | None, **given: Any) -> AttemptSettings:
    """Return how tasks are attempted: as the options say, else as the run's settings do."""
    chosen = {name: value for name, value in given.items() if value is not None}
    if run is None:
        return AttemptSettings(**chosen)
    own = {
        "num_chains": run.eval.num_chains,
        "temperature": run.eval.temperature,
        "time_limit_reward": run.eval.time_limit_reward,
        "max_tokens": run.rollout.max_tokens,
        "max_turns": run.rollout.max_turns,
        "context_length": run.rollout.context_length,
        "chain_seconds": run.rollout.chain_seconds,
    }
    return AttemptSettings(**(own | chosen))


def price_settings(prompt: float | None, sampled: float | None) -> PriceSettings | None:
    """Return the prices of tokens; None where none is given."""
    if prompt is None and sampled is None:
        return None
    return PriceSettings(prompt=prompt or 0.0, sampled=sampled or 0.0)


def checkpoint_settings(found: NamedCheckpoints | None) -> tuple[EvaluatedCheckpoint, ...]:
    """Return the checkpoints to evaluate; none for a model that belongs to no run."""
    folders = found.folders if found else {}
    return tuple(EvaluatedCheckpoint(step=step, folder=path) for step, path in folders.items())


def default_name(given: list[str]) -> str:
    """Return a name for the results.

    >>> default_name(["runs/sums@best", "code", "tasks=math"])
    'eval-sums-best-code-tasks-math'
    """
    words = [Path(word).stem if Path(word).suffix else Path(word).name for word in given]
    return re.sub(r"[^\w.]+", "-", "-".join(["eval", *words])).strip("-")[:100]
