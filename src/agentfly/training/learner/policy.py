"""The weights in training, in float32 whatever they are computed in.

Low-rank adapters by peft may be trained instead of the weights themselves (arXiv:2106.09685).
"""

import copy
import shutil
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
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
from agentfly.types import AdapterFolder, NamedTensors, SharedTensors, Weights, WeightsFolder


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
        self._wrapped: Any = None
        if settings.lora is None:
            causal_lm.requires_grad_(requires_grad=True)
        else:
            self._wrapped = add_adapters(causal_lm, settings.lora, seed=seed)

    @classmethod
    def load(cls, settings: ModelSettings, *, seed: int = 0) -> "Policy":
        """Load a model by its name, in float32, onto the device that the settings say."""
        trusted = settings.trust_remote_code
        folder = resolve_model(settings.name, trust_remote_code=trusted)
        causal_lm = load_model(
            folder,
            dtype=torch.float32,
            device=_device(settings.device),
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
        wanted = self.settings.precision
        fast = wanted == "bfloat16" or (wanted == "auto" and bfloat16_pays(self.device))
        return torch.bfloat16 if fast else torch.float32

    @property
    def sampling_dtype(self) -> torch.dtype | None:
        """Dtype of an engine's copy of the weights; None without a copy."""
        return None if self.samples_exactly else self.compute_dtype

    def copy_bytes(self, *, always: bool = False) -> int:
        """Return the size of an engine's copy of the weights; 0 where it shares them.

        Args:
            always: The engine has a copy even if it samples in the dtype of the weights.
        """
        if self.sampling_dtype is None and not always:
            return 0
        numbers: int = sum(weight.numel() for weight in self.causal_lm.parameters())
        return numbers * self.compute_dtype.itemsize

    @property
    def samples_exactly(self) -> bool:
        """Whether an engine samples as the learner computes: same weights, same dtype."""
        return self.compute_dtype == torch.float32

    @property
    def adapted(self) -> bool:
        """Whether adapters are trained instead of the weights."""
        return self._wrapped is not None

    @property
    def trained(self) -> list[Tensor]:
        """The parameters that are trained."""
        return [p for p in self.causal_lm.parameters() if p.requires_grad]

    def save(self, folder: Path) -> None:
        """Write what `restore` reads: a Hugging Face folder in float32, or the adapters alone."""
        if self.adapted:
            self.save_adapters(folder)
        else:
            with no_progress_bars():
                self.causal_lm.save_pretrained(folder)
        self._copy_tokenizer(folder)

    def restore(self, folder: Path) -> None:
        """Read back what `save` wrote, in place and bit for bit."""
        if self.adapted:
            restore_adapters(self._wrapped, folder)
            return
        saved = load_model(
            folder,
            dtype=torch.float32,
            device="cpu",
            trust_remote_code=self.settings.trust_remote_code,
        )
        self.causal_lm.load_state_dict(saved.state_dict())

    def export(self, folder: Path, *, dtype: Literal["float32", "bfloat16"] = "float32") -> None:
        """Write a plain Hugging Face folder, adapters merged, to be used anywhere."""
        plain = merged(self._wrapped) if self.adapted else copy.deepcopy(self.causal_lm)
        with no_progress_bars():
            plain.to(getattr(torch, dtype)).save_pretrained(folder)
        self._copy_tokenizer(folder)

    def tensors(self) -> dict[str, Tensor]:
        """Return all weights by their names in a Hugging Face folder, adapters merged.

        The head of tied embeddings is among them under its own name.
        """
        plain = merged(self._wrapped) if self.adapted else self.causal_lm
        named: dict[str, Tensor] = plain.state_dict()
        return named

    def save_adapters(self, folder: Path) -> None:
        """Write the adapters alone, as peft reads them, with the name of their base model."""
        save_adapters(self._wrapped, folder)
        name_base(folder, self.settings.name)

    def _copy_tokenizer(self, folder: Path) -> None:
        for file in tokenizer_files(self.folder):
            shutil.copy(file, folder / file.name)


def _device(wanted: str) -> torch.device:
    if wanted == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    return torch.device(wanted)


def weight_forms(policy: Policy) -> Sequence[type[Weights]]:
    """Return the forms that `weights_as` supports, the cheapest first."""
    adapters: list[type[Weights]] = [AdapterFolder] if policy.adapted else []
    return [SharedTensors, *adapters, NamedTensors, WeightsFolder]


def weights_as(policy: Policy, form: type[Weights], folder: Path) -> Weights:
    """Return the weights as they are now; forms with files write them to a new `folder`."""
    if form is SharedTensors:
        return SharedTensors()
    if form is NamedTensors:
        return NamedTensors(stream=lambda: policy.tensors().items())
    if form is AdapterFolder:
        policy.save_adapters(folder)
        return AdapterFolder(path=folder)
    _write_all(policy, folder)
    return WeightsFolder(path=folder)


def _write_all(policy: Policy, folder: Path) -> None:
    """Write all weights under their names, the head of tied embeddings too.

    `save_pretrained` leaves such a head out, and a server that ties it only when it starts would
    keep the old one.
    """
    from safetensors.torch import save_file

    folder.mkdir(parents=True)
    tensors = _apart(policy.tensors(), policy.compute_dtype)
    save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})
    policy.causal_lm.config.save_pretrained(folder)


def _apart(tensors: dict[str, Tensor], dtype: torch.dtype) -> dict[str, Tensor]:
    """Give every name memory of its own, as the file format wants it."""
    seen: set[int] = set()
    apart = {}
    for name, tensor in tensors.items():
        own = tensor.detach().to(dtype).contiguous()
        apart[name] = own.clone() if own.data_ptr() in seen else own
        seen.add(own.data_ptr())
    return apart


def add_adapters(causal_lm: Any, settings: LoraSettings, *, seed: int) -> Any:
    """Put adapters into a model, in place, and return peft's wrapping of it."""
    peft = _peft()
    config = peft.LoraConfig(
        r=settings.rank,
        lora_alpha=settings.alpha,
        target_modules=list(settings.targets) if settings.targets else "all-linear",
        task_type="CAUSAL_LM",
    )
    with torch.random.fork_rng(), boundary(ConfigError, f"adding adapters of {settings!r}"):
        torch.manual_seed(seed)
        with warnings.catch_warnings():
            # peft asks for an attribute that transformers 5.23 has deprecated.
            warnings.filterwarnings("ignore", "`is_gradient_checkpointing`", FutureWarning)
            return peft.get_peft_model(causal_lm, config)


def save_adapters(wrapped: Any, folder: Path) -> None:
    """Write the adapters alone, as peft and transformers load them."""
    wrapped.save_pretrained(folder)


def restore_adapters(wrapped: Any, folder: Path) -> None:
    """Read back what `save_adapters` wrote, bit for bit."""
    peft = _peft()
    with boundary(ConfigError, f"reading the adapters in {folder}"):
        peft.set_peft_model_state_dict(wrapped, peft.load_peft_weights(str(folder), device="cpu"))


def merged(wrapped: Any) -> Any:
    """Return a plain model with the adapters added to copies of the weights."""
    return copy.deepcopy(wrapped).merge_and_unload()


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
