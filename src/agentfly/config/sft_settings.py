"""Settings of a supervised warm start.

name = "warm"
[model]
name = "smollm2-135m-instruct"
[data]
files = ["good_chains.jsonl", "chats.jsonl"]
keep_best = 1
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

from pydantic import Field, field_validator, model_validator

from agentfly.config.settings import (
    CheckpointSettings,
    ModelSettings,
    RunSettings,
    Settings,
    TrackSettings,
    TrainSettings,
    renamed_key,
)
from agentfly.config.settings_file import quoted_lines, read_overridden, validated


class SftDataSettings(Settings):
    """Conversations to imitate, and those held out to measure progress."""

    files: tuple[str, ...] = Field(min_length=1)
    """Trajectories (.jsonl, .jsonl.gz, or the folder of a run), or chat rows with `messages` and,
    where there are any, `tools`: a file (.json, .jsonl, .parquet), `module:function` that returns
    rows, or `hub:dataset`."""
    held_out: tuple[str, ...] = ()
    """Held-out conversations, named in the same ways and never trained on."""
    held_out_share: float = Field(default=0.05, ge=0, lt=1)
    """Share of the tasks that is held out if `held_out` is empty; 0 for none."""
    min_reward: float | None = None
    """Imitate only chains with at least this reward."""
    keep_best: int | None = Field(default=None, ge=1)
    """Imitate only this many chains of each group, those with the highest rewards."""
    retokenize: bool = False
    """Tokenize trajectories again from their messages, with this model's template: for chains
    that another model sampled."""
    kind: str = "tools"
    """Kind of agent whose format is used with `retokenize`: tools, react, code, tags, or
    `module:name`."""
    mask: str = "all_sampled"
    """Mask policy that selects the assistant's trained tokens: a name, or `module:name`."""

    @field_validator("files", "held_out", mode="before")
    @classmethod
    def _one_or_several(cls, given: Any) -> Any:
        """Take `data.files=chats.jsonl` for a list of one."""
        return (given,) if isinstance(given, str) else given

    @model_validator(mode="before")
    @classmethod
    def _read_old_key(cls, given: Any) -> Any:
        """Read the settings of runs in which an option had another spelling."""
        return renamed_key(given, "retokenise", "retokenize") if isinstance(given, dict) else given


class SftTrainSettings(Settings):
    """Optimizer, schedule and batch sizes."""

    epochs: int = Field(default=1, ge=1)
    """Number of passes over all conversations."""
    conversations_per_step: int = Field(default=16, ge=1)
    """Conversations per update."""
    lr: float = Field(default=2e-5, ge=0)
    """The learning rate of AdamW, after the warm-up."""
    schedule: Literal["constant", "cosine"] = "cosine"
    """Schedule of the learning rate after the warm-up; `cosine` falls to 0 at the last step."""
    warmup_steps: int = Field(default=0, ge=0)
    """Steps over which the learning rate rises from 0."""
    weight_decay: float = Field(default=0.0, ge=0)
    """Weight decay of AdamW."""
    max_grad_norm: float = Field(default=1.0, gt=0)
    """Maximum norm of the gradient; a longer one is scaled down."""
    tokens_per_microbatch: int = Field(default=4096, ge=1)
    """Tokens per forward pass: bounds memory, and the length of a conversation."""
    evaluate_every: int = Field(default=20, ge=0)
    """Steps between two measurements of the held-out loss; 0 for none but the first and last."""
    target_exact_turns: float | None = Field(default=None, gt=0, le=1)
    """Stop as soon as held-out turns are sampled exactly as demonstrated with this probability, at
    the place in the conversation (first turn, second, …) where it is lowest."""

    def of_learner(self, steps: int) -> TrainSettings:
        """Return the settings that the optimizer shares with reinforcement learning."""
        shared = set(TrainSettings.model_fields) - {"steps", "epochs"}
        return TrainSettings(steps=steps, **self.model_dump(include=shared))


class SftSettings(Settings):
    """One supervised warm start."""

    name: str
    """Name of the run and of its folder."""
    folder: Path = Path("runs")
    """Parent folder of runs; the run's own folder is `folder/name`."""
    seed: int = Field(default=0, ge=0)
    """Seed of all randomness: the held-out tasks and the order of training."""
    model: ModelSettings
    data: SftDataSettings
    train: SftTrainSettings = SftTrainSettings()
    checkpoint: CheckpointSettings = CheckpointSettings()
    track: TrackSettings = TrackSettings()

    @field_validator("name")
    @classmethod
    def _names_a_folder(cls, name: str) -> str:
        return RunSettings._names_a_folder(name)


def load_sft_settings(
    source: str | Path | Mapping[str, Any], overrides: Sequence[str] = ()
) -> SftSettings:
    """Read the settings of a warm start, as `load_settings` reads those of a run."""
    file, overridden = read_overridden(source, overrides)
    with quoted_lines(source, overrides):
        return validated(SftSettings, overridden.data, overridden.problems, file)
