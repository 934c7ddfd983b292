"""Data of runs for the page: the list, metrics as columns, settings, environments."""

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from agentfly.errors import AgentFlyError
from agentfly.observe.findings import read_findings
from agentfly.observe.metrics import explain
from agentfly.observe.recorded_run import RecordedRun
from agentfly.observe.run_list import describe_run, flat_settings
from agentfly.observe.trackers.metrics_file import MetricsRecord
from agentfly.resources.snapshot import Report
from agentfly.types.short_text import printable

SPARK_POINTS = 60
"""Points of the small curve in the list."""


def run_row(name: str, path: Path) -> dict[str, Any]:
    """Return a run as one row of the list."""
    run = RecordedRun(path)
    entry = describe_run(run)
    settings = run.settings
    try:
        rewards = [r.metrics["reward/mean"] for r in run.records if "reward/mean" in r.metrics]
        updated = run.records[-1].time if run.records else (path / "run.json").stat().st_mtime
    except (AgentFlyError, OSError):
        rewards, updated = [], 0.0
    best = entry.best.metrics if entry.best else {}
    return {
        "name": name,
        "kind": printable(str(run.kind)),
        "state": printable(entry.state),
        "step": entry.step,
        "planned": entry.planned,
        "reward": _finite(entry.reward),
        "best": _finite(best.get("eval/reward")),
        "best_low": _finite(best.get("eval/reward_low")),
        "best_high": _finite(best.get("eval/reward_high")),
        "best_step": entry.best.step if entry.best else None,
        "size": entry.size,
        "model": printable(_named(settings, "model")),
        "algorithm": printable(_named(settings, "algorithm")),
        "updated": updated,
        "spark": [_finite(value) for value in thinned(rewards, SPARK_POINTS)],
    }


def _named(settings: Mapping[str, Any], table: str) -> str:
    found = settings.get(table)
    return str(found.get("name", "")) if isinstance(found, Mapping) else ""


def thinned(values: Sequence[float], points: int) -> list[float]:
    """Return means of neighboring values, at most `points` of them.

    >>> thinned([1.0, 2.0, 3.0, 4.0], 2)
    [1.5, 3.5]
    """
    size = math.ceil(len(values) / points) if values else 1
    pieces = (values[start : start + size] for start in range(0, len(values), size))
    return [sum(piece) / len(piece) for piece in pieces]


def metrics_json(run: RecordedRun, since: int) -> dict[str, Any]:
    """Return the metrics as columns, from the line numbered `since` on, with their meanings."""
    problem, records = "", list[MetricsRecord]()
    try:
        records = run.records
    except AgentFlyError as error:
        problem = str(error)
    # A resumed run drops the lines of steps that it takes again: then all is new.
    start = since if 0 <= since <= len(records) else 0
    new = records[start:]
    names = list(dict.fromkeys(name for record in new for name in record.metrics))
    return {
        "from": start,
        "lines": len(records),
        "problem": problem,
        "steps": [record.step for record in new],
        "times": [record.time for record in new],
        "series": {
            printable(name): [_finite(record.metrics.get(name)) for record in new] for name in names
        },
        "about": {printable(name): explain(name) for name in names} if start == 0 else {},
    }


def _finite(value: float | None) -> float | None:
    return value if value is not None and math.isfinite(value) else None


def overview_json(name: str, path: Path) -> dict[str, Any]:
    """Return what is known of a run besides its metrics and chains."""
    problem = ""
    findings: Sequence[Any] = ()
    try:
        findings = read_findings(path / "findings.json")
    except AgentFlyError as error:
        problem = str(error)
    return {
        **run_row(name, path),
        "problem": problem,
        "findings": [
            {
                "step": one.step,
                "sentence": printable(one.sentence),
                "way_out": printable(one.way_out),
            }
            for one in findings
        ],
        "environments": environments_json(path),
    }


def environments_json(path: Path) -> dict[str, Any] | None:
    """Return the last report on environments and leases; None if there is none.

    The process is not asked for a new one: that is a signal to a process which a file names.
    """
    try:
        report = Report.read(path)
    except AgentFlyError:
        return None
    found: dict[str, Any] = json.loads(json.dumps(asdict(report.snapshot)))
    return {**found, "ended": report.ended}


def settings_json(run: RecordedRun) -> dict[str, Any]:
    """Return the settings by their dotted names."""
    settings = [(printable(key), printable(value)) for key, value in flat_settings(run)]
    return {"settings": settings}
