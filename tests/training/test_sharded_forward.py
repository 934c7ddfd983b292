"""The learner's forward pass under FSDP2: two processes give the gradient of one."""

from pathlib import Path

import pytest
import torch
import torch.distributed as dist
from tests.training.learner_cases import Words, make_model
from torch import Tensor
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import DTensor
from torch.multiprocessing.spawn import spawn

from agentfly.training.learner.pack import pack
from agentfly.training.learner.packed_forward import Forward, targets_of
from agentfly.types import Sample

PROCESSES = 2
CPU = torch.device("cpu")


def samples() -> list[Sample]:
    words = Words(7)
    prompt = words.ids(20, 20)
    return [sample((*prompt, *words.ids(6, 12)), prompt=len(prompt)) for _ in range(PROCESSES)]


def sample(ids: tuple[int, ...], *, prompt: int) -> Sample:
    count, trained = len(ids), len(ids) - prompt
    return Sample(
        token_ids=ids,
        mask=(False,) * prompt + (True,) * trained,
        logprobs=(0.0,) * prompt + (-1.0,) * trained,
        versions=(-1,) * prompt + (0,) * trained,
        turn_index=(0,) * count,
        temperature=0.7,
        chain_id="t/0/0",
        group_id="t/0",
    )


def gradients(forward: Forward, part: list[Sample], scale: float) -> None:
    """Go over these samples; one token's weight is `scale`."""
    for row in pack(part, budget=1000):
        (-scale * forward.logprobs(row, targets_of(row, part, CPU)).sum()).backward()


def shard(rank: int, name: str, folder: str) -> None:
    """Run one of the processes: shard the model, and train on one sample."""
    dist.init_process_group(
        "gloo", init_method=f"file://{folder}/meet", rank=rank, world_size=PROCESSES
    )
    forward = Forward(make_model(name), dtype=torch.float32)
    for layer in forward.body.module.base_model.layers:
        fully_shard(layer)
    fully_shard(forward)
    # FSDP2 takes the mean over processes, and the loss is a sum.
    gradients(forward, [samples()[rank]], scale=PROCESSES)
    found = {
        name: parameter.grad.full_tensor()
        for name, parameter in forward.named_parameters()
        if isinstance(parameter.grad, DTensor)
    }
    if rank == 0:
        torch.save(found, f"{folder}/gradients.pt")
    dist.destroy_process_group()


@pytest.mark.parametrize("name", ["llama", "llama-tied"])
def test_two_processes_give_the_gradient_of_one(name: str, tmp_path: Path) -> None:
    alone = Forward(make_model(name), dtype=torch.float32)
    gradients(alone, samples(), scale=1.0)
    spawn(shard, args=(name, str(tmp_path)), nprocs=PROCESSES)
    sharded: dict[str, Tensor] = torch.load(tmp_path / "gradients.pt")
    expected = {n: p.grad for n, p in alone.named_parameters() if p.grad is not None}
    assert sharded.keys() == expected.keys()
    assert any("embed" in n for n in expected)
    for n, gradient in expected.items():
        torch.testing.assert_close(sharded[n], gradient, rtol=1e-4, atol=1e-5)
