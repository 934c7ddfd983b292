"""The rotary table, which shards that run side by side share."""

import threading

import pytest
import torch
from tests.engines.local_models import llama
from torch import Tensor

from agentfly.engines.local.llama_forward import ROTARY_BLOCK, LlamaForward


def test_a_shard_never_takes_away_the_longer_table_of_another(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    forward = LlamaForward(llama())
    make_table = forward._make_table
    short_begun, long_done = threading.Event(), threading.Event()

    def slow_if_short(length: int) -> Tensor:
        if length == 2 * ROTARY_BLOCK:
            short_begun.set()
            long_done.wait(0.3)  # in vain, where tables are made one after the other
        return make_table(length)

    monkeypatch.setattr(forward, "_make_table", slow_if_short)
    short = threading.Thread(target=forward._rotation, args=(torch.tensor([ROTARY_BLOCK]),))
    short.start()
    assert short_begun.wait(20)
    cos, sin = forward._rotation(torch.tensor([2 * ROTARY_BLOCK]))
    long_done.set()
    short.join()
    assert forward._table.shape[1] == 3 * ROTARY_BLOCK
    assert cos.square() + sin.square() == pytest.approx(torch.ones_like(cos), abs=1e-5)
