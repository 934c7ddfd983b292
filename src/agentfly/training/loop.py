"""The loop, by stages.

    sample      tasks from the ledger → groups of chains, each saved as it ends
    learn       groups → one or more updates of the weights, the engine paused
    publish     the engine samples from the new weights, under their version
    evaluate    held-out tasks, every so often
    save        a checkpoint, every so often

The order of what reaches the disk is what makes a killed run resumable: chains, then `finish` in
the ledger; weights in memory, then `train` in the ledger, then the checkpoint. A run that resumes
goes back to its last checkpoint, and the ledger with it.
"""

import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial

from agentfly.chat import MaskPolicy
from agentfly.config import RunSettings
from agentfly.engines.local import LocalEngine
from agentfly.observe import RunProgress, Trackers, compact, evaluation_metrics, rollout_metrics
from agentfly.tasks import Ledger
from agentfly.training.checkpoint import Checkpoints
from agentfly.training.evaluation import Evaluator
from agentfly.training.learner import Learner
from agentfly.training.learnt import Learnt
from agentfly.training.policy import Policy
from agentfly.training.result import StoppedBy, TrainResult
from agentfly.training.run_folder import RunFolder
from agentfly.training.sampling import Sampled, Sampler
from agentfly.training.saving import write_state
from agentfly.training.stage_times import StageTimes
from agentfly.training.stopping import Target
from agentfly.training.uninterrupted import uninterrupted
from agentfly.types import Group


@dataclass(slots=True, kw_only=True)
class Loop:
    """A run whose parts are all open."""

    settings: RunSettings
    folder: RunFolder
    policy: Policy
    engine: LocalEngine
    learner: Learner
    mask: MaskPolicy
    sampler: Sampler
    evaluator: Evaluator
    ledger: Ledger
    checkpoints: Checkpoints
    trackers: Trackers
    progress: RunProgress
    target: Target
    saved_step: int
    """The step of the newest checkpoint; 0 where there is none."""
    _score: float | None = None
    """Held-out reward of the weights as they are now, where it was measured."""
    _last_saving: dict[str, float] = field(default_factory=dict)
    """How long the last checkpoint took, logged with the step after it."""
    _thread: ThreadPoolExecutor = field(
        default_factory=lambda: ThreadPoolExecutor(1, thread_name_prefix="agentfly-learner")
    )

    @property
    def step(self) -> int:
        """The last step that was trained."""
        return self.ledger.step

    async def run(self) -> TrainResult:
        """Go on to the last step or the target; what was learnt is saved whatever happens."""
        self.progress.start(self.settings.train.steps, done=self.step)
        try:
            stopped = await self._steps()
        finally:
            if self.step > self.saved_step:
                self._save()
            self._thread.shutdown()
        return TrainResult(folder=self.folder.path, steps=self.step, stopped_by=stopped)

    async def _steps(self) -> StoppedBy:
        if self.step == 0 and self.evaluator.due(0, last=False):
            self.trackers.log(await self._evaluate(), 0)
        while self.step < self.settings.train.steps:
            if await self._one_step():
                return StoppedBy.TARGET
        return StoppedBy.STEPS

    async def _one_step(self) -> bool:
        """Take one step, and tell whether the target is reached."""
        step, times = self.step + 1, StageTimes()
        with times("sampling"):
            sampled = await self._sample(step)
        metrics = self._rollout_metrics(sampled, times.seconds["sampling"])
        with times("training"):
            learnt = await self._learn(sampled.groups)
        self.ledger.train([group.id for group in sampled.groups], step=step)
        with times("publishing"):
            await self.engine.load_weights(None, version=step)
        reached = self.target.reached_with(metrics.get("reward/mean"))
        last = reached or step == self.settings.train.steps
        if self.evaluator.due(step, last=last):
            with times("evaluating"):
                metrics |= await self._evaluate()
        compact(self.folder.trajectories_file(step))
        self._log(step, metrics | _train_metrics(learnt) | times.metrics())
        if last or step % self.settings.checkpoint.every == 0:
            self._save()
        return reached

    async def _sample(self, step: int) -> Sampled:
        rollout = self.settings.rollout
        self.progress.step_started(step, rollout.tasks_per_step * rollout.num_chains)
        return await self.sampler.sample(self.folder.trajectories_file(step))

    def _rollout_metrics(self, sampled: Sampled, seconds: float) -> dict[str, float]:
        """Measure all that was sampled, also what is not learnt from."""
        groups = [*sampled.groups, *sampled.left_out]
        metrics = rollout_metrics(groups, version=self.step, seconds=seconds)
        return {**metrics, "chains/left_out_groups": float(len(sampled.left_out))}

    async def _learn(self, groups: list[Group]) -> Learnt:
        learn = partial(self.learner.learn, groups, self.mask, version=self.step)
        async with self.engine.paused():
            self._score = None
            return await uninterrupted(learn, self._thread)

    async def _evaluate(self) -> dict[str, float]:
        self.progress.evaluation_started(self.evaluator.num_chains)
        file = self.folder.evaluation_file(self.step)
        groups = await self.evaluator.evaluate(file)
        compact(file)
        metrics = evaluation_metrics(groups)
        self._score = metrics.get("eval/reward")
        self.progress.evaluation_done(self.step, metrics)
        return metrics

    def _save(self) -> None:
        """Save once the step is logged: a run killed in between resumes with its line kept."""
        started = time.monotonic()
        write = partial(
            write_state, policy=self.policy, learner=self.learner, pending=self.sampler.pending
        )
        self.checkpoints.save(self.step, write, score=self._score)
        self.saved_step = self.step
        self._last_saving = {"time/saving": time.monotonic() - started}

    def _log(self, step: int, metrics: dict[str, float]) -> None:
        metrics, self._last_saving = metrics | self._last_saving, {}
        self.trackers.log(metrics, step)
        self.progress.step_done(step, metrics)


def _train_metrics(learnt: Learnt) -> dict[str, float]:
    seconds = {f"time/learner/{phase}": seconds for phase, seconds in learnt.seconds.items()}
    return {f"train/{name}": value for name, value in learnt.metrics.items()} | seconds
