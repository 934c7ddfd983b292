"""An engine factory whose second replica dies half-way through a run."""

from agentfly.engines import EngineSpec
from agentfly.engines.local import LocalEngine
from agentfly.engines.local.engine import make_local

LAST_VERSION = 15
"""Version of the weights with which the second replica samples its last token."""

DEATHS: list[int] = []
"""Numbers of the replicas that died in this process."""


def make_engine(spec: EngineSpec) -> LocalEngine:
    """Return a local engine; the second one stops with an error once it has newer weights."""
    engine = make_local(spec)
    if spec.replica == 1:
        core = engine._core
        step = core.step

        def dying_step() -> None:
            if core._version > LAST_VERSION:
                DEATHS.append(spec.replica)
                raise RuntimeError("killed by the test")
            step()

        core.step = dying_step  # type: ignore[method-assign]
    return engine
