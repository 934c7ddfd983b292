"""What each of two learner processes does in the tests of sharding, and its results as files.

python -m tests.training.sharded_cases RANK ADDRESS FOLDER
"""

import gc
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from tests.training.learner_cases import (
    SMALL,
    hf,
    kept_gradients,
    make_groups,
    make_model,
    make_settings,
)

from agentfly.algorithms import make_algorithm
from agentfly.config import LearnerSettings, LoraSettings, ModelSettings, RunSettings
from agentfly.training.learner import model_files
from agentfly.training.learner.learner import LocalLearner
from agentfly.training.learner.peers import LearnerRank, Peers, Terms, joined
from agentfly.training.learner.policy import Policy
from agentfly.training.learner.sharding import whole

PROCESSES = 2
STEPS = 3
LAYERS = (8, 24)
"""Depths of the models whose memory is measured: 21 and 63 MB of weights."""
FILE_BYTES = 4 * 2**20
"""Size of a model's files in the processes of this program: several of each model."""
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
ROUNDED: dict[str, Any] = {
    "algorithm": PPO,
    "precision": "bfloat16",
    "gradient_checkpointing": True,
    "tokens_per_microbatch": 90,
}
"""Computed in bfloat16, recomputed in the backward pass, and summed over several rows."""

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


def kept_between_rows(case: dict[str, Any], peers: Peers) -> list[list[str]]:
    """Return the kinds of gradients that there are after each row's backward pass."""
    learner, found = learner_of(case, peers), list[list[str]]()
    real = torch.Tensor.backward

    def noting(self: torch.Tensor, *args: Any, **options: Any) -> None:
        real(self, *args, **options)  # type: ignore[no-untyped-call]
        gradients = [parameter.grad for parameter in learner.policy.trained]
        found.append(sorted({type(gradient).__name__ for gradient in gradients}))

    torch.Tensor.backward = noting  # type: ignore[method-assign]
    try:
        learner.learn(make_groups(seed=5, groups=3))
    finally:
        torch.Tensor.backward = real  # type: ignore[method-assign]
    return found


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
    learner = learner_of(ROUNDED, peers)
    found["curves"]["rounded"] = curve(learner, range(STEPS))
    with kept_gradients() as kept:
        learner.learn(make_groups(seed=5, groups=3))
    tensors = [*learner.policy.trained, *(gradient for update in kept for gradient in update)]
    found["rounded_dtypes"] = {tensor.dtype for tensor in tensors}
    found["between_rows"] = kept_between_rows(CASES["qwen2-small-rows"], peers)
    found["memory"] = peers.all_of(
        {layers: memory_of(layers, peers, folder / f"published-{layers}") for layers in LAYERS}
    )
    if peers.rank == 0:
        torch.save(found, folder / "found.pt")


def deep_learner(layers: int, peers: Peers | None = None) -> LocalLearner:
    """Make a learner whose weights are most of what it takes."""
    wide = {**SMALL, "hidden_size": 256, "intermediate_size": 512, "num_hidden_layers": layers}
    torch.manual_seed(0)
    model = hf.LlamaForCausalLM(hf.LlamaConfig(**wide))
    chosen = ModelSettings(name="test", precision="float32")
    policy = Policy(model, folder=Path("nowhere"), settings=chosen)
    settings = make_settings(tokens_per_microbatch=256)
    return LocalLearner(policy, make_algorithm("grpo"), settings, peers=peers)


def memory_of(layers: int, peers: Peers | None, folder: Path) -> dict[str, float]:
    """Measure what an update and a publish take at the most, in bytes, and what was estimated."""
    learner = deep_learner(layers, peers)
    gc.collect()
    with growth() as publishing:
        learner.policy.publish_folder(folder, peers or Peers())
    with growth() as updating:
        learner.learn(make_groups(seed=1, groups=3))
    estimate = learner.memory()
    return {
        "weights": sum(4.0 * p.numel() for p in learner.policy.trained),
        "estimate": estimate.total,
        "update": updating[0],
        "publish": publishing[0],
    }


@contextmanager
def growth() -> Iterator[list[float]]:
    """Measure by how much this process grows inside the block, at the most."""
    found: list[float] = []
    Path("/proc/self/clear_refs").write_text("5")  # forgets the largest size so far
    before = _status("VmRSS:") + _status("VmSwap:")  # What comes back from swap is no growth.
    yield found
    found.append(_status("VmHWM:") - before)


def _status(key: str) -> float:
    lines = Path("/proc/self/status").read_text().splitlines()
    (line,) = [line for line in lines if line.startswith(key)]
    return float(line.split()[1]) * 1024


def main(rank: int, address: str, folder: Path) -> None:
    model_files.FILE_BYTES = FILE_BYTES
    place = LearnerRank(rank=rank, world_size=PROCESSES, address=address)
    terms = Terms(settings=LearnerSettings(processes=PROCESSES), device="cpu")
    with joined(place, terms if rank == 0 else None) as peers:
        run(peers, folder)


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2], Path(sys.argv[3]))
