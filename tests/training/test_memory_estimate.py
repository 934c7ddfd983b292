"""What an update takes of memory, said before a run begins."""

import logging
import math
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from benchmarks.live_memory import Live
from tests.some_now import some_now
from tests.training.learner_cases import SMALL, hf, make_model, make_policy
from tests.training.small_trainer import one_source, settings, train
from torch._subclasses.fake_tensor import FakeTensorMode

from agentfly.config import LoraSettings
from agentfly.training.learner import memory, segment_attention
from agentfly.training.learner.attention_kernels import Chunked
from agentfly.training.learner.memory import (
    GIB,
    Memory,
    engine_cache,
    estimate_memory,
    free_memory,
    kept_bytes,
    measure_sizes,
    report_memory,
)
from agentfly.training.learner.model_estimate import model_sizes, process_memory
from agentfly.training.learner.pack import PackedRow, pack
from agentfly.training.learner.packed_forward import Forward, Targets, targets_of
from agentfly.types import Sample

CPU = torch.device("cpu")
NEEDED = Memory(state=1e9, fixed=0.0, per_token=5e5, tokens=4000)
"""3 GB."""


def forward(**options: bool) -> Forward:
    return Forward(make_model(), dtype=torch.float32, **options)


def shared_row(prompt: int, answers: list[int]) -> tuple[PackedRow, Targets]:
    """A prompt with answers, all tokens of which are trained."""

    def sample(answer: int) -> Sample:
        count = prompt + answer
        return Sample(
            token_ids=(*range(prompt), *(90 - answer % 7,) * answer),
            mask=(False,) * prompt + (True,) * answer,
            logprobs=(0.0,) * count,
            versions=(0,) * count,
            turn_index=(0,) * count,
            temperature=1.0,
            chain_id="c",
            group_id="g",
        )

    samples = [sample(answer) for answer in answers]
    (row,) = pack(samples, budget=10_000)
    assert len(row.token_ids) == prompt + sum(answers)
    return row, targets_of(row, samples, CPU)


DTYPES = [torch.float32, torch.bfloat16]


@pytest.mark.parametrize("checkpointing", [False, True])
@pytest.mark.parametrize("dtype", some_now(DTYPES, every=2))
@pytest.mark.parametrize("answers", [[512], [225, 226, 227, 228]])
def test_the_estimate_is_what_an_update_takes(
    dtype: torch.dtype, checkpointing: bool, answers: list[int]
) -> None:
    """Never less, and not much more: what malloc can't use again takes room too."""
    model = hf.LlamaForCausalLM(hf.LlamaConfig(**{**SMALL, "num_hidden_layers": 6}))
    compute = Forward(model, dtype=dtype, checkpointing=checkpointing)
    row, targets = shared_row(80, answers)
    estimate = estimate_memory(compute, model.parameters(), len(row.token_ids))
    with Live() as live:
        compute(row, targets).logprobs_K.sum().backward()
    averages = estimate.state * 2 / 3
    most = 2.5 if checkpointing else 1.4
    assert 1.0 <= (estimate.total - averages) / live.peak < most


def test_the_estimate_needs_no_weights_but_only_their_shapes() -> None:
    def estimate() -> Memory:
        model = hf.LlamaForCausalLM(hf.LlamaConfig(**SMALL))
        compute = Forward(model, dtype=torch.bfloat16, checkpointing=True)
        return estimate_memory(compute, model.parameters(), 512, processes=2)

    with FakeTensorMode():
        without_values = estimate()
    assert without_values == estimate()


@pytest.mark.parametrize("saved_as", some_now(reversed(DTYPES), every=2))
def test_two_short_models_tell_the_size_of_a_deep_one(
    tmp_path: Path, saved_as: torch.dtype
) -> None:
    """Weights are trained in float32, whatever the dtype of the folder is."""
    model = hf.LlamaForCausalLM(hf.LlamaConfig(**{**SMALL, "num_hidden_layers": 7}))
    model.config.dtype = saved_as
    model.config.save_pretrained(tmp_path)
    deep = measure_sizes(Forward(model, dtype=torch.float32, checkpointing=True))
    told = model_sizes(tmp_path, None, dtype=torch.float32, checkpointing=True)
    for name in ("trained", "layers", "fixed", "per_token", "recomputed_per_token", "at_work"):
        assert getattr(told, name) == pytest.approx(getattr(deep, name)), name
    rows = {"reference": True, "critic": False}
    one, four = (process_memory(told, None, 512, n, torch.float32, **rows) for n in (1, 4))
    assert one.weights == 8 * told.trained == 4 * four.weights
    assert four.state == one.state / 4


def test_a_base_in_four_bits_takes_an_eighth_of_its_linear_layers(tmp_path: Path) -> None:
    config = hf.LlamaConfig(**SMALL)
    config.save_pretrained(tmp_path)
    plain, rounded = (LoraSettings(rank=2, base_bits=bits) for bits in (None, 4))
    sizes = model_sizes(tmp_path, plain, dtype=torch.float32, checkpointing=False)
    copies = {"reference": True, "critic": False}
    whole, small = (
        process_memory(sizes, lora, 512, 1, torch.float32, **copies) for lora in (plain, rounded)
    )
    layers = hf.LlamaForCausalLM(config).model.layers
    linear = sum(p.numel() for p in layers.parameters() if p.dim() > 1)
    assert whole.weights - small.weights == 3.5 * linear


@pytest.mark.parametrize("dtype", some_now(DTYPES, every=2))
def test_the_estimate_counts_scores_where_attention_has_no_fused_kernel(
    dtype: torch.dtype, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As on a GPU, by a row so long that scores are most of what it takes."""
    for module in (segment_attention, memory):
        monkeypatch.setattr(module, "kernel_for", lambda device: Chunked())
    config = {**SMALL, "num_hidden_layers": 1, "num_attention_heads": 12}
    model = hf.LlamaForCausalLM(hf.LlamaConfig(**{**config, "max_position_embeddings": 2048}))
    compute = Forward(model, dtype=dtype)
    row, targets = shared_row(80, [512, 513])
    estimate = estimate_memory(compute, model.parameters(), len(row.token_ids))
    with Live() as live:
        compute(row, targets).logprobs_K.sum().backward()
    assert 1.0 <= (estimate.total - estimate.state * 2 / 3) / live.peak < 8


def test_a_run_s_log_counts_the_engine_s_copy(tmp_path: Path) -> None:
    model = {"name": "tiny-random", "precision": "bfloat16"}
    train(one_source(), chosen=settings(tmp_path, model=model, train={"steps": 1}))
    log = (tmp_path / "small" / "log.txt").read_text()
    assert "The engine samples from a copy of the weights" in log


def test_an_update_s_state_is_a_gradient_and_two_averages() -> None:
    assert estimate_memory(forward(), [torch.zeros(10, 3)], tokens=9).state == 30 * (4 + 4 + 4)


def test_checkpointing_keeps_less() -> None:
    assert kept_bytes(forward(checkpointing=True), 64) < kept_bytes(forward(), 64) / 2


@pytest.mark.parametrize(("free", "level"), [(2e9, "WARNING"), (9e9, "INFO")])
def test_too_little_memory_is_reported_with_the_way_out(
    free: float, level: str, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.INFO):
        report_memory(NEEDED, free)
    (record,) = caplog.records
    assert record.levelname == level
    assert "takes about 3 GB beyond the weights: 1 GB for gradients" in caplog.text
    assert "0.5 MB for each token" in caplog.text
    assert ("Only 2 GB are free: lower train.tokens" in caplog.text) == (level == "WARNING")


@pytest.mark.parametrize(
    ("free", "cache"), [(math.inf, 4 * GIB), (9e9, 4 * GIB), (5e9, 2e9), (3.1e9, GIB / 2)]
)
def test_the_engine_keeps_what_updates_leave_free(free: float, cache: float) -> None:
    assert engine_cache(NEEDED, free) == cache


def test_the_engine_s_copy_of_the_weights_is_counted(caplog: pytest.LogCaptureFixture) -> None:
    model = make_model()
    numbers = sum(weight.numel() for weight in model.parameters())
    assert make_policy(model).copy_bytes() == 0
    assert make_policy(model).copy_bytes(always=True) == 4 * numbers
    assert make_policy(model, precision="bfloat16").copy_bytes() == 2 * numbers
    needed = replace(NEEDED, copy=1.5e9)
    with caplog.at_level(logging.INFO):
        report_memory(needed, 4e9)
    assert "takes about 3 GB beyond the weights" in caplog.text
    assert "samples from a copy of the weights, 1.5 GB more" in caplog.text
    assert caplog.records[0].levelname == "WARNING"
    assert engine_cache(needed, 7e9) == 2.5e9


@pytest.mark.parametrize(("free", "level"), [(4e9, "WARNING"), (6e9, "INFO")])
def test_what_the_engine_keeps_is_part_of_what_is_reported(
    free: float, level: str, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.INFO):
        report_memory(NEEDED, free, cache=2_000_000_000)
    (record,) = caplog.records
    assert record.levelname == level
    assert "The engine keeps keys and values of up to 2 GB besides" in caplog.text


def test_the_lower_bound_counts_of_machine_and_container(tmp_path: Path) -> None:
    machine = tmp_path / "meminfo"
    assert free_memory(CPU, machine=machine, container=tmp_path) == math.inf
    machine.write_text("MemTotal: 9000 kB\nMemAvailable: 5000 kB\n")
    assert free_memory(CPU, machine=machine, container=tmp_path) == 5000 * 1024
    (tmp_path / "memory.max").write_text("max\n")
    assert free_memory(CPU, machine=machine, container=tmp_path) == 5000 * 1024
    (tmp_path / "memory.max").write_text("4000000\n")
    (tmp_path / "memory.stat").write_text("anon 1500000\nfile 2000000\n")
    assert free_memory(CPU, machine=machine, container=tmp_path) == 2500000
