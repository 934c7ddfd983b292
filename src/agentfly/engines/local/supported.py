"""Which models the local engine refuses, by name and before any weight is touched."""

from typing import Any

from agentfly.errors import ConfigError

WAY_OUT = "Use a decoder with ordinary full attention (Llama, Qwen2, Qwen3, …) or the vllm engine"


def refuse_unsupported(model: Any) -> None:
    """Raise ConfigError for anything but a decoder with ordinary full attention."""
    name = type(model).__name__
    reason = _reason(model, model.config.get_text_config(decoder=True))
    if reason is not None:
        raise ConfigError(f"the local engine can't run {name}: {reason}. {WAY_OUT}")


def _reason(model: Any, config: Any) -> str | None:
    if getattr(model.config, "is_encoder_decoder", False):
        return "it is an encoder-decoder"
    kinds = set(getattr(config, "layer_types", None) or ()) - {"full_attention"}
    if kinds:
        return f"it has layers of kind {', '.join(sorted(kinds))}"
    if _slides(config):
        return f"its attention slides over a window of {config.sliding_window} tokens"
    if not getattr(model, "_supports_attention_backend", False):
        return "its attention can't be replaced (it has none, or keeps it to itself)"
    rope = (getattr(config, "rope_parameters", None) or {}).get("rope_type", "default")
    if rope in ("dynamic", "longrope"):
        return f"its rotary embedding ({rope}) changes with the length of the sequence"
    return None


def _slides(config: Any) -> bool:
    # Models that name the kind of each layer have been judged by those.
    return (
        getattr(config, "sliding_window", None) is not None
        and getattr(config, "use_sliding_window", True)
        and not getattr(config, "layer_types", None)
    )
