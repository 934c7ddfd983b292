"""A base in 4 or 8 bits under adapters, where bitsandbytes is installed; refused elsewhere."""

from pathlib import Path

import pytest
import torch
from tests.training.learner_cases import hf
from tests.training.sharded_cases import PPO, curve, learner_of
from tests.training.small_trainer import one_source, settings, train

from agentfly.agents.preflight import learner_problems, missing_requirements
from agentfly.config import LoraSettings, RunSettings
from agentfly.observe import read_metrics


def rounded(folder: Path, bits: int, **tables: object) -> RunSettings:
    lora = {"rank": 2, "base_bits": bits}
    model = {"name": "tiny-random", "precision": "float32", "lora": lora}
    return settings(folder, model=model, **tables)


def test_it_is_refused_without_bitsandbytes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("agentfly.runtime.extra.find_spec", lambda name: None)
    chosen = rounded(tmp_path, 4)
    (problem,) = missing_requirements(chosen.model, chosen.track)
    assert problem.key == "model.lora.base_bits"
    assert "A base in 4 bits needs the package bitsandbytes: pip install" in problem.text


def test_it_is_refused_with_several_processes(tmp_path: Path) -> None:
    (problem,) = learner_problems(rounded(tmp_path, 8, learner={"processes": 2}))
    assert "a base in 8 bits can't be spread over processes" in problem.text
    assert not list(learner_problems(rounded(tmp_path, 8)))


@pytest.mark.slow
@pytest.mark.parametrize(("bits", "near"), [(4, 0.35), (8, 0.05)])
def test_it_learns_packed_near_the_base_and_exports_what_it_computes(
    bits: int, near: float, tmp_path: Path
) -> None:
    pytest.importorskip("bitsandbytes")
    lora = LoraSettings(rank=2, base_bits=bits)  # type: ignore[arg-type]
    learner = learner_of({"algorithm": PPO, "lora": lora})
    whole = learner_of({"algorithm": PPO, "lora": LoraSettings(rank=2)})
    assert learner._forward.body.shares_prefixes, "rows are packed"
    ids = torch.arange(3, 40)[None]
    with torch.no_grad():
        exact = whole.policy.causal_lm(input_ids=ids).logits
        off = learner.policy.causal_lm(input_ids=ids).logits - exact
    assert 0 < off.std() / exact.std() < near
    before = learner.logprobs([1, 2], [3, 4])
    assert all(step["grad_norm"] > 0 for step in curve(learner, range(3)))
    assert learner.logprobs([1, 2], [3, 4]) != before
    learner.export(tmp_path / "exported")
    again = hf.AutoModelForCausalLM.from_pretrained(tmp_path / "exported")
    with torch.no_grad():
        torch.testing.assert_close(
            again(input_ids=ids).logits,
            learner.policy.causal_lm(input_ids=ids).logits,
            rtol=1e-4,
            atol=1e-4,
        )


@pytest.mark.slow
@pytest.mark.parametrize("bits", [4, 8])
def test_a_run_learns_samples_and_resumes_with_it(bits: int, tmp_path: Path) -> None:
    pytest.importorskip("bitsandbytes")
    train(one_source(), chosen=rounded(tmp_path, bits, train={"steps": 1, "lr": 1e-3}))
    chosen = rounded(tmp_path, bits, train={"steps": 2, "lr": 1e-3})
    assert train(one_source(), chosen=chosen, resume=True).steps == 2
    records = read_metrics(tmp_path / "small" / "metrics.jsonl")
    assert [r.metrics["train/grad_norm"] > 0 for r in records if "train/grad_norm" in r.metrics]
    # Weights that are shared with the sampler give its log-probabilities.
    assert all(r.metrics.get("train/mismatch/kl", 0.0) < 1e-3 for r in records)
