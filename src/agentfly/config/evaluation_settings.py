"""Settings of an evaluation, which are kept with its results."""

from pathlib import Path
from typing import Any, Literal

from pydantic import Field, field_validator

from agentfly.config.settings import EngineSettings, RunSettings, Settings, SourceSettings


class EvaluatedModelSettings(Settings):
    """The evaluated model."""

    name: str
    """A folder, a built-in model, a hub id, or a server's name for its model."""
    url: str | None = None
    """Address of a chat server; by default the model is sampled by the engine."""
    api_key_env: str | None = None
    """Environment variable that holds the server's key."""
    run: str | None = None
    """Folder of the run whose checkpoints are evaluated."""
    trust_remote_code: bool = False
    """Run Python code that comes with the model, with your rights: read it first."""
    template_options: dict[str, Any] = Field(default_factory=dict)
    """Values for variables of the chat template."""


class EvaluatedCheckpoint(Settings):
    """A model folder, and the step of the run that wrote it."""

    step: int = Field(ge=0)
    folder: str


class AttemptSettings(Settings):
    """Attempts at the tasks."""

    num_chains: int = Field(default=1, ge=1)
    """Attempts at each task; pass@k and pass^k are reported for k up to this."""
    temperature: float = Field(default=1.0, ge=0)
    """Temperature of sampling; 0 is greedy."""
    top_p: float = Field(default=1.0, gt=0, le=1)
    """Sample only from the most probable tokens with this probability together."""
    max_tokens: int = Field(default=512, ge=1)
    """Maximum number of sampled tokens per turn."""
    max_turns: int = Field(default=8, ge=1)
    """Maximum number of turns per chain, where its environment says nothing else."""
    context_length: int | None = Field(default=None, ge=1)
    """Maximum tokens of a whole chain; by default the model's context length."""
    chain_seconds: float = Field(default=600.0, gt=0)
    """Time limit of a chain; one that is late counts as not solved."""
    time_limit_reward: float | None = None
    """Reward of a chain that ran out of time; by default the minimum that its reward declares, or
    else 0."""
    max_concurrent: int = Field(default=64, ge=1)
    """Maximum number of concurrent chains."""
    retries: int = Field(default=1, ge=0)
    """Maximum retries of a chain after a failure of infrastructure."""
    max_failed_share: float = Field(default=0.5, gt=0, le=1)
    """Maximum share of failed chains before the evaluation ends with a message."""


class PriceSettings(Settings):
    """Prices of a million tokens, in any currency."""

    prompt: float = Field(default=0.0, ge=0)
    sampled: float = Field(default=0.0, ge=0)

    def cost(self, prompt_tokens: float, sampled_tokens: float) -> float:
        """Return the price of some tokens.

        >>> PriceSettings(prompt=2.0, sampled=8.0).cost(500_000, 250_000)
        3.0
        """
        return (self.prompt * prompt_tokens + self.sampled * sampled_tokens) / 1e6


class EvaluationSettings(Settings):
    """One evaluation of a model, or of several checkpoints of a run."""

    name: str
    """Name of the evaluation and of its folder."""
    folder: Path = Path("runs")
    """Parent folder of runs; the evaluation's own folder is `folder/name`."""
    seed: int = Field(default=0, ge=0)
    """Seed of all sampling; a server has its own."""
    deterministic: bool = False
    """Repeat bit for bit on one machine; about half as fast."""
    tasks: Literal["held-out", "training"] = "held-out"
    """Which tasks of a source are attempted; a source without held-out tasks has all in one."""
    count: int | None = Field(default=None, ge=1)
    """Only the first tasks of each source."""
    by: tuple[str, ...] = ()
    """Fields of tasks, each of whose values gets a row of the table."""
    model: EvaluatedModelSettings
    engine: EngineSettings = EngineSettings()
    attempts: AttemptSettings = AttemptSettings()
    prices: PriceSettings | None = None
    """Prices of tokens; without them no costs are computed."""
    checkpoint: tuple[EvaluatedCheckpoint, ...] = ()
    """Checkpoints of a run; by default the model as it is."""
    source: tuple[SourceSettings, ...] = ()
    """Sources of tasks."""

    @field_validator("name")
    @classmethod
    def _names_a_folder(cls, name: str) -> str:
        return RunSettings._names_a_folder(name)
