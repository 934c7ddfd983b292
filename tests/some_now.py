"""Long tables of cases, a few of which are tried in every run of the tests."""

from collections.abc import Iterable
from typing import Any

import pytest


def some_now(cases: Iterable[Any], *, every: int) -> list[Any]:
    """Mark all but each `every`-th case as slow, so that `make test-slow` tries the others."""
    parameters = [case if isinstance(case, tuple) else (case,) for case in cases]
    return [
        pytest.param(*each, marks=pytest.mark.slow if place % every else ())
        for place, each in enumerate(parameters)
    ]
