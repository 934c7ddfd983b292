"""The supervised warm start: conversations are imitated before reinforcement learning takes over.

runs/warm/
    config.toml, metrics.jsonl, checkpoints/, log.txt    as in any run
    model/                                               the result: a Hugging Face folder

Prompts, masks and packing are those of reinforcement learning, so that the model meets nothing new
when it is trained further with `model.name = "runs/warm/model"`.
"""

import os
import signal
import threading
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, closing, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

import torch

from agentfly.agents.preflight import missing_requirements
from agentfly.agents.registry import find_mask
from agentfly.chat import TemplateRenderer
from agentfly.config.sft_settings import SftSettings
from agentfly.config.validation_errors import refuse_if_any
from agentfly.errors import ConfigError
from agentfly.models import context_length, resolve_model
from agentfly.models.zoo import config_folder
from agentfly.observe import MetricsRecord, RunProgress, Trackers, read_metrics
from agentfly.observe.heartbeat import Heartbeat
from agentfly.observe.run_folder import RunFolder, require_new
from agentfly.runtime.stop_signals import exit_on_stop_signals
from agentfly.tasks import find_rows
from agentfly.tasks.task_loading import HubDataset
from agentfly.training.checkpoint import Checkpoints, export_model
from agentfly.training.learner.memory import free_memory, report_memory
from agentfly.training.learner.policy import Policy
from agentfly.training.loop import StageTimes
from agentfly.training.run_files import (
    describe_resume,
    enter_run_folder,
    fetching,
    open_run_trackers,
    remove_unless_started,
)
from agentfly.training.run_state import TRAINER
from agentfly.training.supervised.demonstrations import Demonstrations, read_demonstrations
from agentfly.training.supervised.supervised_learner import BatchOrder, SupervisedLearner
from agentfly.types import Sample, Seed

MODEL = "model"
HELD_OUT_LOSS = "eval/loss"
EXACT_AT_WORST_PLACE = "eval/exact_turns_min"


@dataclass(frozen=True, slots=True, kw_only=True)
class SftResult:
    """The folder of a finished warm start, with its model and metrics."""

    folder: Path
    """The run's own folder."""
    steps: int

    @property
    def model(self) -> Path:
        """The trained model, to be named like any other: `model.name = "runs/warm/model"`."""
        return self.folder / MODEL

    @property
    def metrics(self) -> list[MetricsRecord]:
        """Metrics of every step."""
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
    """Fine-tune a model on conversations.

    Args:
        settings: As `load_sft_settings` reads them from a TOML file.
        resume: Go on from the last checkpoint of the run of this name.
        base: The folder that files and modules are named from; by default the working directory.
        progress: Where the run shows how far it is; by default the terminal.
    """
    refuse_if_any([*missing_requirements(settings.model, settings.track)], None)
    progress = progress or RunProgress()
    with fetching(settings, progress):
        folder = resolve_model(
            settings.model.name, trust_remote_code=settings.model.trust_remote_code
        )
    # Read first: a mistake in the data should leave no folder behind.
    with _reading(settings, progress):
        demonstrations = _demonstrations(settings, folder, base)
    with (
        exit_on_stop_signals(),
        _open_run(settings, demonstrations, progress, resume=resume) as run,
    ):
        run.run()
        return SftResult(folder=run.folder.path, steps=run.learner.step)


def rehearse_sft(settings: SftSettings, *, resume: bool = False, base: Path | None = None) -> str:
    """Read the conversations as a run would, and return how many there are; nothing is fetched.

    Raise ConfigError if the run could not begin, or not go on, with them.
    """
    run = settings.folder / settings.name
    if resume:
        _require_unfinished(settings)
        RunFolder.open(run).close()
    else:
        require_new(run)
    data, folder = settings.data, config_folder(settings.model.name)
    if folder is None or not any(folder.glob("tokenizer*")):
        return f"conversations: not read, the tokenizer of {settings.model.name} is not here"
    names = (*data.files, *data.held_out)
    if any(isinstance(find_rows(name, base=base), HubDataset) for name in names):
        return "conversations: not read, those of a hub are not fetched"
    demonstrations = _demonstrations(settings, folder, base)
    _plan(settings, demonstrations)
    return str(demonstrations)


@contextmanager
def _reading(settings: SftSettings, progress: RunProgress) -> Iterator[None]:
    """Print at once, and every thirty seconds, that the conversations are read."""
    files = ", ".join(settings.data.files)
    progress.message(f"reading {files}")
    with Heartbeat(lambda: progress.message(f"still reading {files}")):
        yield


def _demonstrations(settings: SftSettings, folder: Path, base: Path | None) -> Demonstrations:
    return read_demonstrations(
        settings.data,
        TemplateRenderer.from_folder(folder, template_options=settings.model.template_options),
        mask=find_mask(settings.data.mask, base=base),
        max_tokens=min(context_length(folder), settings.train.tokens_per_microbatch),
        seed=Seed(settings.seed),
        base=base,
    )


def _plan(settings: SftSettings, demonstrations: Demonstrations) -> BatchOrder:
    """Return the batches of all steps; ConfigError if the settings don't fit them."""
    plan = BatchOrder(
        samples=demonstrations.train,
        per_step=settings.train.conversations_per_step,
        epochs=settings.train.epochs,
        seed=Seed(settings.seed),
    )
    _require_warmup_fits(settings, plan)
    _require_measured_target(settings, demonstrations)
    return plan


@dataclass(slots=True, kw_only=True)
class _SftRun:
    """A run whose parts are all open."""

    settings: SftSettings
    folder: RunFolder
    policy: Policy
    learner: SupervisedLearner
    plan: BatchOrder
    held_out: tuple[Sample, ...]
    digest: str
    """Checksum of all conversations."""
    checkpoints: Checkpoints
    trackers: Trackers
    progress: RunProgress
    saved_step: int
    """The step of the newest checkpoint; 0 where there is none."""
    _whole: bool = True
    """The last step was learned to its end and logged: otherwise the weights are not saved."""
    _loss: float | None = None
    """Held-out loss of the current weights, where it was measured."""
    _reached: bool = False
    """The held-out turns are imitated as well as `train.target_exact_turns` demands."""
    _times: StageTimes = field(init=False)
    """Times of the current step; the time of saving counts for the step after it."""

    def run(self) -> None:
        """Go on to the last step, and leave the model; what was learned is saved also on Ctrl-C."""
        self.progress.start(self.plan.steps, done=self.learner.step)
        try:
            logged = read_metrics(self.folder.metrics_file)
            if self.held_out and not logged:
                self.trackers.log(self._evaluate(), 0)
            self._reached = any(self._reaches_target(record.metrics) for record in logged)
            self._times = StageTimes()
            while self.learner.step < self.plan.steps and not self._reached:
                with ctrl_c_waits():
                    self._one_step()
        finally:
            if self._whole and self.learner.step > self.saved_step:
                self._save()
        model = self.folder.path / MODEL
        export_model(self.policy.export, model)
        self.progress.message(f"the model is in {model}")

    def _one_step(self) -> None:
        """Save after the step is logged: a run killed in between repeats it, and loses no line."""
        self._whole, step = False, self.learner.step + 1
        with self._times("training"):
            learned = self.learner.learn(self.plan.batch(step))
        metrics = {f"train/{name}": value for name, value in learned.metrics.items()}
        if self._due(step, self.settings.train.evaluate_every) and self.held_out:
            with self._times("evaluating"):
                metrics |= self._evaluate()
        self._log(step, metrics)
        if self.saved_step == 0 or self._due(step, self.settings.checkpoint.every):
            with self._times("saving"):
                self._save()

    def _log(self, step: int, metrics: dict[str, float]) -> None:
        metrics |= self._times.metrics()
        self.trackers.log(metrics, step)
        self.progress.step_done(step, metrics)
        self._whole, self._loss = True, metrics.get(HELD_OUT_LOSS)
        self._times = StageTimes()
        self._reached = self._reaches_target(metrics)

    def _reaches_target(self, metrics: Mapping[str, float]) -> bool:
        target = self.settings.train.target_exact_turns
        return target is not None and metrics.get(EXACT_AT_WORST_PLACE, 0.0) >= target

    def _due(self, step: int, every: int) -> bool:
        return step == self.plan.steps or (every > 0 and step % every == 0)

    def _evaluate(self) -> dict[str, float]:
        measured = self.learner.evaluate(self.held_out)
        self.progress.message(
            f"held-out loss {measured.loss:.4f} after step {self.learner.step}, "
            f"turns exactly as demonstrated {measured.exact:.0%}"
        )
        return {
            HELD_OUT_LOSS: measured.loss,
            "eval/exact_turns": measured.exact,
            EXACT_AT_WORST_PLACE: measured.exact_at_worst_place,
        }

    def _save(self) -> None:
        score = None if self._loss is None else -self._loss
        self.checkpoints.save(self.learner.step, self._write, score=score)
        self.saved_step = self.learner.step

    def _write(self, folder: Path) -> None:
        self.policy.save(folder)
        state = {"learner": self.learner.state_dict(), "conversations": self.digest}
        torch.save(state, folder / TRAINER)


@contextmanager
def _open_run(
    settings: SftSettings, demonstrations: Demonstrations, progress: RunProgress, *, resume: bool
) -> Iterator[_SftRun]:
    """Open what a run needs; a resumed one stands exactly where its last checkpoint was."""
    plan = _plan(settings, demonstrations)
    if resume:
        _require_unfinished(settings)
    with ExitStack() as stack:
        folder = stack.enter_context(enter_run_folder(settings, progress, resume=resume))
        with remove_unless_started(folder, resume=resume):
            progress.message(str(demonstrations))
            checkpoints = Checkpoints(folder.checkpoints_folder, keep=settings.checkpoint.keep)
            policy = Policy.load(settings.model, seed=settings.seed)
            learner = SupervisedLearner(policy, settings.train.of_learner(plan.steps))
            report_memory(learner.memory(), free_memory(policy.device))
            if checkpoint := checkpoints.latest():
                policy.restore(checkpoint.path)
                state = torch.load(checkpoint.path / TRAINER, map_location="cpu", weights_only=True)
                _require_same_conversations(state["conversations"], demonstrations)
                learner.load_state_dict(state["learner"])
            if resume:
                progress.message(describe_resume(folder, learner.step))
            trackers = open_run_trackers(folder, settings, learner.step, resume=resume)
            run = _SftRun(
                settings=settings,
                folder=folder,
                policy=policy,
                learner=learner,
                plan=plan,
                held_out=demonstrations.held_out,
                digest=demonstrations.digest,
                checkpoints=checkpoints,
                trackers=stack.enter_context(closing(trackers)),
                progress=progress,
                saved_step=learner.step,
            )
        yield run


def _require_same_conversations(digest: str, demonstrations: Demonstrations) -> None:
    if digest != demonstrations.digest:
        raise ConfigError(
            "the run was started with other conversations than its files give now: resume with "
            "the files as they were, or give a new run another name"
        )


def _require_warmup_fits(settings: SftSettings, plan: BatchOrder) -> None:
    if settings.train.warmup_steps > plan.steps:
        raise ConfigError(
            f"train.warmup_steps is {settings.train.warmup_steps}, but {len(plan.samples)} "
            f"conversations give only {plan.steps} steps: lower it, or raise train.epochs"
        )


def _require_measured_target(settings: SftSettings, demonstrations: Demonstrations) -> None:
    train = settings.train
    if train.target_exact_turns is not None and not (
        demonstrations.held_out and train.evaluate_every
    ):
        raise ConfigError(
            "train.target_exact_turns is measured on held-out conversations, and there are none "
            f"(held out: {len(demonstrations.held_out)}, train.evaluate_every: "
            f"{train.evaluate_every}): raise data.held_out_share and train.evaluate_every, or "
            "leave the target out"
        )


def _require_unfinished(settings: SftSettings) -> None:
    model = settings.folder / settings.name / MODEL
    if model.exists():
        raise ConfigError(
            f"the run {settings.name!r} is done, and its model is in {model}: "
            "choose another name for a new run"
        )


@contextmanager
def ctrl_c_waits() -> Iterator[None]:
    """Let Ctrl-C take effect after the block: half an update leaves weights that belong to no step.

    Pressed once more, it takes effect at once. A handler that is already installed stays. The
    message bypasses the buffers of stdout and stderr: the signal may come in the middle of a write,
    and a second one inside of it raises.
    """
    in_main_thread = threading.current_thread() is threading.main_thread()
    if not in_main_thread or signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
        yield
        return
    pressed = False

    def note(*_: object) -> None:
        nonlocal pressed
        pressed = True
        signal.signal(signal.SIGINT, signal.default_int_handler)
        with suppress(OSError):
            os.write(2, b"stopping after this step; Ctrl-C stops at once\n")

    signal.signal(signal.SIGINT, note)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    if pressed:
        raise KeyboardInterrupt
