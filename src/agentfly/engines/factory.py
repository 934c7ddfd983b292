"""From the table `[engine]` of the settings to an engine: the only place where engines are made.

Trainer, evaluation, `agentfly chat` and agents of a named model pass the model to sample from in an
`EngineSpec`; the name in the settings selects the engine. An engine of your own is a function that
takes such a spec, named `module:name` or by an entry point in the group `agentfly.engines`.
"""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from agentfly.config import ClusterSettings, EngineSettings, PluginKind, Problem
from agentfly.engines.replicas import ReplicatedEngine
from agentfly.errors import ConfigError
from agentfly.types import Tokenizer, TrainableEngine, Weights

GIB = 2**30
START_SETTINGS = ("python", "arguments", "variables", "gpus")
"""Keys of `[engine]` about starting a vLLM server."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineSpec:
    """Everything that an engine is made of."""

    folder: Path
    """The model, as a Hugging Face folder."""
    load: Callable[[str], Any]
    """Returns the torch module, read in a dtype such as "float32". What is in training already is
    returned as it is."""
    settings: EngineSettings = field(default_factory=EngineSettings)
    tokenizer: Tokenizer | None = None
    """For stop strings."""
    context_length: float = math.inf
    """Longest sequence that is needed."""
    dtype: str | None = None
    """Precision of sampling, such as "bfloat16"; None for what suits the hardware. The settings'
    own goes before it."""
    concurrency: int = 64
    """Requests under way at once, over all replicas."""
    version: int = 0
    """Version of the weights as they are now."""
    lora_rank: int | None = None
    """Rank of the adapters that will be published; None where all weights will be."""
    cache_bytes: int = 4 * GIB
    """Memory for keys and values, over all replicas that are in this process."""
    deterministic: bool = False
    copies_weights: bool = False
    """Whether it has to sample from a copy of the weights, while a learner changes them."""
    log_folder: Path | None = None
    """Folder for the logs of started servers; a temporary folder by default."""
    replica: int = 0
    """Number of this engine among `settings.count`."""

    @property
    def precision(self) -> str | None:
        """Precision of sampling: that of the settings, or else that of the spec."""
        return self.dtype if self.settings.dtype == "auto" else self.settings.dtype

    @property
    def own_concurrency(self) -> int:
        """Requests that this one replica works on at once."""
        share = math.ceil(self.concurrency / self.settings.count)
        return self.settings.concurrency or share

    @property
    def own_gpus(self) -> tuple[int, ...]:
        """Numbers of this one replica's GPUs; empty if the settings name none."""
        count = len(self.settings.gpus) // self.settings.count
        return self.settings.gpus[self.replica * count : (self.replica + 1) * count]


EngineMaker = Callable[[EngineSpec], TrainableEngine]
"""Function that makes one replica. Slow work is left to the engine's first use."""


def _make_local(spec: EngineSpec) -> TrainableEngine:
    try:
        from agentfly.engines.local.engine import make_local
    except ImportError as error:
        raise ConfigError(
            f"running a model here needs the extra `local` ({error.name} is missing): "
            "pip install 'agentfly[local]'"
        ) from error
    return make_local(spec)


ENGINES: PluginKind[EngineMaker] = PluginKind(
    what="engine",
    group="agentfly.engines",
    builtin={
        "local": _make_local,
        "vllm": "agentfly.engines.vllm.maker:make_vllm",
    },
    fits=callable,
    way_out="name a function that takes an EngineSpec and returns an engine",
)


def make_engine(spec: EngineSpec, make: EngineMaker | None = None) -> TrainableEngine:
    """Make the engine that the settings name, or what `make` returns, as often as they say.

    >>> settings = EngineSettings(replicas=2)
    >>> spec = EngineSpec(settings=settings, folder=folder, load=load)     # doctest: +SKIP
    >>> make_engine(spec)                                                  # doctest: +SKIP
    ReplicatedEngine(...)
    """
    make = make or ENGINES.find(spec.settings.name)
    if spec.settings.count == 1:
        return make(spec)
    replicas = range(spec.settings.count)
    return ReplicatedEngine([make(replace(spec, replica=number)) for number in replicas])


def samples_here(settings: EngineSettings) -> bool:
    """Return whether the engine may use memory of this process: all but servers do."""
    return settings.name != "vllm"


def placed_on_cluster(settings: EngineSettings, cluster: ClusterSettings | None) -> bool:
    """Return whether replicas are actors of a cluster: all but running servers and own engines."""
    if cluster is None or cluster.engines == "here" or settings.urls:
        return False
    return settings.name in ENGINES.builtin


def accepted_weights(spec: EngineSpec, in_process: type[Weights]) -> frozenset[type[Weights]]:
    """Return the forms of weights that a replica takes; one in a process takes the given form."""
    if spec.settings.name != "vllm":
        return frozenset({in_process})
    from agentfly.engines.vllm.maker import vllm_takes

    return vllm_takes(spec)


def engine_problems(
    settings: EngineSettings, *, deterministic: bool = False, base: Path | None = None
) -> Iterator[Problem]:
    """Find what is wrong with the table `[engine]`, before anything slow begins."""
    is_vllm = settings.name == "vllm"
    try:
        # Built-in ones are imported when they are made: they may need what is not installed.
        if settings.name not in ENGINES.builtin:
            ENGINES.find(settings.name, base=base)
        elif is_vllm:
            yield from _vllm_problems(settings)
    except ConfigError as error:
        yield Problem(key="engine.name", text=str(error))
    if deterministic and is_vllm:
        text = "a vLLM server can't be deterministic: choose 'local', or set deterministic = false"
        yield Problem(key="engine.name", text=text)
    if settings.options and settings.name in ENGINES.builtin:
        text = f"is for engines of your own, and the engine is {settings.name!r}"
        yield Problem(key="engine.options", text=text)
    for key in ("urls", "weights", "nccl_address", *START_SETTINGS):
        if not is_vllm and _is_set(settings, key):
            text = f"is for the engine 'vllm', and the engine is {settings.name!r}"
            yield Problem(key=f"engine.{key}", text=text)


def _vllm_problems(settings: EngineSettings) -> Iterator[Problem]:
    from agentfly.engines.vllm.maker import find_command

    yield from _url_problems(settings)
    if not settings.urls:
        try:
            find_command(settings.python)
        except ConfigError as error:
            yield Problem(key="engine.python", text=str(error))
    if settings.weights == "nccl" and find_spec("vllm") is None:
        text = (
            "'nccl' uses vLLM's own trainer side, and vLLM is not installed in this environment: "
            "install it, or choose 'folder'"
        )
        yield Problem(key="engine.weights", text=text)
    if settings.weights != "nccl" and _is_set(settings, "nccl_address"):
        text = f"is for weights = 'nccl', and engine.weights is {settings.weights!r}"
        yield Problem(key="engine.nccl_address", text=text)
    yield from _gpu_problems(settings)


def _url_problems(settings: EngineSettings) -> Iterator[Problem]:
    from agentfly.engines.vllm.maker import require_url

    if not settings.urls:
        return
    if settings.replicas not in (1, len(settings.urls)):
        text = f"must be left out, or {len(settings.urls)} as there are urls"
        yield Problem(key="engine.replicas", text=text)
    addresses = [url.rstrip("/") for url in settings.urls]
    for place, (url, address) in enumerate(zip(settings.urls, addresses, strict=True)):
        try:
            require_url(url)
        except ConfigError as error:
            yield Problem(key=f"engine.urls.{place}", text=str(error))
        if address in addresses[:place]:
            text = f"names {address} twice: one server can't be two replicas"
            yield Problem(key=f"engine.urls.{place}", text=text)
    for key in (*START_SETTINGS, "startup_seconds"):
        if _is_set(settings, key):
            text = "is for servers that are started here, and engine.urls names running ones"
            yield Problem(key=f"engine.{key}", text=text)


def _gpu_problems(settings: EngineSettings) -> Iterator[Problem]:
    if len(settings.gpus) % settings.replicas:
        text = (
            f"must name as many GPUs for each of {settings.replicas} replicas, got "
            f"{len(settings.gpus)} in all"
        )
        yield Problem(key="engine.gpus", text=text)
    if len(set(settings.gpus)) < len(settings.gpus):
        text = f"names a GPU twice: {list(settings.gpus)}. Servers can't share one"
        yield Problem(key="engine.gpus", text=text)


def _is_set(settings: EngineSettings, key: str) -> bool:
    return bool(getattr(settings, key) != EngineSettings.model_fields[key].default)
