"""Which models are trained on packed rows, and what is said of the others."""

import logging
from typing import Any

import pytest
import torch
from tests.training.learner_cases import MODELS, SMALL, hf, make_model

from agentfly.training.learner import body
from agentfly.training.learner.body import PackedBody, PaddedBody, make_body


def dynamic_rope() -> Any:
    rope = {"rope_type": "dynamic", "factor": 2.0, "rope_theta": 10000.0}
    return hf.LlamaForCausalLM(hf.LlamaConfig(**SMALL, rope_parameters=rope)).eval()


def own_attention() -> Any:
    model = make_model()
    model._supports_attention_backend = False
    return model


@pytest.mark.parametrize(
    ("model", "reason"),
    [(dynamic_rope, "changes with the length"), (own_attention, "can't be replaced")],
)
def test_what_cannot_be_packed_is_padded_with_the_reason(
    model: Any, reason: str, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING):
        chosen = make_body(model(), dtype=torch.float32)
    assert isinstance(chosen, PaddedBody)
    assert reason in caplog.text


@pytest.mark.parametrize(("error", "kind"), [(1e-6, PackedBody), (0.5, PaddedBody)])
def test_a_model_that_computes_otherwise_when_packed_is_padded(
    error: float, kind: type, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(body, "_packing_error", lambda _: error)
    assert isinstance(make_body(make_model(), dtype=torch.float32), kind)


@pytest.mark.parametrize("name", [name for name in MODELS if name != "mistral-window"])
def test_ordinary_attention_is_packed(name: str) -> None:
    """Without this, a mistake in packed attention would only make training slow, by padding."""
    assert isinstance(make_body(make_model(name), dtype=torch.float32), PackedBody)


def test_a_twin_leaves_the_model_as_it_was() -> None:
    model = make_model()
    attention = model.config._attn_implementation
    twin = make_body(model, dtype=torch.float32, checkpointing=True).module
    assert twin.training
    assert not model.training
    assert model.config._attn_implementation == attention != twin.config._attn_implementation
    assert not any(getattr(part, "gradient_checkpointing", False) for part in model.modules())
    pairs = zip(model.parameters(), twin.parameters(), strict=True)
    assert all(mine is theirs for mine, theirs in pairs)
