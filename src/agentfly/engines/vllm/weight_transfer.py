"""Ways of new weights from the learner to the server: tensors over NCCL, or a checked folder.

vLLM separates *announcing* an update (HTTP routes) from *moving* the tensors (NCCL, CUDA IPC and
others). Its trainer-side engines do the moving, and announce through an object with four methods:
`WeightSync` is one, so any of them can be used.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from importlib import import_module
from pathlib import Path
from typing import Any, Protocol

from agentfly.errors import ConfigError, EngineError, boundary
from agentfly.runtime.http_client import CONNECT_SECONDS, Endpoint, import_httpx
from agentfly.runtime.http_retry import excerpt
from agentfly.types import NamedTensors

HEAD = "lm_head.weight"


class WeightSync:
    """Announces weight updates to one server; blocking, from any thread.

    The four methods are those of vLLM's `VLLMWeightSyncClient`.
    """

    def __init__(self, endpoint: Endpoint, *, world_size: int, seconds: float) -> None:
        self.world_size = world_size
        """Number of workers that hold the model; the learner joins their group as one more."""
        self._endpoint = endpoint
        self._seconds = seconds

    def init_weight_transfer_engine(self, init_info: dict[str, Any]) -> None:
        """Have the workers join the group that weights are sent over."""
        self._post("/init_weight_transfer_engine", {"init_info": init_info})

    def start_weight_update(self) -> None:
        """Announce new weights."""
        self._post("/start_weight_update", None)

    def update_weights(self, update_info: dict[str, Any] | list[dict[str, Any]]) -> None:
        """Have the workers receive tensors; returns when they have."""
        self._post("/update_weights", {"update_info": update_info})

    def finish_weight_update(self, weight_version: str | None = None) -> None:
        """Have the workers use what they received."""
        body = None if weight_version is None else {"weight_version": weight_version}
        self._post("/finish_weight_update", body)

    def _post(self, path: str, body: Mapping[str, Any] | None) -> None:
        httpx = import_httpx()
        where = f"{self._endpoint.url.rstrip('/')}{path}"
        try:
            response = httpx.post(
                where,
                json=body,
                headers=self._endpoint.headers(),
                timeout=httpx.Timeout(self._seconds, connect=CONNECT_SECONDS),
                trust_env=not self._endpoint.is_loopback,
            )
        except httpx.HTTPError as error:
            raise EngineError(f"{where}: {type(error).__name__}: {error}") from error
        if not response.is_success:
            said = excerpt(response.content)
            raise EngineError(f"{where} answered {response.status_code}: {said}")


class WeightTransfer(Protocol):
    """The learner's end. Both methods may block; they are called in a thread."""

    def connect(self, sync: WeightSync) -> None:
        """Join the server's workers; called once, before the first update."""

    def send(self, sync: WeightSync, weights: NamedTensors) -> None:
        """Announce an update, send the tensors, and have them used."""


class NcclTransfer:
    """Broadcasts the weights over NCCL, by vLLM's own trainer-side engine.

    The learner's process needs vLLM installed and a GPU of its own. Not yet run on any.

    >>> engine = VllmEngine(url, transfer=NcclTransfer(address="10.0.0.1"))     # doctest: +SKIP
    >>> tensors = NamedTensors(stream=lambda: model.state_dict().items())       # doctest: +SKIP
    >>> await engine.publish(tensors, version=1)                                # doctest: +SKIP
    """

    def __init__(self, *, address: str, port: int = 29600) -> None:
        """Set the learner's address.

        Args:
            address: Of this machine, as the server's workers reach it.
            port: A free one on this machine.
        """
        self._address = address
        self._port = port
        self._weights = _Weights()
        self._engine: Any = None

    def connect(self, sync: WeightSync) -> None:
        """Join the server's workers as rank 0."""
        info = _import_vllm(".nccl_engine").NCCLTrainerInitInfo(
            rank=0,
            master_address=self._address,
            master_port=self._port,
            world_size=sync.world_size + 1,
        )
        self._engine = _import_vllm().WeightTransferTrainerFactory.trainer_init(
            info, client=sync, source=self._weights
        )

    def send(self, sync: WeightSync, weights: NamedTensors) -> None:
        """Send tensors that are named as in a Hugging Face checkpoint."""
        del sync  # vLLM's engine has held it since `connect`.
        self._weights.tensors = weights
        try:
            self._engine.send_weights()
        finally:
            self._weights.tensors = None


class _Weights:
    """Named tensors in the form that vLLM's trainer-side engines iterate over."""

    def __init__(self) -> None:
        self.tensors: NamedTensors | None = None

    def metadata(self) -> list[Any]:
        meta = _import_vllm().ParamMeta
        return [meta(name, tensor.dtype, tuple(tensor.shape)) for name, tensor in self]

    def __iter__(self) -> Iterator[tuple[str, Any]]:
        if self.tensors is not None:
            yield from self.tensors.stream()


def _import_vllm(module: str = "") -> Any:
    try:
        return import_module(f"vllm.distributed.weight_transfer{module}")
    except ImportError as error:
        raise ConfigError(
            "sending weights over NCCL needs vLLM in the learner's process too: pip install vllm"
        ) from error


def require_whole(folder: Path, known: frozenset[str]) -> frozenset[str]:
    """Return the names of a folder's tensors; raise ConfigError if the head or others are missing.

    A running vLLM ties the head to the embeddings once, at its start. Reloading a folder changes
    the tensors that it holds and leaves all others as they were, without an error.

    Args:
        folder: A Hugging Face folder.
        known: Names of tensors that it must hold, as the folder before it did.
    """
    names = _tensor_names(folder)
    if HEAD not in names:
        raise ConfigError(
            f"{folder} has no tensor {HEAD!r}: vLLM would keep its old head with the new "
            "embeddings. Write the head into the folder too, also where the embeddings are tied"
        )
    if missing := sorted(known - names):
        raise ConfigError(
            f"{folder} lacks {len(missing)} of the {len(known)} tensors of the folder before it, "
            f"such as {missing[0]!r}: vLLM would keep the old ones. Write all of them"
        )
    return names


def _tensor_names(folder: Path) -> frozenset[str]:
    files = sorted(folder.glob("*.safetensors"))
    if not files:
        raise ConfigError(f"{folder} has no .safetensors file: expected a Hugging Face folder")
    return frozenset(name for file in files for name in _header(file)) - {"__metadata__"}


def _header(file: Path) -> dict[str, object]:
    """Read the names and places of a file's tensors: a length of eight bytes, then JSON."""
    with boundary(ConfigError, f"reading the tensors' names in {file}"), file.open("rb") as opened:
        length = int.from_bytes(opened.read(8), "little")
        header: dict[str, object] = json.loads(opened.read(length))
    return header
