"""The weights in training, in float32 whatever they are computed in.

Low-rank adapters by peft may be trained instead of the weights themselves (arXiv:2106.09685).
"""

import shutil
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, Literal

import torch
from torch import Tensor

from agentfly.config import LoraSettings, ModelSettings
from agentfly.errors import ConfigError, boundary
from agentfly.modeling.shared_view import bfloat16_pays
from agentfly.models import load_model, resolve_model
from agentfly.models.adapters import name_base
from agentfly.models.loading import no_progress_bars, tokenizer_files
from agentfly.runtime.extra import import_extra
from agentfly.training.learner.model_files import LazyTensor, write_config, write_tensors
from agentfly.training.learner.peers import Peers
from agentfly.training.learner.quantized_base import (
    dequantized,
    quantize_base,
    quantized_layers,
    shape_of,
    state_name,
)
from agentfly.training.learner.sharding import fill, whole
from agentfly.types import AdapterFolder, NamedTensors, SharedTensors, Weights, WeightsFolder

CRITIC = "critic"
"""Name of the adapters of a critic that shares the policy's base."""


class Policy:
    """A causal language model, all of its weights or adapters in training.

    >>> policy = Policy.load(ModelSettings(name="tiny"))
    >>> policy.causal_lm.config.model_type, policy.samples_exactly
    ('llama', ...)
    """

    def __init__(
        self, causal_lm: Any, *, folder: Path, settings: ModelSettings, seed: int = 0
    ) -> None:
        """Prepare a loaded model for training.

        Args:
            causal_lm: A Hugging Face `...ForCausalLM` in float32.
            folder: Where it came from, for its tokenizer.
            settings: Of adapters, precision and activations.
            seed: Of fresh adapters.
        """
        self.causal_lm = causal_lm
        """The Hugging Face module, as engines take it; adapters, if any, are inside."""
        self.folder = folder
        self.settings = settings
        self.is_sharded = False
        """Whether this process has only its part of the weights."""
        self._wrapped: Any = None
        if settings.lora is None:
            causal_lm.requires_grad_(requires_grad=True)
        else:
            if settings.lora.base_bits is not None:
                device = device_of(settings.device)
                dtype = dtype_of(settings, device)
                quantize_base(
                    causal_lm, settings.lora.base_bits, compute_dtype=dtype, device=device
                )
            self._wrapped = add_adapters(causal_lm, settings.lora, seed=seed)

    @classmethod
    def load(cls, settings: ModelSettings, *, seed: int = 0) -> "Policy":
        """Load a model by its name, in float32, onto the device that the settings say."""
        trusted = settings.trust_remote_code
        folder = resolve_model(settings.name, trust_remote_code=trusted)
        quantized = settings.lora is not None and settings.lora.base_bits is not None
        causal_lm = load_model(
            folder,
            dtype=torch.float32,
            # A base that is to be rounded goes to the device layer by layer.
            device=torch.device("cpu") if quantized else device_of(settings.device),
            trust_remote_code=trusted,
        )
        return cls(causal_lm, folder=folder, settings=settings, seed=seed)

    @property
    def device(self) -> torch.device:
        """Device of the weights."""
        device: torch.device = self.causal_lm.device
        return device

    @property
    def compute_dtype(self) -> torch.dtype:
        """Dtype of matrix products."""
        return dtype_of(self.settings, self.device)

    @property
    def sampling_dtype(self) -> torch.dtype | None:
        """Dtype of an engine's copy of the weights; None without a copy."""
        return None if self.samples_exactly else self.compute_dtype

    def copy_bytes(self, *, always: bool = False) -> int:
        """Return the size of an engine's copy of the weights; 0 where it shares them.

        Args:
            always: The engine has a copy even if it samples in the dtype of the weights.
        """
        if self.sampling_dtype is None and not (always or self.is_sharded):
            return 0
        numbers: int = sum(weight.numel() for weight in self.causal_lm.parameters())
        return numbers * self.compute_dtype.itemsize

    @property
    def samples_exactly(self) -> bool:
        """Whether an engine samples as the learner computes: same weights, same dtype."""
        return self.compute_dtype == torch.float32 and not self.is_sharded

    @property
    def adapted(self) -> bool:
        """Whether adapters are trained instead of the weights."""
        return self._wrapped is not None

    @property
    def trained(self) -> list[Tensor]:
        """The parameters that are trained."""
        return list(self.trained_by_name.values())

    @property
    def trained_by_name(self) -> dict[str, Tensor]:
        """The parameters that are trained, by their names in the module."""
        named = self.causal_lm.named_parameters()
        return {n: p for n, p in named if p.requires_grad and CRITIC not in n.split(".")}

    def add_critic_adapters(self) -> None:
        """Add a second set of adapters on the same base, which starts as the policy's own."""
        peft = _peft()
        with _quiet_peft(), boundary(ConfigError, "adding adapters for the critic"):
            self._wrapped.add_adapter(CRITIC, peft.LoraConfig(**_lora_options(self.lora)))
        policys = self.causal_lm.state_dict()
        for name, parameter in adapter_parameters(self.causal_lm, CRITIC).items():
            parameter.requires_grad = True
            parameter.data.copy_(policys[name.replace(f".{CRITIC}.", ".default.")])

    @property
    def lora(self) -> LoraSettings:
        """Settings of the adapters."""
        assert self.settings.lora is not None, "only adapted policies have them"
        return self.settings.lora

    def for_engine(self, dtype: str) -> Any:
        """Return the module that an engine in this process samples from.

        A sharded one is read again from the model's folder; the first publish brings it up to date.
        """
        if not self.is_sharded:
            return self.causal_lm
        return load_model(
            self.folder,
            dtype=getattr(torch, dtype),
            device=device_of(self.settings.device),
            trust_remote_code=self.settings.trust_remote_code,
        )

    def adopt(self, causal_lm: Any) -> None:
        """Train these parameters from now on, which stand for the same weights, sharded."""
        self.is_sharded = True
        self.causal_lm = causal_lm
        if self.adapted:
            self._wrapped.base_model.model = causal_lm

    def save(self, folder: Path, peers: Peers | None = None) -> None:
        """Write what `restore` reads: a Hugging Face folder in float32, or the adapters alone."""
        peers = peers or Peers()
        if self.adapted:
            self.save_adapters(folder, peers)
        elif peers.is_sharded:
            self._write(folder, torch.float32, peers)
        else:
            with no_progress_bars():
                self.causal_lm.save_pretrained(folder)
        self._copy_tokenizer(folder, peers)

    def restore(self, folder: Path) -> None:
        """Read back what `save` wrote, in place and bit for bit."""
        if self.adapted:
            fill(self.trained_by_name, read_adapters(folder))
            return
        saved = load_model(
            folder,
            dtype=torch.float32,
            device="cpu",
            trust_remote_code=self.settings.trust_remote_code,
        )
        fill(self.causal_lm.state_dict(), saved.state_dict())

    def export(
        self,
        folder: Path,
        peers: Peers | None = None,
        *,
        dtype: Literal["float32", "bfloat16"] = "float32",
    ) -> None:
        """Write a plain Hugging Face folder, adapters merged, to be used anywhere."""
        peers = peers or Peers()
        self._write(folder, getattr(torch, dtype), peers)
        self._copy_tokenizer(folder, peers)

    def _write(self, folder: Path, dtype: torch.dtype, peers: Peers) -> None:
        write_tensors(self.tensors(), folder, dtype=dtype, peers=peers)
        if peers.rank == 0:
            write_config(self.causal_lm, folder, dtype=dtype)

    def publish_folder(self, folder: Path, peers: Peers) -> None:
        """Write all weights in the dtype of computation, under a server's names."""
        self._write(folder, self.compute_dtype, peers)

    def tensors(self) -> list[LazyTensor]:
        """Return all weights by their names in a Hugging Face folder, adapters merged.

        The head of tied embeddings is among them under its own name. Sharded ones are gathered one
        by one: all processes must read the same ones, in the same order.
        """
        found = []
        for name, like, read in self._base_tensors():
            layer, _, kind = name.rpartition(".base_layer.")
            if layer and kind == "weight":
                owner = self.causal_lm.get_submodule(layer)
                found.append(LazyTensor(f"{layer}.weight", like, partial(_merged, read, owner)))
            elif layer:
                found.append(LazyTensor(f"{layer}.{kind}", like, partial(_whole, read)))
            elif not any(part.startswith("lora_") for part in name.split(".")):
                found.append(LazyTensor(name, like, partial(_whole, read)))
        return found

    def _base_tensors(self) -> Iterator[tuple[str, Tensor, Callable[[], Tensor]]]:
        """Yield what the state dict holds: name, a tensor of its shape, and a way to read it."""
        quantized = quantized_layers(self.causal_lm)
        for name, tensor in self.causal_lm.state_dict().items():
            layer, kind = state_name(name, quantized) or ("", "")
            if kind == "weight":
                rounded = quantized[layer]
                yield name, shape_of(rounded), partial(dequantized, rounded)
            elif kind in ("", "bias"):
                yield name, tensor, partial(Tensor.detach, tensor)

    def save_adapters(self, folder: Path, peers: Peers) -> None:
        """Write the adapters alone, as peft reads them, with the name of their base model."""
        own = adapter_parameters(self.causal_lm, "default")
        state = {f"base_model.model.{name}": whole(tensor) for name, tensor in own.items()}
        if peers.rank == 0:
            self._wrapped.save_pretrained(folder, state_dict=state, selected_adapters=["default"])
            name_base(folder, self.settings.name)

    def _copy_tokenizer(self, folder: Path, peers: Peers) -> None:
        if peers.rank == 0:
            for file in tokenizer_files(self.folder):
                shutil.copy(file, folder / file.name)


def device_of(wanted: str) -> torch.device:
    """Return the device that a setting names."""
    if wanted == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    return torch.device(wanted)


def dtype_of(settings: ModelSettings, device: torch.device) -> torch.dtype:
    """Return the dtype of matrix products on a device."""
    wanted = settings.precision
    fast = wanted == "bfloat16" or (wanted == "auto" and bfloat16_pays(device))
    return torch.bfloat16 if fast else torch.float32


def weight_forms(policy: Policy, peers: Peers) -> Sequence[type[Weights]]:
    """Return the forms that `weights_as` supports, the cheapest first."""
    adapters: list[type[Weights]] = [AdapterFolder] if policy.adapted else []
    shared: list[type[Weights]] = [] if peers.is_sharded else [SharedTensors]
    return [*shared, *adapters, NamedTensors, WeightsFolder]


def weights_as(policy: Policy, form: type[Weights], folder: Path, peers: Peers) -> Weights:
    """Return the weights as they are now; forms with files write them to a new `folder`."""
    if form is SharedTensors:
        return SharedTensors()
    if form is NamedTensors:
        return NamedTensors(stream=lambda: ((t.name, t.read()) for t in policy.tensors()))
    if form is AdapterFolder:
        policy.save_adapters(folder, peers)
        return AdapterFolder(path=folder)
    policy.publish_folder(folder, peers)
    return WeightsFolder(path=folder)


def add_adapters(causal_lm: Any, settings: LoraSettings, *, seed: int) -> Any:
    """Put adapters into a model, in place, and return peft's wrapping of it."""
    peft = _peft()
    config = peft.LoraConfig(**_lora_options(settings))
    with torch.random.fork_rng(), boundary(ConfigError, f"adding adapters of {settings!r}"):
        torch.manual_seed(seed)
        with _quiet_peft():
            return peft.get_peft_model(causal_lm, config)


def _lora_options(settings: LoraSettings) -> dict[str, Any]:
    return {
        "r": settings.rank,
        "lora_alpha": settings.alpha,
        "target_modules": list(settings.targets) if settings.targets else "all-linear",
        "task_type": "CAUSAL_LM",
    }


@contextmanager
def _quiet_peft() -> Iterator[None]:
    with warnings.catch_warnings():
        # peft asks for an attribute that transformers 5.23 has deprecated.
        warnings.filterwarnings("ignore", "`is_gradient_checkpointing`", FutureWarning)
        yield


def adapter_parameters(causal_lm: Any, adapter: str) -> dict[str, Tensor]:
    """Return the parameters of one set of adapters, by name."""
    named = causal_lm.named_parameters()
    return {name: parameter for name, parameter in named if adapter in name.split(".")}


def read_adapters(folder: Path) -> dict[str, Tensor]:
    """Read adapters that peft wrote, under the names of the module's parameters."""
    peft = _peft()
    with boundary(ConfigError, f"reading the adapters in {folder}"):
        saved: dict[str, Tensor] = peft.load_peft_weights(str(folder), device="cpu")
    return {_with_adapter(name): tensor for name, tensor in saved.items()}


def _with_adapter(saved: str) -> str:
    """Return the name of a parameter whose adapter peft leaves out of its file.

    >>> _with_adapter("base_model.model.lm.q_proj.lora_A.weight")
    'lm.q_proj.lora_A.default.weight'
    """
    layer, _, kind = saved.removeprefix("base_model.model.").rpartition(".")
    return f"{layer}.default.{kind}" if kind == "weight" else f"{layer}.{kind}.default"


def _whole(read: Callable[[], Tensor]) -> Tensor:
    return whole(read())


def _merged(read: Callable[[], Tensor], layer: Any) -> Tensor:
    """Return a layer's weight with its adapter added, without changing the layer."""
    with torch.no_grad():
        return whole(read() + layer.get_delta_weight("default"))


@contextmanager
def adapter_active(module: Any, name: str) -> Iterator[None]:
    """Compute with another set of adapters; all of them stay as trainable as they are."""
    from peft.tuners.tuners_utils import BaseTunerLayer

    layers = [layer for layer in module.modules() if isinstance(layer, BaseTunerLayer)]
    before = [layer._active_adapter for layer in layers]
    for layer in layers:
        layer._active_adapter = [name]
    try:
        yield
    finally:
        for layer, active in zip(layers, before, strict=True):
            layer._active_adapter = active


@contextmanager
def adapters_off(module: Any) -> Iterator[None]:
    """Compute as the model did before it had adapters."""
    from peft.tuners.tuners_utils import BaseTunerLayer

    layers = [layer for layer in module.modules() if isinstance(layer, BaseTunerLayer)]
    for layer in layers:
        layer.enable_adapters(enabled=False)
    try:
        yield
    finally:
        for layer in layers:
            layer.enable_adapters(enabled=True)


def _peft() -> Any:
    return import_extra("peft", extra="train", purpose="LoRA")
