"""MLflow (`pip install agentfly[mlflow]`); `MLFLOW_TRACKING_URI` names the server."""

import re
import time
from collections.abc import Iterator, Mapping
from typing import Any

from agentfly.observe.trackers.tracked_run import TrackedRun, import_tracker

LONGEST_PARAMETER = 500
"""Maximum characters of a setting's value; MLflow's own limit depends on version and store."""
PARAMETERS_AT_ONCE = 100


class MLflow:
    """Logs to one MLflow run, the same one after a resume."""

    def __init__(self, run: TrackedRun) -> None:
        mlflow = import_tracker("mlflow", extra="mlflow")
        self._entities = import_tracker("mlflow", extra="mlflow", module="mlflow.entities")
        self._client = mlflow.MlflowClient()
        self._run_id = run.identity("mlflow", lambda: self._create(run))
        self._client.update_run(self._run_id, status="RUNNING")

    def log(self, metrics: Mapping[str, float], step: int) -> None:
        """Log the metrics of a step."""
        now = int(time.time() * 1000)
        values = [self._entities.Metric(_name(n), v, now, step) for n, v in metrics.items()]
        self._client.log_batch(self._run_id, metrics=values)

    def close(self) -> None:
        """Mark the run as finished."""
        self._client.set_terminated(self._run_id)

    def _create(self, run: TrackedRun) -> str:
        known = self._client.get_experiment_by_name(run.project)
        home = known.experiment_id if known else self._client.create_experiment(run.project)
        run_id = str(self._client.create_run(home, run_name=run.name).info.run_id)
        parameters = [self._entities.Param(*pair) for pair in _flat(run.settings)]
        for start in range(0, len(parameters), PARAMETERS_AT_ONCE):
            self._client.log_batch(run_id, params=parameters[start : start + PARAMETERS_AT_ONCE])
        return run_id


def _flat(settings: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, str]]:
    """Yield ("train.lr", "1e-05") for {"train": {"lr": 1e-5}}."""
    for key, value in settings.items():
        if isinstance(value, Mapping):
            yield from _flat(value, f"{prefix}{key}.")
        else:
            yield _name(prefix + key), str(value)[:LONGEST_PARAMETER]


def _name(name: str) -> str:
    """Replace characters that MLflow does not allow: `eval/pass@4` becomes `eval/pass_4`."""
    return re.sub(r"[^\w/. -]", "_", name)
