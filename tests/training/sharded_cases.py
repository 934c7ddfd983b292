"""What each of two learner processes does in the tests of sharding, and its results as files.

python -m tests.training.sharded_cases RANK ADDRESS FOLDER
"""

import sys
from pathlib import Path
from typing import Any

import torch
from tests.training.learner_cases import (
    kept_gradients,
    make_groups,
    make_model,
    make_settings,
)

from agentfly.algorithms import make_algorithm
from agentfly.config import LearnerSettings, LoraSettings, ModelSettings, RunSettings
from agentfly.training.learner.learner import LocalLearner
from agentfly.training.learner.peers import LearnerRank, Peers, Terms, joined
from agentfly.training.learner.policy import Policy
from agentfly.training.learner.sharding import whole

PROCESSES = 2
STEPS = 3
LORA = LoraSettings(rank=2)
GRPO = ("grpo", {"kl": {"coefficient": 0.1}})
PPO = ("ppo", {"kl": {"coefficient": 0.1, "place": "loss"}})

CASES: dict[str, dict[str, Any]] = {
    "grpo": {"algorithm": GRPO, "minibatches": 2, "epochs": 2},
    "ppo": {"algorithm": PPO, "minibatches": 2, "epochs": 2, "critic_lr": 3e-3},
    "ppo-lora": {"algorithm": PPO, "lora": LORA, "minibatches": 1, "epochs": 2},
    "ppo-checkpointing": {"algorithm": PPO, "gradient_checkpointing": True},
    "lora-checkpointing": {"algorithm": PPO, "lora": LORA, "gradient_checkpointing": True},
    "qwen2-small-rows": {"algorithm": GRPO, "model": "qwen2", "tokens_per_microbatch": 90},
    "tied-one-row": {"algorithm": GRPO, "model": "llama-tied", "tokens_per_microbatch": 10_000},
}
"""Each with train settings of its own."""

METRICS = ("loss", "grad_norm", "critic/loss", "kl/reference", "mismatch/kl")


def settings_of(case: dict[str, Any]) -> RunSettings:
    known = {"algorithm", "lora", "model", "gradient_checkpointing", "precision"}
    return make_settings(
        **{"max_grad_norm": 0.5, **{k: v for k, v in case.items() if k not in known}}
    )


def learner_of(case: dict[str, Any], peers: Peers | None = None) -> LocalLearner:
    name, options = case["algorithm"]
    chosen = ModelSettings(
        name="test",
        precision=case.get("precision", "float32"),
        lora=case.get("lora"),
        gradient_checkpointing=case.get("gradient_checkpointing", False),
    )
    folder = Path("nowhere")
    policy = Policy(make_model(case.get("model", "llama")), folder=folder, settings=chosen)
    return LocalLearner(policy, make_algorithm(name, options), settings_of(case), peers=peers)


def curve(learner: LocalLearner, steps: range) -> list[dict[str, float]]:
    found = []
    for step in steps:
        metrics = learner.learn(make_groups(seed=step, groups=3)).metrics
        found.append({name: metrics[name] for name in METRICS if name in metrics})
    return found


def weights_of(learner: LocalLearner) -> dict[str, torch.Tensor]:
    return {name: whole(p.detach()).clone() for name, p in learner.policy.trained_by_name.items()}


def gradients_of(case: dict[str, Any], peers: Peers | None = None) -> dict[str, torch.Tensor]:
    learner = learner_of(case, peers)
    with kept_gradients() as kept:
        learner.learn(make_groups(seed=5, groups=3))
    names = learner.policy.trained_by_name
    return {n: whole(g) for n, g in zip(names, kept[0], strict=True)}


def run(peers: Peers, folder: Path) -> None:
    """Go through all cases; then save, and continue what one process saved."""
    found: dict[str, Any] = {"curves": {}, "weights": {}, "gradients": {}}
    for name, case in CASES.items():
        learner = learner_of(case, peers)
        found["curves"][name] = curve(learner, range(STEPS))
        found["weights"][name] = weights_of(learner)
        if name in ("grpo", "ppo", "ppo-lora"):
            learner.save(folder / f"two-{name}")
            learner.export(folder / f"exported-{name}")
            again = learner_of(case, peers)
            again.restore(folder / f"one-{name}")
            found["curves"][f"continued-{name}"] = curve(again, range(STEPS, STEPS + 2))
        if name in ("grpo", "ppo-lora"):
            found["gradients"][name] = gradients_of(case, peers)
    if peers.rank == 0:
        torch.save(found, folder / "found.pt")


def main(rank: int, address: str, folder: Path) -> None:
    place = LearnerRank(rank=rank, world_size=PROCESSES, address=address)
    terms = Terms(settings=LearnerSettings(processes=PROCESSES), device="cpu")
    with joined(place, terms if rank == 0 else None) as peers:
        run(peers, folder)


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2], Path(sys.argv[3]))
