"""A deterministic run asks for nothing that torch refuses on a GPU; no test here needs one."""

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tests.training.learner_cases import make_groups, make_model, make_policy, make_settings
from tests.training.small_trainer import settings
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils._python_dispatch import TorchDispatchMode

from agentfly.algorithms import ALGORITHMS, make_algorithm
from agentfly.engines.local import token_sampling
from agentfly.errors import ConfigError
from agentfly.training.learner.learner import LocalLearner
from agentfly.training.run_state import CUBLAS_WORKSPACES, determinism
from agentfly.types import SamplingParams

Arguments = tuple[Any, ...]


def floating(arguments: Arguments, options: dict[str, Any]) -> bool:
    dtype = options.get("dtype") or arguments[0].dtype
    return bool(dtype.is_floating_point)


def always(arguments: Arguments, options: dict[str, Any]) -> bool:
    return True


def with_weights(arguments: Arguments, options: dict[str, Any]) -> bool:
    return len(arguments) > 1 and arguments[1] is not None


def by_product(arguments: Arguments, options: dict[str, Any]) -> bool:
    return "prod" in arguments


REFUSED: dict[str, Callable[[Arguments, dict[str, Any]], bool]] = {
    "cumsum": floating,
    "cumsum_": floating,
    "histc": always,
    "kthvalue": always,
    "median": always,
    "put": always,
    "put_": always,
    "index_reduce": always,
    "nll_loss2d_forward": always,
    "_ctc_loss_backward": always,
    "bincount": with_weights,
    "scatter_reduce": by_product,
    "scatter_reduce_": by_product,
}
"""What torch.use_deterministic_algorithms refuses on CUDA, of what a language model could need."""


class Watch(TorchDispatchMode):
    """Refuses on the given devices what torch would refuse on CUDA."""

    def __init__(self, device: str) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.device = device

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Arguments = (), kwargs: Any = None
    ) -> Any:
        name = func._schema.name.removeprefix("aten::")
        there = any(isinstance(a, torch.Tensor) and a.device.type == self.device for a in args)
        if there and name in REFUSED and REFUSED[name](args, kwargs or {}):
            raise RuntimeError(f"{name} does not have a deterministic implementation")
        return func(*args, **(kwargs or {}))


@pytest.fixture
def deterministic() -> Iterator[None]:
    torch.use_deterministic_algorithms(mode=True)
    yield
    torch.use_deterministic_algorithms(mode=False)


def test_the_watch_sees_what_it_is_to_see() -> None:
    with Watch("cpu"), pytest.raises(RuntimeError, match="cumsum does not have"):
        torch.ones(3).cumsum(0)
    with Watch("cpu"):
        assert torch.ones(3, dtype=torch.long).cumsum(0).tolist() == [1, 2, 3]


@pytest.mark.usefixtures("deterministic")
def test_sums_are_cumulated_on_the_processor_where_a_gpu_refuses_to() -> None:
    with FakeTensorMode():
        values = torch.empty(2, 600, device="cuda")
        with Watch("cuda"):
            assert token_sampling._cumulated(values).device.type == "cuda"


def test_all_else_in_sampling_a_gpu_can_do(monkeypatch: pytest.MonkeyPatch) -> None:
    def unseen(values: torch.Tensor) -> torch.Tensor:
        return torch.from_numpy(np.cumsum(values.numpy(), -1))

    monkeypatch.setattr(token_sampling, "_cumulated", unseen)
    params = [SamplingParams(), SamplingParams(top_p=0.9, top_k=40), SamplingParams(min_p=0.1)]
    with Watch("cpu"):
        token_sampling.sample(
            torch.randn(3, 2000), [token_sampling.Draw(one, 0.3) for one in params]
        )


@pytest.mark.usefixtures("deterministic")
@pytest.mark.parametrize("name", sorted(ALGORITHMS))
def test_neither_does_an_update_of_any_algorithm(name: str) -> None:
    train = {"minibatches": 1 if name == "reinforce" else 2}
    learner = LocalLearner(make_policy(make_model()), make_algorithm(name), make_settings(**train))
    with Watch("cpu"):
        learned = learner.learn(make_groups())
    assert learned.metrics["grad_norm"] > 0


def chosen(tmp_path: Path, **changes: Any) -> Any:
    return settings(tmp_path, deterministic=True, **changes)


def test_cublas_is_configured_before_the_gpu_is_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(CUBLAS_WORKSPACES, "")
    monkeypatch.delenv(CUBLAS_WORKSPACES)
    monkeypatch.setattr("torch.cuda.is_available", lambda: True)
    with determinism(chosen(tmp_path)):
        assert os.environ[CUBLAS_WORKSPACES] == ":4096:8"
        assert torch.are_deterministic_algorithms_enabled()
        assert not torch.backends.cuda.cudnn_sdp_enabled()
    assert not torch.are_deterministic_algorithms_enabled()
    monkeypatch.setattr("torch.cuda.is_initialized", lambda: True)
    with determinism(chosen(tmp_path)):
        """A second run in one process finds what the first one has set."""


@pytest.mark.parametrize("value", [None, ":0:0"])
def test_where_it_is_too_late_for_that_the_run_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, value: str | None
) -> None:
    monkeypatch.setenv(CUBLAS_WORKSPACES, value or "")
    if value is None:
        monkeypatch.delenv(CUBLAS_WORKSPACES)
    monkeypatch.setattr("torch.cuda.is_available", lambda: True)
    monkeypatch.setattr("torch.cuda.is_initialized", lambda: True)
    with pytest.raises(ConfigError, match="needs CUBLAS_WORKSPACE_CONFIG=:4096:8, and it is"):
        determinism(chosen(tmp_path)).__enter__()
    on_processors = {"name": "tiny-random", "device": "cpu"}
    with determinism(chosen(tmp_path, model=on_processors)):
        assert os.environ.get(CUBLAS_WORKSPACES) == value
