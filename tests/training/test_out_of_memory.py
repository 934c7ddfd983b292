"""Running out of memory is told with the settings that help; other errors stay what they are."""

from collections.abc import Callable

import pytest
import torch
from tests.algorithms.steps import loss_input, random_step
from torch import Tensor

from agentfly.algorithms import loss
from agentfly.config import TrainSettings
from agentfly.errors import RunError
from agentfly.training.learner.memory import report_out_of_memory

TRAIN = TrainSettings(tokens_per_microbatch=123)


def too_much() -> Tensor:
    return torch.empty(2**60, dtype=torch.uint8)


def on_a_gpu() -> None:
    raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB")


def in_python() -> None:
    bytearray(2**62)


def in_ones_own_loss() -> None:
    loss(lambda logprobs_N: logprobs_N + too_much())(loss_input(random_step(0)))


@pytest.mark.parametrize("use", [too_much, on_a_gpu, in_python, in_ones_own_loss])
def test_what_to_set_is_reported(use: Callable[[], object]) -> None:
    with (
        pytest.raises(
            RunError, match=r"tokens_per_microbatch = 123, or set model.gradient"
        ) as told,
        report_out_of_memory(TRAIN),
    ):
        use()
    assert told.value.__cause__ is not None


def test_another_error_is_not_taken_for_it() -> None:
    with pytest.raises(RuntimeError, match="shapes"), report_out_of_memory(TRAIN):
        raise RuntimeError("shapes cannot be multiplied")
