"""The loop, by stages.

    sample      tasks from the ledger → groups of chains, each saved as it finishes
    learn       groups → one or more updates of the weights, the engine paused
    publish     the engine samples from the new weights, under their version
    evaluate    held-out tasks, every so often
    save        a checkpoint, every so often

The order of what reaches the disk is what makes a killed run resumable: chains, then `finish` in
the ledger; weights in memory, then `train` in the ledger, then the checkpoint, then `save` in the
ledger. A run that resumes goes back to its last checkpoint, and the ledger with it.
"""

import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from functools import partial

from agentfly.chat import MaskPolicy
from agentfly.config import RunSettings
from agentfly.observe import RunProgress, Trackers, compact, read_metrics, rollout_metrics
from agentfly.observe.credit_file import write_credit
from agentfly.observe.findings import Findings
from agentfly.observe.run_folder import RunFolder
from agentfly.resources import EnvironmentManager
from agentfly.tasks import Ledger
from agentfly.training.checkpoint import Checkpoint, Checkpoints, export_model
from agentfly.training.health import TimeLimitWarning, masks_everything
from agentfly.training.publisher import Publisher, uninterrupted
from agentfly.training.rollout_stages import Evaluator, Sampled, Sampler
from agentfly.training.run_state import write_state
from agentfly.training.train_result import StoppedBy, Target, TrainResult
from agentfly.training.watchdog import Watchdog
from agentfly.types import Group, Learner, SharedTensors, StepMetrics, TrainableEngine


@dataclass(slots=True, kw_only=True)
class Loop:
    """A run whose parts are all open."""

    settings: RunSettings
    folder: RunFolder
    engine: TrainableEngine
    learner: Learner
    publisher: Publisher
    mask: MaskPolicy
    sampler: Sampler
    evaluator: Evaluator
    environments: EnvironmentManager
    ledger: Ledger
    checkpoints: Checkpoints
    trackers: Trackers
    progress: RunProgress
    watchdog: Watchdog
    findings: Findings
    target: Target
    saved: Checkpoint | None
    """The newest one, where there is any."""
    _score: float | None = field(init=False)
    """Held-out reward of the weights as they are now, where it was measured."""
    _time_limit_warning: TimeLimitWarning = field(default_factory=TimeLimitWarning)
    _learning: bool = False
    """The weights are those of no step that is trained and logged, and are not saved."""
    _deferred: dict[str, float] = field(default_factory=dict)
    """Times of the stages after the last logged line, logged with the next one."""
    _thread: ThreadPoolExecutor = field(
        default_factory=lambda: ThreadPoolExecutor(1, thread_name_prefix="agentfly-learner")
    )

    def __post_init__(self) -> None:
        """Take over what is known of the weights that were saved."""
        self._score = self.saved.score if self.saved else None

    @property
    def step(self) -> int:
        """The last step that was trained."""
        return self.ledger.step

    async def run(self) -> TrainResult:
        """Go on to the last step or the target; what was learned is always saved."""
        self.progress.start(self.settings.train.steps, done=self.step)
        try:
            async with self.watchdog.watching():
                await self._evaluate_if(self.step == 0 and self.settings.eval.at_start)
                async with self.sampler.running():
                    while not self._done:
                        await self._one_step()
                await self._evaluate_if(self.settings.eval.at_end)
        finally:
            self._save_what_is_new()
            self._thread.shutdown()
        if self.settings.model.lora is not None:
            export_model(self.learner.export, self.folder.model_folder)
        self.findings.take_end(self.step, read_metrics(self.folder.metrics_file))
        stopped = StoppedBy.TARGET if self.target.reached else StoppedBy.STEPS
        return TrainResult(folder=self.folder.path, steps=self.step, stopped_by=stopped)

    @property
    def _done(self) -> bool:
        return self.target.reached or self.step >= self.settings.train.steps

    async def _one_step(self) -> None:
        step, times = self.step + 1, StageTimes()
        with self.watchdog.stage(f"sampling for step {step}", runs_chains=True):
            sampled = await self._sample(step)
        metrics = self._rollout_metrics(sampled)
        self._time_limit_warning.update(metrics["chains/time_limit_share"])
        self.progress.learning_started()
        with times("training"), self.watchdog.stage(f"the learner in step {step}"):
            learned = await self._learn(sampled.groups)
        # From here to the log there is no await: the step is trained and logged, or neither.
        self.ledger.train([group.id for group in sampled.groups], step=step)
        self.sampler.trained(sampled)
        self.target.take(metrics.get("reward/mean"))
        compact(self.folder.trajectories_file(step))
        self._log(step, metrics | _train_metrics(learned) | times.metrics())
        self._learning = False
        if learned.credit:
            write_credit(self.folder.credit_file(step), learned.credit)
        self.findings.take(step, sampled.all, learned)
        if not learned.updates and masks_everything(sampled.groups, self.mask):
            chains = sum(len(group.members) for group in sampled.groups)
            self.findings.take_masked(step, self.settings.rollout.mask, chains)
        sending = f"publishing version {step} to {type(self.engine).__name__}"
        with self._deferred_timing("publishing"), self.watchdog.stage(sending):
            await self.publisher.publish(step)
        self.sampler.published(step)
        await self._evaluate_if(self.evaluator.due(step))
        if self.saved is None or step % self.settings.checkpoint.every == 0 or self._is_best:
            self._save()

    @property
    def _is_best(self) -> bool:
        """Whether no checkpoint does better on held-out tasks: of equals the newest is the best."""
        if self._score is None:
            return False
        best = self.checkpoints.best_score()
        return best is None or self._score >= best

    async def _sample(self, step: int) -> Sampled:
        rollout = self.settings.rollout
        chains = rollout.tasks_per_step * (rollout.num_chains + rollout.spare_chains)
        self.progress.step_started(step, chains)
        return await self.sampler.sample(self.folder.trajectories_file(step))

    def _rollout_metrics(self, sampled: Sampled) -> dict[str, float]:
        """Measure all that was sampled, also what is not learned from."""
        metrics = rollout_metrics(sampled.all, version=self.step, seconds=sampled.seconds)
        left_out = float(len(sampled.left_out))
        return {**metrics, **sampled.metrics, "chains/left_out_groups": left_out}

    async def _learn(self, groups: list[Group]) -> StepMetrics:
        # What another forward pass recorded can't stand for the learner's own.
        version = self.step if self.engine.samples_exactly else None
        learn = partial(self.learner.learn, groups, self.mask, version=version)
        shared = self.engine.shares_tensors and SharedTensors in self.learner.gives
        async with self.engine.paused() if shared else nullcontext():
            self._learning, self._score = True, None
            return await uninterrupted(learn, self._thread)

    async def _evaluate_if(self, wanted: bool) -> None:  # noqa: FBT001 - reads as a sentence
        """Evaluate the weights as they are now, unless that was done already."""
        if not wanted or not self.evaluator.tasks or self.folder.is_evaluated(self.step):
            return
        size = self.settings.eval.size_text(len(self.evaluator.tasks))
        self.progress.evaluation_started(self.evaluator.num_chains, size)
        file = self.folder.evaluation_file(self.step)
        with (
            self._deferred_timing("evaluating"),
            self.watchdog.stage("evaluating", runs_chains=True),
        ):
            groups = await self.evaluator.evaluate(file)
        compact(file)
        metrics = self.evaluator.metrics(groups)
        self._score = self._trusted_score(metrics)
        self.trackers.log(metrics, self.step)
        self.progress.evaluation_done(self.step, metrics)

    def _trusted_score(self, metrics: dict[str, float]) -> float | None:
        """Return the held-out reward, unless too many chains failed for it to mean anything."""
        failed = metrics.get("eval/failed_share", 0.0)
        if failed > self.settings.rollout.max_failed_share:
            self.progress.message(
                f"{failed:.0%} of the held-out chains failed: this evaluation does not count when "
                "the best checkpoint is chosen. The chains say why: "
                f"{self.folder.evaluation_file(self.step)}.gz"
            )
            return None
        return metrics.get("eval/reward")

    def _save_what_is_new(self) -> None:
        """Save on the way out, also after Ctrl-C: whole steps, scores, groups not yet learned."""
        saved = self.saved and (self.saved.step, self.saved.score)
        new = saved != (self.step, self._score) or bool(self.sampler.finished)
        if self.step > 0 and new and not self._learning:
            self._save()

    def _save(self) -> None:
        """Save after the step is logged: a run killed in between resumes with its line kept."""
        write = partial(
            write_state,
            learner=self.learner,
            finished=self.sampler.finished.values(),
        )
        with self._deferred_timing("saving"):
            self.saved = self.checkpoints.save(self.step, write, score=self._score)
            self.ledger.save()

    def _log(self, step: int, metrics: dict[str, float]) -> None:
        metrics |= self._deferred | self.environments.snapshot().metrics
        self._deferred = {}
        self.trackers.log(metrics, step)
        self.progress.step_done(step, metrics)

    @contextmanager
    def _deferred_timing(self, stage: str) -> Iterator[None]:
        started = time.monotonic()
        yield
        self._deferred[f"time/{stage}"] = time.monotonic() - started


def _train_metrics(learned: StepMetrics) -> dict[str, float]:
    seconds = {f"time/learner/{phase}": seconds for phase, seconds in learned.seconds.items()}
    return {f"train/{name}": value for name, value in learned.metrics.items()} | seconds


class StageTimes:
    """Seconds by stage, over one step.

    >>> times = StageTimes()
    >>> with times("training"):
    ...     pass
    >>> list(times.metrics())
    ['time/training', 'time/step']
    """

    def __init__(self) -> None:
        self._started = time.monotonic()
        self.seconds: dict[str, float] = {}

    @contextmanager
    def __call__(self, stage: str) -> Iterator[None]:
        """Add what the block takes to a stage."""
        start = time.monotonic()
        try:
            yield
        finally:
            self.seconds[stage] = self.seconds.get(stage, 0.0) + time.monotonic() - start

    def metrics(self) -> dict[str, float]:
        """Return them by the names under which they are logged, and the whole step's."""
        named = {f"time/{stage}": seconds for stage, seconds in self.seconds.items()}
        return {**named, "time/step": time.monotonic() - self._started}
