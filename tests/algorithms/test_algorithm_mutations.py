"""Faults of sign, denominator and shift: with each of them in the code, a test must fail."""

import json
import os
import shutil
import subprocess
import sys
from dataclasses import asdict, dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
HERE = Path("tests/algorithms")
BY_HAND = f"{HERE}/test_advantages_by_hand.py"
ADVANTAGES = f"{HERE}/test_advantage_oracle.py"
LOSSES = f"{HERE}/test_loss_oracle.py"


@dataclass(frozen=True)
class Mutation:
    fault: str
    file: str
    old: str
    new: str
    test: str


MUTATIONS = [
    Mutation(
        "the sign of the loss",
        "losses/clipped.py",
        "loss_N=-gain_N",
        "loss_N=gain_N",
        f"{LOSSES}::test_the_clipped_loss",
    ),
    Mutation(
        "the optimistic gain",
        "losses/clipped.py",
        "gain_N = torch.minimum(",
        "gain_N = torch.maximum(",
        f"{LOSSES}::test_the_clipped_loss",
    ),
    Mutation(
        "the clip range upside down",
        "losses/clipped.py",
        "low, high = 1 - clip.low, 1 + clip.high",
        "low, high = 1 - clip.high, 1 + clip.low",
        f"{LOSSES}::test_the_clipped_loss",
    ),
    Mutation(
        "a spread over n instead of n - 1",
        "group.py",
        "values.std()",
        "values.std(correction=0)",
        BY_HAND,
    ),
    Mutation(
        "a chain in its own baseline",
        "advantages/rloo.py",
        "(rewards_G.sum() - rewards_G) / (len(rewards_G) - 1)",
        "rewards_G.mean()",
        BY_HAND,
    ),
    Mutation(
        "this token's value in place of the next one's",
        "credit.py",
        "following[:-1] = values[1:]",
        "following[:-1] = values[:-1]",
        BY_HAND,
    ),
    Mutation(
        "a return that runs on into the next chain",
        "credit.py",
        "if segments[i] == segments[i + 1]:",
        "if segments:",
        f"{ADVANTAGES}::test_ppo",
    ),
    Mutation(
        "a reward one token late",
        "credit.py",
        "torch.searchsorted(rising, keys, right=True) - 1",
        "(torch.searchsorted(rising, keys, right=True)).clamp(max=len(rising) - 1)",
        BY_HAND,
    ),
    Mutation(
        "turn rewards counted twice",
        "credit.py",
        "left_C = x.rewards_C.index_add(0, x.chain_U, x.rewards_U, alpha=-1)",
        "left_C = x.rewards_C",
        BY_HAND,
    ),
    Mutation(
        "a divergence that is paid for",
        "credit.py",
        "return x.rewards_C.index_add(0, x.chain_N, x.kl_N, alpha=-1)",
        "return x.rewards_C.index_add(0, x.chain_N, x.kl_N)",
        f"{ADVANTAGES}::test_an_advantage_within_groups",
    ),
    Mutation(
        "unused groups in the normalization",
        "advantages/reinforce_plus_plus.py",
        "used_N = used_C[x.chain_N]",
        "used_N = used_C[x.chain_N] | True",
        f"{ADVANTAGES}::test_reinforce_plus_plus_with_a_baseline",
    ),
    Mutation(
        "equal states of different groups compared",
        "advantages/gigpo.py",
        "torch.stack([x.group_C[x.chain_U], state_U])",
        "torch.stack([state_U, state_U])",
        f"{ADVANTAGES}::test_gigpo",
    ),
    Mutation(
        "the microbatch's own denominator",
        "aggregate.py",
        "return loss_N.sum() / x.num_tokens",
        "return loss_N.mean()",
        f"{LOSSES}::test_microbatches_add_up",
    ),
    Mutation(
        "a cut chain that counts twice",
        "aggregate.py",
        "(loss_N / x.chain_tokens_N)",
        "(loss_N / x.sample_N.bincount()[x.sample_N])",
        f"{LOSSES}::test_the_clipped_loss",
    ),
    Mutation(
        "the divergence of the reference from the policy",
        "kl.py",
        "return (-difference_N).exp() + difference_N - 1",
        "return difference_N.exp() - difference_N - 1",
        f"{LOSSES}::test_a_kl_term_and_an_entropy_bonus_in_the_loss",
    ),
    Mutation(
        "a correction the wrong way round",
        "correction.py",
        "log_ratio(old_logprobs_N.detach(), sampled_logprobs_N)",
        "log_ratio(sampled_logprobs_N, old_logprobs_N.detach())",
        f"{LOSSES}::test_the_correction",
    ),
    Mutation(
        "a sequence's product in place of its mean",
        "ratio.py",
        "return (sums / counts)[sample_N]",
        "return sums[sample_N]",
        f"{LOSSES}::test_gspo",
    ),
    Mutation(
        "a gradient through the weight",
        "losses/cispo.py",
        "x.logprobs_N.detach()",
        "x.logprobs_N",
        f"{LOSSES}::test_cispo",
    ),
    Mutation(
        "the smaller error of the critic",
        "losses/value.py",
        "torch.maximum(error_N, held_error_N)",
        "torch.minimum(error_N, held_error_N)",
        f"{LOSSES}::test_the_value_loss",
    ),
    Mutation(
        "a punishment of entropy",
        "objective.py",
        "penalty_N - algorithm.entropy_coefficient",
        "penalty_N + algorithm.entropy_coefficient",
        f"{LOSSES}::test_a_kl_term_and_an_entropy_bonus_in_the_loss",
    ),
]


def test_every_fault_fits_the_code() -> None:
    for mutation in MUTATIONS:
        source = (ROOT / "src/agentfly/algorithms" / mutation.file).read_text()
        assert source.count(mutation.old) == 1, f"{mutation.fault}: update the mutation"


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_every_fault_is_caught(tmp_path: Path) -> None:
    source = shutil.copytree(ROOT / "src", tmp_path / "src", ignore=_no_caches)
    asked = tmp_path / "mutations.json"
    asked.write_text(json.dumps([asdict(mutation) for mutation in MUTATIONS]))
    run = subprocess.run(
        [sys.executable, str(HERE / "mutants.py"), str(asked), str(source)],
        cwd=ROOT,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=550,
        check=False,
    )
    assert run.returncode == 0, run.stderr
    codes = json.loads(run.stdout.splitlines()[-1])
    assert codes.pop("none") == 0, run.stderr
    unnoticed = [fault for fault, code in codes.items() if code != 1]
    assert len(codes) == len(MUTATIONS)
    assert not unnoticed, f"{unnoticed}\n{run.stderr}"


def _no_caches(folder: str, names: list[str]) -> list[str]:
    return [name for name in names if name == "__pycache__"]
