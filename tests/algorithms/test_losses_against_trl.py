"""The same losses as trl's trainer computes, where it has the same formula."""

from types import SimpleNamespace
from typing import Any

import pytest
import torch

from agentfly.algorithms import LossInput, make_algorithm, objective

LENGTHS = [3, 1, 5, 4]
"""Completions of one batch, each a chain of its own."""
WIDTH = max(LENGTHS)
SAME_FORMULA: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "grpo": (
        {"aggregation": "sequence_mean_of_means"},
        {"loss_type": "grpo"},
    ),
    "grpo with a dual clip": (
        {"clip": {"low": 0.1, "high": 0.3, "dual": 1.4}},
        {"loss_type": "dapo", "epsilon_low": 0.1, "epsilon_high": 0.3, "delta": 1.4},
    ),
    "dr-grpo": ({"length": 9}, {"loss_type": "dr_grpo", "max_completion_length": 9}),
    "dapo": ({}, {"loss_type": "dapo", "epsilon_high": 0.28}),
    "gspo": (
        {"clip": {"low": 0.05, "high": 0.05}},
        {
            "loss_type": "grpo",
            "importance_sampling_level": "sequence",
            "epsilon_low": 0.05,
            "epsilon_high": 0.05,
        },
    ),
    "cispo": ({"max_ratio": 1.2}, {"loss_type": "cispo", "epsilon_high": 1.2}),
}


@pytest.fixture(scope="module")
def trainer_class() -> Any:
    from trl.trainer.grpo_trainer import GRPOTrainer

    return GRPOTrainer


@pytest.mark.parametrize("kl", [0.0, 0.2])
@pytest.mark.parametrize("case", SAME_FORMULA)
def test_the_loss_and_its_gradient_are_those_of_trl(
    case: str, kl: float, trainer_class: Any
) -> None:
    options, theirs = SAME_FORMULA[case]
    torch.manual_seed(len(case))
    new, old, reference = (-torch.rand(4, WIDTH, dtype=torch.float64) for _ in range(3))
    advantages = torch.randn(4, dtype=torch.float64)

    peer_new = new.clone().requires_grad_()
    peer = peer_loss(trainer_class, theirs, peer_new, old, reference, advantages, kl)
    peer.backward()

    own_new = new.clone().requires_grad_()
    algorithm = make_algorithm(case.split()[0], {**options, "kl": {"coefficient": kl}})
    own = objective(algorithm, flat(own_new, old, reference, advantages)).loss
    own.backward()

    torch.testing.assert_close(own, peer)
    torch.testing.assert_close(own_new.grad, peer_new.grad)


def peer_loss(
    trainer_class: Any,
    settings: dict[str, Any],
    new: torch.Tensor,
    old: torch.Tensor,
    reference: torch.Tensor,
    advantages: torch.Tensor,
    kl: float,
) -> Any:
    """Call trl's loss on a trainer that has nothing but what the loss reads."""
    trainer = trainer_class.__new__(trainer_class)
    defaults = {
        "importance_sampling_level": "token",
        "epsilon_low": 0.2,
        "epsilon_high": 0.2,
        "max_completion_length": WIDTH,
        "beta": kl,
        "top_entropy_quantile": 1.0,
        "off_policy_mask_threshold": None,
        "use_vllm": False,
        "aux_loss_enabled": False,
        "_entropy_bonus_enabled": False,
        "current_gradient_accumulation_steps": 1,
        "model": SimpleNamespace(training=True),
        "accelerator": SimpleNamespace(
            num_processes=1, gather=lambda x: x, reduce=lambda x, **_: x
        ),
        "args": SimpleNamespace(
            delta=settings.get("delta"), use_bias_correction_kl=False, steps_per_generation=1
        ),
        "_metrics": {"train": _Ignore()},
    }
    vars(trainer).update({**defaults, **settings})
    vars(trainer)["_get_per_token_logps_and_entropies"] = lambda *_, **__: (new, new.detach(), None)
    mask = lengths_mask().long()
    return trainer._compute_loss(
        None,
        {
            "prompt_ids": mask,
            "prompt_mask": mask,
            "completion_ids": mask,
            "completion_mask": mask,
            "advantages": advantages,
            "old_per_token_logps": old,
            "ref_per_token_logps": reference,
            "num_items_in_batch": mask.sum(),
        },
    )


class _Ignore(dict[str, list[float]]):
    def __missing__(self, key: str) -> list[float]:
        return []


def lengths_mask() -> torch.Tensor:
    return torch.arange(WIDTH) < torch.tensor(LENGTHS)[:, None]


def flat(
    new: torch.Tensor, old: torch.Tensor, reference: torch.Tensor, advantages: torch.Tensor
) -> LossInput:
    mask = lengths_mask()
    lengths = torch.tensor(LENGTHS)
    return LossInput(
        logprobs_N=new[mask],
        old_logprobs_N=old[mask],
        sampled_logprobs_N=old[mask],
        advantages_N=advantages.repeat_interleave(lengths),
        sample_N=torch.arange(4).repeat_interleave(lengths),
        chain_tokens_N=lengths.repeat_interleave(lengths),
        num_tokens=sum(LENGTHS),
        num_chains=4,
        reference_logprobs_N=reference[mask],
    )
