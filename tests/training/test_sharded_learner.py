"""Two processes that share a learner by FSDP2 learn what one process learns."""

import os
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file
from tests.training.learner_cases import hf
from tests.training.sharded_cases import (
    CASES,
    LAYERS,
    PROCESSES,
    ROUNDED,
    STEPS,
    curve,
    deep_learner,
    gradients_of,
    learner_of,
    weights_of,
)
from tests.warm_python import WarmPython

from agentfly.training.learner.peers import serve_store

ROOT = Path(__file__).parents[2]
SAVED = ("grpo", "ppo", "ppo-lora")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory, warm_python: WarmPython) -> Path:
    """Learn on one process and save; then let two processes go through all cases."""
    path = tmp_path_factory.mktemp("sharded")
    for name in SAVED:
        learner = learner_of(CASES[name])
        curve(learner, range(STEPS))
        (path / f"one-{name}").mkdir()
        learner.save(path / f"one-{name}")
    store = serve_store("127.0.0.1")
    started = [
        warm_python.start(
            *(str(rank), f"127.0.0.1:{store.port}", str(path)),
            module="tests.training.sharded_cases",
            cwd=ROOT,
            streams=(os.devnull, path / f"said-{rank}.txt", path / f"said-{rank}.txt"),
            environment={"TORCHELASTIC_USE_AGENT_STORE": "True"},
        )
        for rank in range(PROCESSES)
    ]
    for rank, process in enumerate(started):
        assert process.wait() == 0, (path / f"said-{rank}.txt").read_text()
    return path


@pytest.fixture(scope="module")
def found(folder: Path) -> dict[str, Any]:
    results: dict[str, Any] = torch.load(folder / "found.pt")
    return results


@pytest.mark.parametrize("name", CASES)
def test_two_processes_give_the_loss_curve_of_one(name: str, found: dict[str, Any]) -> None:
    alone = learner_of(CASES[name])
    expected = curve(alone, range(STEPS))
    for got, wanted in zip(found["curves"][name], expected, strict=True):
        assert got == pytest.approx(wanted, rel=1e-4, abs=1e-5)
    for parameter, weight in weights_of(alone).items():
        torch.testing.assert_close(found["weights"][name][parameter], weight, rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("name", ["grpo", "ppo-lora"])
def test_two_processes_give_the_gradient_of_one(name: str, found: dict[str, Any]) -> None:
    expected = gradients_of(CASES[name])
    got = found["gradients"][name]
    largest = max(float(gradient.abs().max()) for gradient in expected.values())
    for parameter, gradient in expected.items():
        torch.testing.assert_close(got[parameter], gradient, rtol=0, atol=1e-5 * largest)


def test_two_processes_compute_in_bfloat16_and_keep_and_sum_in_float32(
    found: dict[str, Any],
) -> None:
    assert found["rounded_dtypes"] == {torch.float32}
    exact = curve(learner_of({**ROUNDED, "precision": "float32"}), range(STEPS))
    for got, wanted in zip(found["curves"]["rounded"], exact, strict=True):
        assert got == pytest.approx(wanted, rel=0.1, abs=0.02)
        assert got["grad_norm"] != pytest.approx(wanted["grad_norm"], rel=1e-5)


def test_gradients_are_spread_after_each_row(found: dict[str, Any]) -> None:
    assert len(found["between_rows"]) > 2
    assert all(kinds == ["DTensor"] for kinds in found["between_rows"])


@pytest.mark.parametrize("name", SAVED)
def test_each_continues_what_the_other_saved(
    name: str, folder: Path, found: dict[str, Any]
) -> None:
    whole = learner_of(CASES[name])
    expected = curve(whole, range(STEPS + 2))[STEPS:]
    one = learner_of(CASES[name])
    one.restore(folder / f"two-{name}")
    assert one.step == STEPS
    for curves in (curve(one, range(STEPS, STEPS + 2)), found["curves"][f"continued-{name}"]):
        for got, wanted in zip(curves, expected, strict=True):
            assert got == pytest.approx(wanted, rel=1e-3, abs=1e-4)


@pytest.mark.parametrize("name", SAVED)
def test_an_export_of_two_processes_is_a_plain_folder(
    name: str, folder: Path, found: dict[str, Any]
) -> None:
    again = hf.AutoModelForCausalLM.from_pretrained(folder / f"exported-{name}")
    one = learner_of(CASES[name])
    one.restore(folder / f"two-{name}")
    ids = torch.arange(3, 40)[None]
    with torch.no_grad():
        torch.testing.assert_close(
            again(input_ids=ids).logits, one.policy.causal_lm(input_ids=ids).logits
        )
    assert "lm_head.weight" in load_file(folder / f"exported-{name}" / "model.safetensors")


def test_a_publish_holds_a_file_in_memory_and_not_the_model(
    folder: Path, found: dict[str, Any]
) -> None:
    layers = LAYERS[-1]
    for measured in found["memory"]:
        assert measured[layers]["publish"] < measured[layers]["weights"] / 3
    written: dict[str, torch.Tensor] = {}
    files = sorted((folder / f"published-{layers}").glob("*.safetensors"))
    assert len(files) > 2 * PROCESSES
    for file in files:
        written |= load_file(file)
    own = deep_learner(layers).policy.causal_lm.state_dict()
    assert written.keys() == own.keys()
    assert all(torch.equal(written[name], own[name]) for name in own)


def test_the_estimate_for_each_of_two_processes_is_what_an_update_takes(
    found: dict[str, Any],
) -> None:
    for measured in found["memory"]:
        for layers in LAYERS:
            ratio = measured[layers]["estimate"] / measured[layers]["update"]
            assert 1.0 <= ratio < 2.5, measured
