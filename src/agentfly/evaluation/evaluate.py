"""Evaluate a model, or several checkpoints of a run, on tasks.

    settings ─► folder ─► for each checkpoint: model ─► groups, saved as they finish ─► rows
                                  ▲                                                      │
                                  └────────── the next checkpoint ◄──────────────────────┘

The folder is that of a run, so that everything that opens runs opens it. A killed evaluation is
continued with `resume`: groups that were finished are read, the others are run with the seeds that
they would have had.
"""

import asyncio
import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path

from agentfly.agents import Agent
from agentfly.agents.source import score_range
from agentfly.config import to_toml
from agentfly.config.evaluation_settings import EvaluationSettings
from agentfly.config.override import dotted
from agentfly.config.settings_file import read_toml, validated
from agentfly.engines.openai.chat import Usage
from agentfly.errors import ConfigError, RunError
from agentfly.evaluation.model_under_test import with_model
from agentfly.evaluation.saved_groups import SavedGroups
from agentfly.observe import Counting, MetricsFile, evaluation_metrics, log_to
from agentfly.observe.evaluation_progress import EvaluationProgress
from agentfly.observe.evaluation_summary import EvaluationRow, evaluation_rows
from agentfly.observe.run_folder import EvaluationFolder
from agentfly.observe.summary import summarize
from agentfly.observe.whole_file import whole_file
from agentfly.resources import EnvironmentManager
from agentfly.rollout import GroupPlan, Schedule, plan_groups, stream_groups
from agentfly.runtime.clock import LoopClock
from agentfly.runtime.stop_signals import exit_on_stop_signals
from agentfly.types import Group, Seed, Task

FORMAT_VERSION = 1
MAY_CHANGE = ("by", "prices", "attempts.max_concurrent", "attempts.retries", "attempts.max_failed")
"""Settings that a resumed evaluation may change: they have no influence on any chain."""
MIN_CHAINS = 16
"""Chains that must have ended before their failures end an evaluation."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EvaluatedSource:
    """Tasks with the agent that attempts them; the agent has no model yet."""

    name: str
    agent: Agent
    tasks: tuple[Task, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class EvaluationResult:
    """All numbers of an evaluation."""

    folder: Path
    rows: Mapping[int, Sequence[EvaluationRow]]
    """Rows of each checkpoint, by step; step 0 for a model that is no checkpoint."""
    usage: Usage
    """Tokens that a server has counted, those of repeated attempts included."""

    @property
    def row(self) -> EvaluationRow:
        """All tasks of the last checkpoint."""
        return list(self.rows.values())[-1][0]


def evaluate(
    settings: EvaluationSettings,
    sources: Sequence[EvaluatedSource],
    *,
    resume: bool = False,
    progress: EvaluationProgress | None = None,
) -> EvaluationResult:
    """Attempt all tasks, and return the numbers.

    Args:
        settings: Everything but the tasks and their agents.
        sources: Tasks with their agents.
        resume: Continue an evaluation of this name.
        progress: Where it shows how far it is; by default the terminal.
    """
    shown = progress or EvaluationProgress()
    with (
        exit_on_stop_signals(),
        _open_folder(settings, resume=resume) as folder,
        shown,
        log_to(folder.log_file, show=shown.message),
    ):
        return asyncio.run(_Evaluation(settings, sources, folder, shown).run())


@contextmanager
def _open_folder(settings: EvaluationSettings, *, resume: bool) -> Iterator[EvaluationFolder]:
    path, config = settings.folder / settings.name, to_toml(settings)
    if not resume:
        with EvaluationFolder.create(path, config=config) as folder:
            yield folder
        return
    with EvaluationFolder.open(path) as folder:
        _require_same(folder.config_file, settings)
        folder.replace_config(config)
        yield folder


def _require_same(file: Path, settings: EvaluationSettings) -> None:
    then = validated(EvaluationSettings, read_toml(file), (), str(file))
    old, new = dict(dotted(then.model_dump())), dict(dotted(settings.model_dump()))
    changed = [
        f"\n  {key}: {old.get(key)!r} then, {new.get(key)!r} now"
        for key in sorted(old.keys() | new.keys())
        if old.get(key) != new.get(key) and not key.startswith(MAY_CHANGE)
    ]
    if changed:
        raise ConfigError(
            f"{file.parent} was started with other settings:{''.join(changed)}\nResume it with the "
            "same command, or give this evaluation another --name"
        )


class _Evaluation:
    """An evaluation whose folder is open."""

    def __init__(
        self,
        settings: EvaluationSettings,
        sources: Sequence[EvaluatedSource],
        folder: EvaluationFolder,
        progress: EvaluationProgress,
    ) -> None:
        self._settings = settings
        self._agents = {source.name: source.agent for source in sources}
        self._tasks = [task for source in sources for task in source.tasks]
        self._folder = folder
        self._progress = progress
        self._usage = _read_usage(folder.path)
        self._counting = Counting(
            ranges={source.name: score_range(source.agent) for source in sources},
            time_limit_reward=settings.attempts.time_limit_reward,
        )

    async def run(self) -> EvaluationResult:
        """Evaluate every checkpoint, then write all numbers."""
        groups: dict[int, list[Group]] = {}
        # Environments outlive a checkpoint: starting them can take longer than its chains.
        async with EnvironmentManager() as pool:
            for step, folder in self._models():
                groups[step] = await self._evaluate(step, folder, pool)
        rows = {step: self._rows(some) for step, some in groups.items()}
        self._write_metrics(groups)
        result = EvaluationResult(folder=self._folder.path, rows=rows, usage=self._usage)
        _write_result(self._folder.result_file, self._settings, result)
        return result

    def _models(self) -> list[tuple[int, str | None]]:
        model = self._settings.model
        if model.url is not None:
            return [(0, None)]
        found = [(one.step, one.folder) for one in self._settings.checkpoint]
        return [*found] or [(0, model.name)]

    async def _evaluate(
        self, step: int, folder: str | None, pool: EnvironmentManager
    ) -> list[Group]:
        """Return all groups of one model, in the order of the tasks."""
        settings = self._settings.attempts
        seed = Seed(self._settings.seed).child("evaluation")
        plans = plan_groups(self._tasks, num_chains=settings.num_chains, seed=seed)
        file = self._folder.evaluation_file(step)
        saved = SavedGroups(file, num_chains=settings.num_chains)
        groups = saved.take_up()
        missing = [plan for plan in plans if plan.id not in groups]
        if groups:
            self._progress.message(f"{len(groups)} of {len(plans)} tasks are there already")
        if missing or not saved.is_complete(groups, (plan.id for plan in plans)):
            name = f"step {step}" if self._settings.checkpoint else self._settings.model.name
            self._progress.start(name, len(missing) * settings.num_chains)
            groups |= await self._run(missing, folder, pool, saved)
            saved.finish()
        return [groups[plan.id] for plan in plans]

    async def _run(
        self,
        plans: Sequence[GroupPlan],
        folder: str | None,
        pool: EnvironmentManager,
        saved: SavedGroups,
    ) -> dict[str, Group]:
        groups: dict[str, Group] = {}
        if not plans:
            return groups
        attempts = self._settings.attempts
        opened = with_model(
            self._agents,
            self._settings,
            folder,
            pool=pool,
            log_folder=self._folder.path,
            usage=self._usage,
        )
        with saved.writer() as writer:
            async with opened as agents:
                runners = {name: agent.runner() for name, agent in agents.items()}
                schedule = Schedule(
                    runner_of=lambda task: runners[task.source],
                    clock=LoopClock(),
                    max_concurrent=attempts.max_concurrent,
                    retries=attempts.retries,
                )
                async with stream_groups(plans, schedule) as finished:
                    async for group in finished:
                        writer.write_group(group)
                        self._write_usage()
                        groups[group.id] = group
                        self._progress.group_done(group)
                        self._require_healthy(groups)
        return groups

    def _require_healthy(self, groups: Mapping[str, Group]) -> None:
        """End the evaluation while most chains fail: what is left would be a biased sample."""
        chains = [member for group in groups.values() for member in group.members]
        failed = [chain for chain in chains if chain.stop.verdict.infrastructure]
        most = self._settings.attempts.max_failed_share
        if len(chains) < MIN_CHAINS or len(failed) <= most * len(chains):
            return
        causes = ", ".join(f"{name} {n}" for name, n in summarize(failed).failures.items())
        example = Counter(chain.error for chain in failed).most_common(1)[0][0]
        raise RunError(
            f"{len(failed)} of {len(chains)} chains failed for a reason outside the model "
            f"({causes}), for example: {example}. Correct that, then continue with --resume"
        )

    def _rows(self, groups: Sequence[Group]) -> list[EvaluationRow]:
        settings = self._settings
        return evaluation_rows(groups, self._counting, by=settings.by, prices=settings.prices)

    def _write_metrics(self, groups: Mapping[int, Sequence[Group]]) -> None:
        """Write the same metrics as an evaluation during training, for curves and reports."""
        self._folder.metrics_file.unlink(missing_ok=True)
        with closing(MetricsFile(self._folder.metrics_file)) as file:
            for step, some in groups.items():
                file.log(evaluation_metrics(some, self._counting), step)

    def _write_usage(self) -> None:
        if self._settings.model.url is not None:
            with whole_file(self._folder.path / USAGE) as file:
                counted = self._usage
                known = {name: getattr(counted, name) for name in Usage.__slots__}
                file.write(json.dumps(known).encode())


USAGE = "usage.json"


def _read_usage(folder: Path) -> Usage:
    """Return what a server had counted before the evaluation was killed."""
    try:
        return Usage(**json.loads((folder / USAGE).read_bytes()))
    except FileNotFoundError:
        return Usage()


def _write_result(file: Path, settings: EvaluationSettings, result: EvaluationResult) -> None:
    content = {
        "v": FORMAT_VERSION,
        "kind": "evaluation",
        "model": settings.model.name,
        "seed": settings.seed,
        "checkpoints": [
            {"step": step, "rows": [row.to_json() for row in rows]}
            for step, rows in result.rows.items()
        ],
    }
    with whole_file(file) as out:
        out.write((json.dumps(content, indent=1) + "\n").encode())
