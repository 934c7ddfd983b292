"""The supervised warm start: conversations are imitated before reinforcement learning takes over.

runs/warm/
    config.toml, metrics.jsonl, checkpoints/, log.txt    as in any run
    model/                                               the result: a Hugging Face folder

Prompts, masks and packing are those of reinforcement learning, so that the model meets nothing new
when it is trained further with `model.name = "runs/warm/model"`.
"""

import shutil
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from pathlib import Path

import torch

from agentfly.agents.named import find_mask
from agentfly.chat import TemplateRenderer
from agentfly.config import to_toml
from agentfly.config.sft_settings import SftSettings
from agentfly.errors import ConfigError
from agentfly.models import context_length, resolve_model
from agentfly.observe import (
    MetricsRecord,
    RunProgress,
    Trackers,
    log_to,
    open_trackers,
    read_metrics,
)
from agentfly.training.checkpoint import Checkpoints
from agentfly.training.learner.policy import Policy
from agentfly.training.run_folder import RunFolder
from agentfly.training.saving import TRAINER
from agentfly.training.stage_times import StageTimes
from agentfly.training.supervised.demonstrations import Demonstrations, read_demonstrations
from agentfly.training.supervised.lesson_plan import LessonPlan
from agentfly.training.supervised.supervised import SupervisedLearner
from agentfly.types import Sample, Seed

MODEL = "model"
HELD_OUT_LOSS = "eval/loss"


@dataclass(frozen=True, slots=True, kw_only=True)
class SftResult:
    """Where to find what was learnt."""

    folder: Path
    """The run's own folder."""
    steps: int

    @property
    def model(self) -> Path:
        """The trained model, to be named like any other: `model.name = "runs/warm/model"`."""
        return self.folder / MODEL

    @property
    def metrics(self) -> list[MetricsRecord]:
        """What was measured at every step."""
        return list(read_metrics(self.folder / "metrics.jsonl"))

    @property
    def held_out_losses(self) -> list[float]:
        """The held-out loss each time it was measured, before the first step to begin with."""
        measured = [record.metrics.get(HELD_OUT_LOSS) for record in self.metrics]
        return [loss for loss in measured if loss is not None]


def sft(
    settings: SftSettings,
    *,
    resume: bool = False,
    base: Path | None = None,
    progress: RunProgress | None = None,
) -> SftResult:
    """Let a model imitate conversations.

    Args:
        settings: As `load_sft_settings` reads them from a TOML file.
        resume: Go on from the last checkpoint of the run of this name.
        base: The folder that files and modules are named from; by default the working directory.
        progress: Where the run shows how far it is; by default the terminal.
    """
    # Read first: a mistake in the data should leave no folder behind.
    demonstrations = _demonstrations(settings, base)
    with _opened(settings, demonstrations, progress or RunProgress(), resume=resume) as imitation:
        imitation.run()
        return SftResult(folder=imitation.folder.path, steps=imitation.plan.steps)


def _demonstrations(settings: SftSettings, base: Path | None) -> Demonstrations:
    folder = resolve_model(settings.model.name)
    return read_demonstrations(
        settings.data,
        TemplateRenderer.from_folder(folder),
        mask=find_mask(settings.data.mask, base=base),
        max_tokens=min(context_length(folder), settings.train.tokens_per_microbatch),
        seed=Seed(settings.seed),
        base=base,
    )


@dataclass(slots=True, kw_only=True)
class _Imitation:
    """A run whose parts are all open."""

    settings: SftSettings
    folder: RunFolder
    policy: Policy
    learner: SupervisedLearner
    plan: LessonPlan
    held_out: tuple[Sample, ...]
    checkpoints: Checkpoints
    trackers: Trackers
    progress: RunProgress

    def run(self) -> None:
        """Go on to the last step, and leave the model."""
        self.progress.start(self.plan.steps, done=self.learner.step)
        if self.learner.step == 0 and self.held_out:
            self.trackers.log(self._evaluate(), 0)
        while self.learner.step < self.plan.steps:
            self._one_step()
        self._export()

    def _one_step(self) -> None:
        step, times = self.learner.step + 1, StageTimes()
        with times("training"):
            learnt = self.learner.learn(self.plan.lesson(step))
        metrics = {f"train/{name}": value for name, value in learnt.metrics.items()}
        if self._due(step, self.settings.train.evaluate_every) and self.held_out:
            with times("evaluating"):
                metrics |= self._evaluate()
        if self._due(step, self.settings.checkpoint.every):
            with times("saving"):
                self._save(metrics.get(HELD_OUT_LOSS))
        self.trackers.log(metrics | times.metrics(), step)
        self.progress.step_done(step, metrics | times.metrics())

    def _due(self, step: int, every: int) -> bool:
        return step == self.plan.steps or (every > 0 and step % every == 0)

    def _evaluate(self) -> dict[str, float]:
        loss = self.learner.evaluate(self.held_out)
        self.progress.message(f"held-out loss {loss:.4f} after step {self.learner.step}")
        return {HELD_OUT_LOSS: loss}

    def _save(self, loss: float | None) -> None:
        score = None if loss is None else -loss
        self.checkpoints.save(self.learner.step, self._write, score=score)

    def _write(self, folder: Path) -> None:
        self.policy.save(folder)
        torch.save({"learner": self.learner.state_dict()}, folder / TRAINER)

    def _export(self) -> None:
        """Write the model so that its folder is whole or absent."""
        model = self.folder.path / MODEL
        part = model.with_suffix(".part")
        shutil.rmtree(part, ignore_errors=True)
        self.policy.export(part)
        part.rename(model)
        self.progress.message(f"the model is in {model}")


@contextmanager
def _opened(
    settings: SftSettings, demonstrations: Demonstrations, progress: RunProgress, *, resume: bool
) -> Iterator[_Imitation]:
    """Open what a run needs; a resumed one stands exactly where its last checkpoint was."""
    plan = LessonPlan(
        samples=demonstrations.train,
        per_step=settings.train.conversations_per_step,
        epochs=settings.train.epochs,
        seed=Seed(settings.seed),
    )
    _require_warm_before_the_end(settings, plan)
    with ExitStack() as stack:
        folder = stack.enter_context(_folder(settings, resume=resume))
        stack.enter_context(progress)
        stack.enter_context(log_to(folder.log_file, tell=progress.message))
        progress.message(str(demonstrations))
        checkpoints = Checkpoints(folder.checkpoints_folder, keep=settings.checkpoint.keep)
        policy = Policy.load(settings.model, seed=settings.seed)
        learner = SupervisedLearner(policy, settings.train.of_learner(plan.steps))
        if checkpoint := checkpoints.latest():
            policy.restore(checkpoint.path)
            state = torch.load(checkpoint.path / TRAINER, map_location="cpu", weights_only=True)
            learner.load_state_dict(state["learner"])
        trackers = _trackers(folder, settings, learner.step, resume=resume)
        yield _Imitation(
            settings=settings,
            folder=folder,
            policy=policy,
            learner=learner,
            plan=plan,
            held_out=demonstrations.held_out,
            checkpoints=checkpoints,
            trackers=stack.enter_context(closing(trackers)),
            progress=progress,
        )


def _require_warm_before_the_end(settings: SftSettings, plan: LessonPlan) -> None:
    if settings.train.warmup_steps > plan.steps:
        raise ConfigError(
            f"train.warmup_steps is {settings.train.warmup_steps}, but {len(plan.samples)} "
            f"conversations give only {plan.steps} steps: lower it, or raise train.epochs"
        )


def _folder(settings: SftSettings, *, resume: bool) -> RunFolder:
    path = settings.folder / settings.name
    if not resume:
        return RunFolder.create(path, config=to_toml(settings))
    if (path / MODEL).exists():
        raise ConfigError(
            f"the run {settings.name!r} is done, and its model is in {path / MODEL}: "
            "choose another name to begin anew"
        )
    return RunFolder.open(path)


def _trackers(folder: RunFolder, settings: SftSettings, step: int, *, resume: bool) -> Trackers:
    return open_trackers(
        folder.path,
        names=settings.track.trackers,
        project=settings.track.project,
        run=settings.name,
        settings=settings.model_dump(mode="json"),
        resume_after=step if resume else None,
    )
