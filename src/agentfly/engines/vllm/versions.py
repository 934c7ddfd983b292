"""From the labels of vLLM's weights to our versions.

vLLM labels the weights with a string, and says of each completion which of its tokens were sampled
under which label. Ours are numbers written as text; a server that was given none says "default".
"""

from collections.abc import Sequence

from pydantic import BaseModel

from agentfly.errors import EngineError, StaleWeightsError
from agentfly.types import VersionRuns

UNLABELLED = "default"


class LabelSpan(BaseModel):
    """Tokens from `start` up to, but not including, `end` were sampled under one label."""

    version: str
    start: int
    end: int


def runs(spans: Sequence[LabelSpan], count: int, *, unlabeled: int | None) -> VersionRuns:
    """Return the versions of so many tokens by run length.

    Args:
        spans: As the server returned them.
        count: How many tokens it returned.
        unlabeled: The version of weights that were never labeled; None when all were, so that
            "default" can only mean that the server has lost them.

    >>> runs([LabelSpan(version="3", start=0, end=20), LabelSpan(version="4", start=20, end=27)],
    ...      27, unlabeled=None)
    ((3, 20), (4, 7))
    """
    ends = [0, *(span.end for span in spans)]
    starts = [*(span.start for span in spans), count]
    if ends != starts or any(span.start >= span.end for span in spans):
        raise EngineError(
            f"vLLM returned {count} tokens and weights for "
            f"{[(span.start, span.end) for span in spans]}; expected spans that cover all"
        )
    return tuple((_version(span.version, unlabeled), span.end - span.start) for span in spans)


def _version(label: str, unlabeled: int | None) -> int:
    if label == UNLABELLED and unlabeled is not None:
        return unlabeled
    if not label.isdecimal():
        raise StaleWeightsError(
            f"vLLM sampled from weights labeled {label!r}, which this engine never loaded; "
            "expected a number. Was the server restarted, or is somebody else loading weights?"
        )
    return int(label)
