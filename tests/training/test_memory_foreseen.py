"""What an update takes of memory, said before a run begins."""

import logging
import math
from pathlib import Path

import pytest
import torch
from tests.training.learner_cases import make_model

from agentfly.training.learner.forward import Forward
from agentfly.training.learner.memory import Memory, foresee, kept_bytes
from agentfly.training.memory import GIB, engine_cache, free_memory, tell_memory

CPU = torch.device("cpu")
NEEDED = Memory(state=1e9, fixed=0.0, per_token=5e5, tokens=4000)
"""3 GB."""


def forward(**options: bool) -> Forward:
    return Forward(make_model(), dtype=torch.float32, **options)


def test_two_short_rows_tell_what_a_long_one_keeps() -> None:
    body = forward()
    found = foresee(body, [torch.zeros(10, 3)], tokens=96)
    logits = found.total - found.state - kept_bytes(body, 96)
    assert found.state == 30 * (4 + 4 + 4), "a gradient and two averages"
    assert logits == pytest.approx(3 * 96 * body.vocabulary * 4, rel=0.02)
    assert found.per_token > 0


def test_checkpointing_keeps_less() -> None:
    assert kept_bytes(forward(checkpointing=True), 64) < kept_bytes(forward(), 64) / 2


@pytest.mark.parametrize(("free", "level"), [(2e9, "WARNING"), (9e9, "INFO")])
def test_too_little_memory_is_told_with_the_way_out(
    free: float, level: str, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.INFO):
        tell_memory(NEEDED, free)
    (record,) = caplog.records
    assert record.levelname == level
    assert "takes about 3 GB beyond the weights: 1 GB of gradients" in caplog.text
    assert "0.5 MB for each token" in caplog.text
    assert ("Only 2 GB are free: lower train.tokens" in caplog.text) == (level == "WARNING")


@pytest.mark.parametrize(
    ("free", "cache"), [(math.inf, 4 * GIB), (9e9, 4 * GIB), (5e9, 2e9), (3.1e9, GIB / 2)]
)
def test_the_engine_keeps_what_updates_leave_free(free: float, cache: float) -> None:
    assert engine_cache(NEEDED, free) == cache


@pytest.mark.parametrize(("free", "level"), [(4e9, "WARNING"), (6e9, "INFO")])
def test_what_the_engine_keeps_is_part_of_what_is_told(
    free: float, level: str, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.INFO):
        tell_memory(NEEDED, free, cache=2_000_000_000)
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
