"""A vLLM server that somebody else started, and may start again."""

import math

from agentfly.engines.vllm.control import Control, ServerInfo
from agentfly.errors import ConfigError
from agentfly.runtime.clock import LoopClock
from agentfly.runtime.http_client import Endpoint, HttpClient

DESCRIBE_SECONDS = 300.0
"""vLLM looks its whole machine over before it answers, which was seen to take 24 s."""

NEEDED = "VLLM_SERVER_DEV_MODE=1, --enable-scale-out and --logprobs-mode processed_logprobs"


async def join_vllm(endpoint: Endpoint, *, context_length: float) -> "JoinedServer":
    """Ask a running server how it was started, and refuse one that can't be trained through.

    Args:
        endpoint: Where it is.
        context_length: Longest sequence that will be asked for; infinite where it is not known.

    Raises:
        ConfigError: It was started without what training needs.
        EngineError: It can't be reached.
    """
    clock = LoopClock()
    server = HttpClient(endpoint, clock)
    try:
        info = await Control(server).describe(deadline=clock.now() + DESCRIBE_SECONDS)
    finally:
        await server.close()
    if info.logprobs_mode != "processed_logprobs":
        raise ConfigError(
            f"{endpoint.url} gives log-probabilities of the kind {info.logprobs_mode!r}, and "
            f"training needs 'processed_logprobs'. Start it with {NEEDED}"
        )
    if math.isfinite(context_length) and info.max_model_len < context_length:
        raise ConfigError(
            f"{endpoint.url} takes sequences of up to {info.max_model_len} tokens, and chains may "
            f"have {context_length:g}. Lower rollout.context_length, or start it with a larger "
            "--max-model-len"
        )
    return JoinedServer(endpoint, info)


class JoinedServer:
    """A running server, as `VllmService` needs it."""

    def __init__(self, endpoint: Endpoint, info: ServerInfo) -> None:
        self.endpoint = endpoint
        self.seeded = info.device != "cpu"

    async def why_dead(self) -> str | None:
        """Say nothing: whether it comes back is not known here."""
        return None

    async def close(self) -> None:
        """Leave it running."""
