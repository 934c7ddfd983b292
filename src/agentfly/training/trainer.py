"""The facade: agents, tasks and settings become better weights."""

import asyncio
import gc
import logging
from collections.abc import Sequence
from pathlib import Path

from agentfly.agents.run_parts import RunParts, ignored_turn_limits, resolve_run
from agentfly.agents.source import Source
from agentfly.algorithms import Algorithm
from agentfly.chat import MaskPolicy
from agentfly.config import RunSettings
from agentfly.engines import EngineMaker
from agentfly.errors import LearnerLostError
from agentfly.observe import RunProgress
from agentfly.runtime.stop_signals import exit_on_stop_signals
from agentfly.training.assembly import open_run
from agentfly.training.learner.peers import attempt, torchrun_rank
from agentfly.training.learner_processes import serve_learner
from agentfly.training.task_mix import TaskMix, read_sources, warn_ignored_settings
from agentfly.training.train_result import TrainResult

_log = logging.getLogger(__name__)


class Trainer:
    """Trains the model that its settings name, by letting agents attempt tasks.

    Args:
        sources: Tasks, each with the agent that attempts them. An agent without a model gets the
            one that is trained, and what it does not say of sampling and limits, the settings do.
        settings: Everything else.
        algorithm: One of your own; by default the one that the settings name.
        mask: Which sampled tokens are trained, as a function over turns; by default the policy
            that the settings name.
        engine: Makes an engine of your own; by default the one that the settings name.
        resume: Go on from the last checkpoint of the run of this name.
        progress: Where the run shows how far it is; by default the terminal.

    >>> agent = Agent(tools=[calculator], reward=correct)                      # doctest: +SKIP
    >>> settings = RunSettings(name="demo", model=ModelSettings(name="tiny"))  # doctest: +SKIP
    >>> Trainer(Source(agent=agent, tasks=rows), settings).run()               # doctest: +SKIP
    """

    def __init__(
        self,
        sources: Source | Sequence[Source],
        settings: RunSettings,
        *,
        algorithm: Algorithm | None = None,
        mask: MaskPolicy | None = None,
        engine: EngineMaker | None = None,
        resume: bool = False,
        progress: RunProgress | None = None,
    ) -> None:
        given = (sources,) if isinstance(sources, Source) else tuple(sources)
        self.parts = resolve_run(
            settings, sources=given, algorithm=algorithm, mask=mask, engine=engine
        )
        warn_ignored_settings(self.parts.sources, settings)
        self.task_mix = read_sources(self.parts.sources, self.parts.settings.eval)
        self.resume = resume
        self.progress = progress or RunProgress()

    def run(self) -> TrainResult:
        """Train to the end; Ctrl-C, SIGTERM and SIGHUP leave a checkpoint to resume from."""
        with exit_on_stop_signals():
            return asyncio.run(self.run_async())

    async def run_async(self) -> TrainResult:
        """Train to the end, from code that is async itself."""
        return await _run(self.parts, self.task_mix, self.progress, resume=self.resume)


def train(
    run: RunSettings | RunParts,
    *,
    resume: bool = False,
    base: Path | None = None,
    progress: RunProgress | None = None,
) -> TrainResult:
    """Train by settings alone.

    Args:
        run: Settings, as `agentfly.config.load_settings` reads them from a TOML file, or the parts
            that `resolve_run` made of them.
        resume: Go on from the last checkpoint of the run of this name.
        base: The folder that files and modules are named from; by default the working directory.
        progress: Where the run shows how far it is; by default the terminal.
    """
    parts = resolve_run(run, base=base) if isinstance(run, RunSettings) else run
    for ignored in ignored_turn_limits(parts):
        _log.warning("%s", ignored)
    task_mix = read_sources(parts.sources, parts.settings.eval)
    with exit_on_stop_signals():
        return asyncio.run(_run(parts, task_mix, progress or RunProgress(), resume=resume))


async def _run(
    parts: RunParts, task_mix: TaskMix, progress: RunProgress, *, resume: bool
) -> TrainResult:
    """Train to the end; a learner that loses a process goes on from the run's last checkpoint."""
    place = torchrun_rank()
    if place is not None and place.rank > 0:
        serve_learner(place)
        raise SystemExit(0)  # The run's result is rank 0's alone.
    # Processes that torchrun started, only torchrun can start again, all of them.
    limit = parts.settings.learner.max_restarts if place is None else 0
    started_again = attempt() > 0 and (parts.settings.folder / parts.settings.name).exists()
    resume = resume or started_again
    restarts, reason = 0, ""
    while True:
        try:
            async with open_run(parts, task_mix, progress=progress, resume=resume) as loop:
                if reason:
                    loop.findings.take_restart(loop.step, reason, restarts=restarts, limit=limit)
                return await loop.run()
        except LearnerLostError as error:
            if restarts == limit:
                raise LearnerLostError(_at_the_limit(error, restarts)) from error
            reason = str(error)
        restarts, resume = restarts + 1, True
        gc.collect()  # The lost learner's memory is needed for the next.


def _at_the_limit(error: LearnerLostError, restarts: int) -> str:
    tried = f" The run was taken up {restarts} times before (learner.max_restarts)." * bool(
        restarts
    )
    return f"{error}.{tried} Continue with --resume"
