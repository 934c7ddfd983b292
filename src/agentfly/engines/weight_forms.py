"""The check of published weights that all trainable engines share."""

from agentfly.errors import ConfigError
from agentfly.types import TrainableEngine, Weights


def require_supported_form(engine: TrainableEngine, weights: Weights) -> None:
    """Raise ConfigError unless the engine takes weights in this form.

    >>> require_supported_form(engine, None)                            # doctest: +SKIP
    ConfigError: LocalEngine takes NamedTensors or SharedTensors, got NoneType
    """
    if type(weights) not in engine.takes:
        known = " or ".join(sorted(form.__name__ for form in engine.takes))
        got = type(weights).__name__
        raise ConfigError(f"{type(engine).__name__} takes {known}, got {got}")
