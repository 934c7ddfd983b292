"""What the engine has done so far, for metrics, benchmarks and tests that count instead of time."""

from dataclasses import dataclass


@dataclass(slots=True, kw_only=True)
class Counters:
    """Totals since the engine was made."""

    prefilled_tokens: int = 0
    """Tokens computed that were not just sampled: prompts, suffixes, what is computed anew."""
    decoded_tokens: int = 0
    """Tokens sampled."""
    reused_tokens: int = 0
    """Tokens whose keys and values were found in the cache instead of being prefilled."""
    evictions: int = 0
    """Idle sequences dropped because another needed the memory."""
    preemptions: int = 0
    """Running sequences dropped, to be recomputed later, because an older one needed the memory."""
    cache_bytes: int = 0
    """Held by keys and values now."""
    peak_cache_bytes: int = 0
    steps: int = 0
