"""What a run can be told. Every default is a value that is known to learn.

A run is one TOML file; each class here is one of its tables.

    name = "calculator"
    [model]
    name = "smollm2-135m-instruct"
    [algorithm]
    name = "grpo"
    [[source]]
    tasks = "questions.jsonl"
    tools = ["calculator"]
    reward = "my_rewards:correct"
"""

from collections import Counter
from pathlib import Path
from typing import Annotated, Any, Literal, get_args

from pydantic import BaseModel, ConfigDict, Field, ValidationInfo, field_validator


class Settings(BaseModel):
    """One table: frozen, its numbers finite, and an unknown key is a mistake."""

    model_config = ConfigDict(
        frozen=True, extra="forbid", allow_inf_nan=False, use_attribute_docstrings=True
    )

    @field_validator("*", mode="before")
    @classmethod
    def _no_switch_for_a_number(cls, value: Any, info: ValidationInfo) -> Any:
        """Refuse `lr = true`, which would be taken for 1."""
        if not isinstance(value, bool) or info.field_name is None:
            return value
        annotation = cls.model_fields[info.field_name].annotation
        taken = {annotation, *get_args(annotation)}
        if taken & {int, float} and bool not in taken:
            raise ValueError(f"must be a number, got {str(value).lower()}")
        return value


class LoraSettings(Settings):
    """Train low-rank adapters instead of all weights."""

    rank: int = Field(default=16, ge=1)
    """Inner width of an adapter: how much it can learn, and what it costs."""
    alpha: float = Field(default=32.0, gt=0)
    """An adapter's output is scaled by alpha / rank."""
    targets: tuple[str, ...] | None = None
    """Names of the layers to adapt; by default all linear layers but the head."""


class ModelSettings(Settings):
    """Which model is trained, and in what precision."""

    name: str
    """A folder, an entry of the zoo, or a hub id."""
    lora: LoraSettings | None = None
    """Adapters instead of all weights."""
    device: Literal["auto", "cpu", "cuda"] = "auto"
    """Where it runs; `auto` is cuda where there is one."""
    precision: Literal["auto", "float32", "bfloat16"] = "auto"
    """Of sampling and of the forward pass; the trained weights themselves stay in float32. `auto`
    is bfloat16 where the hardware computes in it."""
    gradient_checkpointing: bool = False
    """Compute activations twice instead of keeping them: slower, and far less memory."""
    trust_remote_code: bool = False
    """Run Python code that comes with the model, with your rights: only after you have read it."""
    template_options: dict[str, Any] = Field(default_factory=dict)
    """Values for variables of the chat template, such as `enable_thinking` or
    `reasoning_effort`."""


class AlgorithmSettings(Settings):
    """Which algorithm, and its own options beside the name."""

    model_config = ConfigDict(extra="allow")

    name: str = "grpo"
    """A known name, or `module:name` of your own."""

    @property
    def options(self) -> dict[str, Any]:
        """Everything in the table but the name."""
        return dict(self.model_extra or {})


class EngineSettings(Settings):
    """What samples tokens."""

    name: str = "local"
    """`local` for an engine in this process, `vllm` for vLLM servers, or `module:name` of your own:
    a function that takes an `EngineSpec` and returns an engine."""
    replicas: int = Field(default=1, ge=1)
    """Engines side by side: a chain stays with one of them, and one that fails is left out."""
    dtype: Literal["auto", "float32", "bfloat16"] = "auto"
    """Precision of sampling; `auto` is that of `model.precision`."""
    concurrency: int | None = Field(default=None, ge=1)
    """Requests that one replica works on at once; by default its share of all chains."""
    urls: tuple[str, ...] = ()
    """Addresses of running vLLM servers, each a replica; without any, servers are started here."""
    python: str | None = None
    """Interpreter of an environment that has vLLM, to start servers with; by default that of the
    variable AGENTFLY_VLLM_PYTHON, else this one, else the `vllm` on the path."""
    arguments: tuple[str, ...] = ()
    """Further options on the command line of servers that are started."""
    variables: dict[str, str] = {}
    """Further environment variables of servers that are started."""
    startup_seconds: float = Field(default=900.0, gt=0)
    """What a server has to load the model and become healthy."""
    weights: Literal["auto", "folder", "nccl"] = "auto"
    """How new weights get to servers: by a `folder` that they read; over `nccl`, by vLLM's own
    trainer side; `auto` sends adapters where adapters are trained, else a folder."""
    nccl_address: str = "127.0.0.1"
    """Address of this machine, as the servers reach it, for `weights = "nccl"`."""
    check_every: int = Field(default=10, ge=1)
    """Steps between two comparisons of the log-probabilities of an engine that has weights of its
    own with the learner's. The first two versions are always compared."""
    max_logprob_error: float | None = Field(default=None, gt=0)
    """The run ends when they differ by more than this on average; by default 0.002 where both
    compute in float32, else 0.05."""
    options: dict[str, Any] = {}
    """Anything that an engine of your own takes; it finds them in its `EngineSpec`."""

    @property
    def count(self) -> int:
        """How many engines there are to be."""
        return len(self.urls) or self.replicas


class RolloutSettings(Settings):
    """How chains are sampled."""

    tasks_per_step: int = Field(default=8, ge=1)
    """Groups that one step learns from."""
    num_chains: int = Field(default=8, ge=1)
    """Chains of each task: they form a group, which shares a baseline."""
    max_concurrent: int = Field(default=64, ge=1)
    """Chains under way at once."""
    temperature: float = Field(default=1.0, gt=0)
    """Of sampling; the learner divides by the same."""
    max_tokens: int = Field(default=512, ge=1)
    """The most that the model may say in one turn."""
    max_turns: int = Field(default=8, ge=1)
    """The most turns of one chain."""
    context_length: int | None = Field(default=None, ge=1)
    """Tokens of a whole chain; by default what the model can see at once."""
    chain_seconds: float = Field(default=600.0, gt=0)
    """A chain that takes longer, waits for others not counted, is stopped and not trained on."""
    retries: int = Field(default=1, ge=0)
    """How often a chain that failed for reasons of infrastructure is tried again."""
    max_failed_share: float = Field(default=0.5, gt=0, le=1)
    """A run ends with a message when more of a step's chains than this failed."""
    mask: str = "all_sampled"
    """Which sampled tokens are trained: the name of a mask policy, or `module:name`."""


Decay = Annotated[float, Field(ge=0, lt=1)]
"""Of a running average: 0 forgets at once, 1 never."""


class TrainSettings(Settings):
    """How the weights are changed."""

    steps: int = Field(default=100, ge=1)
    """How often chains are sampled and learned from."""
    lr: float = Field(default=1e-5, ge=0)
    """The learning rate of AdamW, after the warm-up."""
    schedule: Literal["constant", "cosine"] = "constant"
    """How the learning rate goes on after the warm-up; `cosine` falls to 0 at the last step."""
    warmup_steps: int = Field(default=0, ge=0)
    """Steps over which the learning rate rises from 0."""
    weight_decay: float = Field(default=0.0, ge=0)
    """Of AdamW."""
    betas: tuple[Decay, Decay] = (0.9, 0.999)
    """Of AdamW: how slowly its averages of gradients and of their squares forget."""
    max_grad_norm: float = Field(default=1.0, gt=0)
    """A longer gradient is scaled down to this length."""
    epochs: int = Field(default=1, ge=1)
    """How often a step goes over its chains."""
    minibatches: int = Field(default=1, ge=1)
    """Optimizer updates in one epoch of a step."""
    tokens_per_microbatch: int = Field(default=4096, ge=1)
    """Tokens that go through the model at once: the bound on memory."""
    share_prefixes: bool = True
    """Compute the prompt that a group shares once, where the model's attention allows it."""
    target_reward: float | None = None
    """Stop once the mean training reward of `target_window` steps reaches this."""
    target_window: int = Field(default=3, ge=1)
    """Over how many steps the mean is taken that is compared with `target_reward`."""

    @property
    def updates(self) -> int:
        """How often one step changes the weights."""
        return self.epochs * self.minibatches

    @field_validator("warmup_steps")
    @classmethod
    def _warm_before_the_end(cls, warmup_steps: int, info: ValidationInfo) -> int:
        steps = info.data.get("steps")
        if steps is not None and warmup_steps > steps:
            raise ValueError(f"must be at most train.steps, which is {steps}, got {warmup_steps}")
        return warmup_steps


class EvalSettings(Settings):
    """Held-out evaluation, on each source's `eval_tasks`."""

    every: int = Field(default=10, ge=0)
    """Steps between two evaluations; 0 for none but the first and the last."""
    num_chains: int = Field(default=4, ge=1)
    """Chains per task: pass@k is told for k up to this."""
    temperature: float = Field(default=1.0, ge=0)
    """0 is greedy."""
    time_limit_reward: float | None = None
    """Reward of a held-out chain that ran out of time, which counts as not solved; by default the
    least that its reward declares, or else 0."""
    at_start: bool = True
    """Whether to evaluate before the first step."""
    at_end: bool = True
    """Whether to evaluate after the last step."""


class CheckpointSettings(Settings):
    """What can be resumed."""

    every: int = Field(default=10, ge=1)
    """Steps between two checkpoints; the last step always leaves one."""
    keep: int = Field(default=2, ge=1)
    """The newest ones; the best by held-out reward is kept besides."""


class TrackSettings(Settings):
    """Where metrics go besides metrics.jsonl."""

    trackers: tuple[Literal["tensorboard", "wandb", "mlflow", "trackio"], ...] = ("tensorboard",)
    """Each but tensorboard is an extra of its own."""
    project: str = "agentfly"
    """What trackers file the run under."""


class EnvironmentSettings(Settings):
    """What all environments of a run may take together, and how each kind is kept."""

    memory_mb: float | None = Field(default=None, gt=0)
    """For all instances, by what each kind says that one takes; without a bound by default."""
    cpus: float | None = Field(default=None, gt=0)
    """The same for processors."""
    max_instances: int | None = Field(default=None, ge=1)
    """Of each kind; by default what the kind itself says."""
    min_warm: int | None = Field(default=None, ge=0)
    """How many of each kind are kept ready, made before the first chain; by default what the kind
    itself says."""


class SourceSettings(Settings):
    """One source of tasks with its own tools, reward and environment."""

    name: str = Field(default="default", min_length=1)
    """What to call it in metrics; several sources need different names."""
    environment: str | None = None
    """A ready-made one by name, which brings tasks, tools, reward and prompt unless others are
    given, or `module:name` of your own: such a one, or one that only speaks first."""
    options: dict[str, Any] = {}
    """Choices of a ready-made environment; `agentfly envs info NAME` lists them."""
    tasks: str | None = Field(default=None, validate_default=True)
    """A file (.json, .jsonl, .csv, .parquet), `module:function` that returns rows, or
    `hub:dataset`, `hub:dataset:split`, `hub:dataset:configuration:split` of a Hugging Face hub.
    A ready-made environment has its own."""
    eval_tasks: str | None = None
    """Held-out tasks, named in the same ways."""
    weight: float = Field(default=1.0, gt=0)
    """Its share of the tasks of a run, beside the other sources' weights."""
    kind: str = "tools"
    """The kind of agent: tools, react, code, tags, or `module:name`."""
    tools: tuple[str, ...] = ()
    """Ready-made tools by name, or `module:name` of your own."""
    reward: str | None = None
    """A ready-made reward by name, or `module:name` of your own."""
    group_reward: str | None = None
    """`module:name` of a reward that scores all chains of a task at once."""
    system_prompt: str | None = None
    """Put before every conversation."""
    max_turns: int | None = Field(default=None, ge=1)
    """By default the environment's, or else the rollout's."""

    @field_validator("tasks")
    @classmethod
    def _somewhere(cls, tasks: str | None, info: ValidationInfo) -> str | None:
        if tasks is None and info.data.get("environment") is None:
            raise ValueError(cls.missing_tasks())
        return tasks

    @classmethod
    def missing_tasks(cls) -> str:
        """Say what to write for `tasks` where no environment brings any."""
        meaning = cls.model_fields["tasks"].description or ""
        return f"missing. {' '.join(meaning.split())}"


class RunSettings(Settings):
    """One run."""

    name: str
    """What to call the run, and its folder."""
    folder: Path = Path("runs")
    """The run's own folder is `folder/name`."""
    seed: int = Field(default=0, ge=0)
    """The root of all randomness."""
    deterministic: bool = False
    """Bit for bit the same run each time, on one machine; about half as fast."""
    model: ModelSettings
    algorithm: AlgorithmSettings = AlgorithmSettings()
    engine: EngineSettings = EngineSettings()
    rollout: RolloutSettings = RolloutSettings()
    train: TrainSettings = TrainSettings()
    eval: EvalSettings = EvalSettings()
    checkpoint: CheckpointSettings = CheckpointSettings()
    track: TrackSettings = TrackSettings()
    environments: EnvironmentSettings = EnvironmentSettings()
    source: tuple[SourceSettings, ...] = ()
    """Where tasks come from; only code that hands them to a trainer itself leaves it empty."""

    @field_validator("name")
    @classmethod
    def _names_a_folder(cls, name: str) -> str:
        if not name.strip(" .") or not name.isprintable() or any(c in name for c in "/\\"):
            raise ValueError(f"must be the name of a folder, such as 'calculator', got {name!r}")
        return name

    @field_validator("source")
    @classmethod
    def _own_names(cls, source: tuple[SourceSettings, ...]) -> tuple[SourceSettings, ...]:
        counts = Counter(one.name for one in source)
        twice = sorted({name for name, count in counts.items() if count > 1})
        if twice:
            names = ", ".join(map(repr, twice))
            raise ValueError(f"several sources are named {names}: give each its own `name`")
        return source
