"""Settings of a run. Every default is a value that is known to work.

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
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar, get_args

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    ValidationInfo,
    field_validator,
    model_validator,
)

T = TypeVar("T")

LONGEST_FILE_NAME = 255
"""Maximum bytes of the name of a file or folder, on all usual file systems."""


class Settings(BaseModel):
    """Base of all tables: frozen, finite numbers only, unknown keys refused."""

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


def renamed_key(table: dict[str, Any], old: str, new: str) -> dict[str, Any]:
    """Return a table with a key under its new name.

    >>> renamed_key({"normalise": True, "discount": 1.0}, "normalise", "normalize")
    {'normalize': True, 'discount': 1.0}
    """
    if new in table:
        return table
    return {new if key == old else key: value for key, value in table.items()}


class LoraSettings(Settings):
    """Train low-rank adapters instead of all weights."""

    rank: int = Field(default=16, ge=1)
    """Rank of an adapter: higher learns more and costs more."""
    alpha: float = Field(default=32.0, gt=0)
    """An adapter's output is scaled by alpha / rank."""
    targets: tuple[str, ...] | None = None
    """Names of the layers to adapt; by default all linear layers except the head."""
    base_bits: Literal[4, 8] | None = None
    """Round the frozen base to so many bits per weight, by bitsandbytes; by default it stays in
    float32. With one learner process only."""


class ModelSettings(Settings):
    """The trained model, its device and precision."""

    name: str
    """A folder, a built-in model, or a hub id."""
    lora: LoraSettings | None = None
    """LoRA adapters; by default all weights are trained."""
    device: Literal["auto", "cpu", "cuda"] = "auto"
    """Device of the model; `auto` is cuda if available."""
    precision: Literal["auto", "float32", "bfloat16"] = "auto"
    """Precision of sampling and of the forward pass; the trained weights stay in float32. `auto`
    is bfloat16 if the hardware supports it."""
    gradient_checkpointing: bool = False
    """Recompute activations instead of keeping them: slower, with far less memory."""
    trust_remote_code: bool = False
    """Run Python code that comes with the model, with your rights: read it first."""
    template_options: dict[str, Any] = Field(default_factory=dict)
    """Values for variables of the chat template, such as `enable_thinking` or
    `reasoning_effort`."""


class AlgorithmSettings(Settings):
    """The algorithm, with its own options next to the name."""

    model_config = ConfigDict(extra="allow")

    name: str = "grpo"
    """A known name, or `module:name` of your own."""

    @model_validator(mode="before")
    @classmethod
    def _read_old_key(cls, given: Any) -> Any:
        """Read the settings of runs in which this option of PPO had another spelling."""
        if isinstance(given, dict) and given.get("name") == "ppo":
            return renamed_key(given, "normalise", "normalize")
        return given

    @property
    def options(self) -> dict[str, Any]:
        """Everything in the table but the name."""
        return dict(self.model_extra or {})


class EngineSettings(Settings):
    """The engine that samples tokens."""

    name: str = "local"
    """`local` for an engine in this process, `vllm` for vLLM servers, or one of your own by
    `module:name` or entry point: a function that takes an `EngineSpec` and returns an engine."""
    replicas: int = Field(default=1, ge=1)
    """Number of engines; a chain stays with one of them, and a failed one is taken out."""
    dtype: Literal["auto", "float32", "bfloat16"] = "auto"
    """Precision of sampling; `auto` is that of `model.precision`."""
    concurrency: int | None = Field(default=None, ge=1)
    """Concurrent requests per replica; by default its share of all chains."""
    urls: tuple[str, ...] = ()
    """Addresses of running vLLM servers, each a replica; without any, servers are started here."""
    python: str | None = None
    """Interpreter of an environment that has vLLM, to start servers with; by default that of the
    variable AGENTFLY_VLLM_PYTHON, else this one, else the `vllm` on the path."""
    arguments: tuple[str, ...] = ()
    """Additional command-line options of servers that are started."""
    variables: dict[str, str] = {}
    """Additional environment variables of servers that are started."""
    gpus: tuple[int, ...] = ()
    """Numbers of the GPUs of servers that are started here, divided evenly among the replicas; a
    server with several splits the model over them. By default each sees all of them."""
    startup_seconds: float = Field(default=900.0, gt=0)
    """Seconds that a server has to load the model and become healthy."""
    weights: Literal["auto", "folder", "nccl"] = "auto"
    """Transport of new weights to servers: a `folder` that they read, or `nccl` by vLLM's own
    trainer side; `auto` sends adapters if adapters are trained, else a folder."""
    nccl_address: str = "127.0.0.1"
    """Address of this machine, as the servers reach it, for `weights = "nccl"`."""
    check_every: int = Field(default=10, ge=1)
    """Steps between two comparisons of the engine's log-probabilities with the learner's, for an
    engine that weights are sent to, such as a server; an engine in this process is not compared.
    The first two versions are always compared."""
    max_logprob_error: float | None = Field(default=None, gt=0)
    """Maximum mean difference of log-probabilities before the run ends; by default 0.002 if both
    compute in float32, else twice what the learner's own rounding makes, and at least 0.05."""
    options: dict[str, Any] = {}
    """Options of your own engine, which gets them in its `EngineSpec`."""

    @property
    def count(self) -> int:
        """Number of engines."""
        return len(self.urls) or self.replicas


class RolloutSettings(Settings):
    """Sampling of chains."""

    tasks_per_step: int = Field(default=8, ge=1)
    """Groups per step."""
    num_chains: int = Field(default=8, ge=1)
    """Chains per task; they form a group, which shares a baseline."""
    max_concurrent: int = Field(default=64, ge=1)
    """Maximum number of concurrent chains."""
    spare_chains: int = Field(default=0, ge=0)
    """Chains that are begun per task in addition to `num_chains`. They replace chains that failed,
    and are stopped as soon as they are not needed."""
    favor_fast: bool = False
    """Keep the `num_chains` chains that end first and stop the others. This favors short chains:
    `chains/kept_length_ratio` reports how much."""
    max_staleness: int = Field(default=0, ge=0)
    """Maximum number of updates by which the weights that sampled a trained token may be behind. 0
    samples and trains in turn; 1 or more samples while the learner works."""
    temperature: float = Field(default=1.0, gt=0)
    """Temperature of sampling; the learner divides by the same."""
    max_tokens: int = Field(default=512, ge=1)
    """Maximum number of sampled tokens per turn."""
    max_turns: int = Field(default=8, ge=1)
    """Maximum number of turns per chain; an environment's own limit, or the source's, comes
    first."""
    context_length: int | None = Field(default=None, ge=1)
    """Maximum tokens of a whole chain; by default the model's context length."""
    chain_seconds: float = Field(default=600.0, gt=0)
    """Time limit of a chain, waiting for others not counted; a late chain is not trained on."""
    stall_seconds: float = Field(default=1800.0, gt=0)
    """Time without any progress after which a chain, and anything else that stands still, is named
    in the log, recorded with all stacks in `stalls/`, and ended. Longer than any single tool call
    and any step of the learner."""
    retries: int = Field(default=1, ge=0)
    """Maximum retries of a chain after a failure of infrastructure."""
    max_failed_share: float = Field(default=0.5, gt=0, le=1)
    """Maximum share of failed chains in a step before the run ends with a message."""
    mask: str = "all_sampled"
    """Mask policy that selects the trained tokens: a name, or `module:name`."""


Decay = Annotated[float, Field(ge=0, lt=1)]
"""Decay of a running average, from 0 to below 1."""


class TrainSettings(Settings):
    """Optimizer, schedule and batch sizes."""

    steps: int = Field(default=100, ge=1)
    """Number of steps; each samples chains and updates the weights."""
    lr: float | None = Field(default=None, ge=0)
    """The learning rate of AdamW, after the warm-up. By default by the number of trained
    parameters: 2e-5 for 135 million, 3e-6 for 1.5 billion, 1e-6 for 7 billion; adapters are few
    parameters, and get a higher one."""
    schedule: Literal["constant", "cosine"] = "constant"
    """Schedule of the learning rate after the warm-up; `cosine` falls to 0 at the last step."""
    warmup_steps: int = Field(default=0, ge=0)
    """Steps over which the learning rate rises from 0."""
    critic_lr: float | None = Field(default=None, ge=0)
    """Learning rate of the critic, where an algorithm has one; by default `lr`."""
    critic_warmup_steps: int | None = Field(default=None, ge=0)
    """Steps over which the critic's learning rate rises from 0; by default `warmup_steps`."""
    weight_decay: float = Field(default=0.0, ge=0)
    """Weight decay of AdamW."""
    betas: tuple[Decay, Decay] = (0.9, 0.999)
    """Decay rates of AdamW's averages of gradients and of their squares."""
    max_grad_norm: float = Field(default=1.0, gt=0)
    """Maximum norm of the gradient; a longer one is scaled down."""
    epochs: int = Field(default=1, ge=1)
    """Passes over the chains of a step."""
    minibatches: int = Field(default=1, ge=1)
    """Optimizer updates per epoch of a step."""
    tokens_per_microbatch: int = Field(default=4096, ge=1)
    """Tokens per forward pass: bounds memory."""
    share_prefixes: bool = True
    """Compute the shared prompt of a group once, if the model's attention allows it."""
    target_reward: float | None = None
    """Stop once the mean training reward of `target_window` steps reaches this."""
    target_window: int = Field(default=3, ge=1)
    """Number of steps averaged for `target_reward`."""

    @property
    def updates(self) -> int:
        """Optimizer updates per step."""
        return self.epochs * self.minibatches

    def of_critic(self) -> "TrainSettings":
        """Return the same settings with the critic's learning rate and warm-up."""
        lr = self.lr if self.critic_lr is None else self.critic_lr
        own = self.critic_warmup_steps
        warmup = self.warmup_steps if own is None else own
        return self.model_copy(update={"lr": lr, "warmup_steps": warmup})

    @field_validator("warmup_steps", "critic_warmup_steps")
    @classmethod
    def _warm_before_the_end(cls, warmup_steps: int | None, info: ValidationInfo) -> int | None:
        steps = info.data.get("steps")
        if steps is not None and warmup_steps is not None and warmup_steps > steps:
            raise ValueError(f"must be at most train.steps, which is {steps}, got {warmup_steps}")
        return warmup_steps


class LearnerSettings(Settings):
    """Processes of the learner, over which FSDP2 spreads the weights."""

    processes: int = Field(default=1, ge=1)
    """Number of processes, which are started on this machine; with torchrun, it says how many."""
    offload_optimizer: bool = False
    """Keep weights in float32 and the optimizer's averages in the machine's memory instead of the
    GPU's; without effect on processors."""
    offload_reference: bool = False
    """Keep the reference in the machine's memory instead of the GPU's; without effect on
    processors."""
    timeout_seconds: float = Field(default=600.0, gt=0)
    """Seconds that a process waits for the others before it considers them lost."""
    max_restarts: int = Field(default=3, ge=0)
    """Times that a run goes on from its last checkpoint after it lost a process of its learner."""

    @property
    def sharded(self) -> bool:
        """Whether weights go through FSDP2, which offloads on a single process, too."""
        return self.processes > 1 or self.offload_optimizer or self.offload_reference


class EvalSettings(Settings):
    """Held-out evaluation, on each source's `eval_tasks`."""

    every: int = Field(default=10, ge=0)
    """Steps between two evaluations; 0 for the first and the last only."""
    num_chains: int = Field(default=4, ge=1)
    """Chains per task; pass@k is reported for k up to this."""
    max_tasks: int | None = Field(default=None, ge=1)
    """Maximum held-out tasks of each source, spread evenly over its list; by default all."""
    temperature: float = Field(default=1.0, ge=0)
    """Temperature of sampling; 0 is greedy."""
    time_limit_reward: float | None = None
    """Reward of a held-out chain that ran out of time, which counts as not solved; by default the
    minimum that its reward declares, or else 0."""
    at_start: bool = True
    """Evaluate before the first step."""
    at_end: bool = True
    """Evaluate after the last step."""

    @property
    def is_on(self) -> bool:
        """Whether a run evaluates at all."""
        return self.every > 0 or self.at_start or self.at_end

    def select(self, tasks: Sequence[T]) -> list[T]:
        """Return at most `max_tasks` of a source's held-out tasks, spread evenly over the list.

        >>> EvalSettings(max_tasks=3).select("abcdefg")
        ['a', 'c', 'e']
        """
        size = len(tasks)
        kept = size if self.max_tasks is None else min(self.max_tasks, size)
        return [tasks[number * size // kept] for number in range(kept)]

    def size_text(self, tasks: int) -> str:
        """Return how many chains an evaluation takes, with the setting that decides it.

        >>> EvalSettings(num_chains=4).size_text(24)
        'each evaluation takes 96 chains: 24 held-out tasks, eval.num_chains = 4'
        """
        held_out = "1 held-out task" if tasks == 1 else f"{tasks} held-out tasks"
        chains = f"{tasks * self.num_chains} chains"
        return f"each evaluation takes {chains}: {held_out}, eval.num_chains = {self.num_chains}"


class CheckpointSettings(Settings):
    """Checkpoints, from which a run can be resumed."""

    every: int = Field(default=10, ge=1)
    """Steps between two checkpoints; the first step and the last always write one, and so does a
    step with a new best held-out reward."""
    keep: int = Field(default=2, ge=1)
    """Number of newest checkpoints kept; the best by held-out reward is kept too."""


class TrackSettings(Settings):
    """Trackers of metrics, in addition to metrics.jsonl."""

    trackers: tuple[Literal["tensorboard", "wandb", "mlflow", "trackio"], ...] = ("tensorboard",)
    """Names of trackers; each except tensorboard needs its own extra."""
    project: str = "agentfly"
    """Project name of the run in trackers."""


class EnvironmentSettings(Settings):
    """Limits of all environments of a run together, and of each kind."""

    memory_mb: float | None = Field(default=None, gt=0)
    """Memory of all instances, by what each kind declares per instance; unbounded by default."""
    cpus: float | None = Field(default=None, gt=0)
    """CPUs of all instances, in the same way."""
    max_instances: int | None = Field(default=None, ge=1)
    """Maximum instances of each kind; by default the kind's own limit."""
    min_warm: int | None = Field(default=None, ge=0)
    """Instances of each kind that are kept ready, made before the first chain; by default the
    kind's own number."""


class ClusterSettings(Settings):
    """A Ray cluster for environments, engines, learner processes, and heavy tools and rewards.

    Without this table nothing uses Ray.
    """

    ray: str = Field(min_length=1)
    """`auto` joins the cluster that runs on this machine, an address such as `10.0.0.1:6379` that
    of another, and `local` starts one here, which ends with the run."""
    instances_per_actor: int = Field(default=256, ge=1)
    """Maximum environments in one actor; fewer where the nodes are many or have less room."""
    engines: Literal["cluster", "here"] = "cluster"
    """Whether engine replicas are actors on the nodes, or stay in the learner's process."""
    engine_cpus: float = Field(default=1.0, ge=0)
    """CPUs that an engine replica reserves on its node, and as many threads for torch."""
    engine_gpus: float | None = Field(default=None, ge=0)
    """GPUs that a replica reserves; by default 1 if the nodes have any."""
    learner_cpus: float = Field(default=1.0, gt=0)
    """CPUs that each of several learner processes reserves, and as many threads for torch."""
    learner_gpus: float | None = Field(default=None, ge=0)
    """GPUs that each learner process reserves; by default 1 if the nodes have any."""
    weights: Literal["objects", "folder"] = "objects"
    """Transport of new weights to local engines: Ray's object store, in chunks, or a `folder` that
    all nodes can read. vLLM servers always read a folder."""
    start_seconds: float = Field(default=120.0, gt=0)
    """Seconds that an actor has to start on its node."""
    cpus: float | None = Field(default=None, gt=0)
    """CPUs of a `local` cluster; by default those of this machine."""
    object_store_mb: float | None = Field(default=None, ge=75)
    """Shared memory for objects of a `local` cluster; by default a share of the free memory."""
    runtime_env: dict[str, Any] = {}
    """Ray's runtime environment of all workers, such as `working_dir` or `env_vars`."""

    @field_validator("ray")
    @classmethod
    def _no_client(cls, ray: str) -> str:
        if ray.startswith("ray://"):
            raise ValueError(
                f"got {ray!r}: Ray's client protocol is not supported. Start the run on a machine "
                "of the cluster, with 'auto' or the address of its head, such as '10.0.0.1:6379'"
            )
        return ray


class SourceSettings(Settings):
    """One source of tasks with its own tools, reward and environment."""

    name: str = Field(default="default", min_length=1)
    """Name in metrics; several sources need different names."""
    environment: str | None = None
    """Name of a built-in environment, which provides tasks, tools, reward and prompt unless others
    are given, or `module:name` of your own: an environment definition or class."""
    options: dict[str, Any] = {}
    """Options of a built-in environment, which `agentfly envs info NAME` lists, or of a definition
    of your own. A class of your own takes none: name a `functools.partial` of it."""
    tasks: str | None = Field(default=None, validate_default=True)
    """A file (.json, .jsonl, .csv, .parquet), `module:function` that returns rows, or
    `hub:dataset`, `hub:dataset:split`, `hub:dataset:configuration:split` of a Hugging Face hub.
    A built-in environment has its own."""
    eval_tasks: str | None = None
    """Held-out tasks, named in the same ways."""
    weight: float = Field(default=1.0, gt=0)
    """Share of the tasks of a run, relative to the other sources' weights."""
    kind: str = "tools"
    """Kind of agent: tools, react, code, tags, or `module:name`."""
    example: Literal["auto", "never"] = "auto"
    """Worked example before every conversation. With `auto` a short trial at the start of the run
    finds out whether the model calls its tools; if it does not, a call that solves one of the tasks
    is searched for, and shown before all others."""
    tools: tuple[str, ...] = ()
    """Built-in tools by name, or `module:name` of your own."""
    reward: str | None = None
    """A built-in reward by name, or `module:name` of your own."""
    group_reward: str | None = None
    """`module:name` of a reward that scores all chains of a task at once."""
    system_prompt: str | None = None
    """System prompt of every conversation."""
    max_turns: int | None = Field(default=None, ge=1)
    """Maximum turns per chain; by default the environment's, or else the rollout's."""

    @field_validator("tasks")
    @classmethod
    def _somewhere(cls, tasks: str | None, info: ValidationInfo) -> str | None:
        if tasks is None and info.data.get("environment") is None:
            raise ValueError(cls.missing_tasks())
        return tasks

    @classmethod
    def missing_tasks(cls) -> str:
        """Return the message for missing `tasks` where no environment provides any."""
        meaning = cls.model_fields["tasks"].description or ""
        return f"missing. {' '.join(meaning.split())}"


class RunSettings(Settings):
    """All settings of a run."""

    name: str
    """Name of the run and of its folder."""
    folder: Path = Path("runs")
    """Parent folder of runs; the run's own folder is `folder/name`."""
    seed: int = Field(default=0, ge=0)
    """Seed of all randomness."""
    deterministic: bool = False
    """Repeat bit for bit on one machine; about half as fast."""
    model: ModelSettings
    algorithm: AlgorithmSettings = AlgorithmSettings()
    engine: EngineSettings = EngineSettings()
    rollout: RolloutSettings = RolloutSettings()
    train: TrainSettings = TrainSettings()
    learner: LearnerSettings = LearnerSettings()
    eval: EvalSettings = EvalSettings()
    checkpoint: CheckpointSettings = CheckpointSettings()
    track: TrackSettings = TrackSettings()
    environments: EnvironmentSettings = EnvironmentSettings()
    cluster: ClusterSettings | None = None
    """Ray cluster of the run; by default everything runs on this machine, without Ray."""
    source: tuple[SourceSettings, ...] = ()
    """Sources of tasks; empty only if code gives them to a trainer itself."""

    @field_validator("name")
    @classmethod
    def _names_a_folder(cls, name: str) -> str:
        if not name.strip(" .") or not name.isprintable() or any(c in name for c in "/\\"):
            raise ValueError(f"must be the name of a folder, such as 'calculator', got {name!r}")
        if name.startswith("-"):  # `agentfly show -x` would take it for an option.
            raise ValueError(f"must not begin with -, as options of commands do, got {name!r}")
        if (size := len(name.encode())) > LONGEST_FILE_NAME:
            most = f"at most {LONGEST_FILE_NAME} bytes"
            raise ValueError(f"must have {most}, as the name of a folder, got {size}")
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
