"""The metrics of a step, by hand."""

import math
from dataclasses import replace
from pathlib import Path

import pytest
from tests.observe.finished_groups import chain, group, scored, turn

from agentfly.errors import ConfigError
from agentfly.observe.evaluation_metrics import evaluation_metrics
from agentfly.observe.metrics import METRICS, metrics_page, require_documented
from agentfly.observe.rollout_metrics import rollout_metrics
from agentfly.types import Message, Span, SpanKind, StopReason, ToolStatus

OK, UNKNOWN, MALFORMED = ToolStatus.OK, ToolStatus.UNKNOWN_TOOL, ToolStatus.MALFORMED
ERROR, TIMEOUT = ToolStatus.ERROR, ToolStatus.TIMEOUT


def span(kind: SpanKind, seconds: float) -> Span:
    return Span(kind=kind, name="x", turn=0, start=1.0, end=1.0 + seconds)


STEP = [
    group(
        "a",
        [
            chain(
                1.0,
                turn(OK, UNKNOWN, tokens=10, version=5),
                turn(index=1, tokens=5, version=6),
                parts={"correct": 1.0, "format": 0.5},
                spans=tuple(span(kind, seconds=float(i)) for i, kind in enumerate(SpanKind)),
            ),
            chain(0.5, turn(MALFORMED, tokens=3, version=6), parts={"correct": 0.0}),
            chain(None, stop=StopReason.ENV_CRASHED, error="EnvError: gone", attempt=1),
        ],
    ),
    group(
        "b",
        [
            chain(0.0, turn(ERROR, TIMEOUT, tokens=2, version=6), stop=StopReason.TURN_LIMIT),
            chain(0.0, spans=(span(SpanKind.GENERATE, 3.0),)),
        ],
    ),
]


def test_a_step_by_hand() -> None:
    assert rollout_metrics(STEP, version=7, seconds=4.0) == pytest.approx(
        {
            "reward/mean": 1.5 / 4,
            "reward/std": math.sqrt((0.625**2 + 0.125**2 + 2 * 0.375**2) / 4),
            "reward/min": 0.0,
            "reward/max": 1.0,
            "reward/solved": 0.25,
            "reward/flat_groups": 0.5,
            "reward/part/correct": 0.5,
            "reward/part/format": 0.5,
            "chains/count": 5.0,
            "chains/groups": 2.0,
            "chains/scored": 4.0,
            "chains/failed": 1.0,
            "chains/failed_share": 0.2,
            "chains/time_limit_share": 0.0,
            "chains/retried": 1.0,
            "tools/calls": 1.0,
            "tools/invalid_share": 0.4,
            "tools/unknown_share": 0.2,
            "tools/error_share": 0.2,
            "tools/timeout_share": 0.2,
            "tools/failed_share": 0.8,
            "tools/repaired_share": 0.0,
            "turns/mean": 0.8,
            "turns/max": 2.0,
            "tokens/sampled": 20.0,
            "tokens/per_chain": 4.0,
            "tokens/per_turn": 5.0,
            "tokens/longest": 21.0,
            "tokens/per_second": 5.0,
            "stop/answered": 0.6,
            "stop/turn_limit": 0.2,
            "stop/env_crashed": 0.2,
            "failures/EnvError": 1.0,
            "staleness/mean": (10 * 2 + 10 * 1) / 20,
            "staleness/max": 2.0,
            "time/queue": 0.0,
            "time/generation": (1.0 + 3.0) / 5,
            "time/tools": 2.0 / 5,
            "time/environments": 3.0 / 5,
            "time/rewards": 4.0 / 5,
            "time/sampling": 4.0,
        }
    )


def test_actions_in_text_that_were_impossible_are_counted() -> None:
    answered = replace(turn(), replies=(Message(role="user", content="Nothing happens."),))
    turns = [replace(answered, invalid=True), replace(answered, index=1), turn(OK, index=2)]
    metrics = rollout_metrics([group("a", [chain(1.0, *turns)])])
    assert metrics["actions/invalid_share"] == 0.5
    assert metrics["tools/invalid_share"] == 0.0


def test_nothing_is_not_zero() -> None:
    assert rollout_metrics([]) == {
        "chains/count": 0.0,
        "chains/groups": 0.0,
        "chains/scored": 0.0,
        "chains/failed": 0.0,
        "chains/retried": 0.0,
        "turns/max": 0.0,
        "tokens/sampled": 0.0,
        "tokens/longest": 0.0,
    }
    failed = rollout_metrics([scored("a", None, None)], version=3)
    assert "reward/mean" not in failed
    assert "staleness/mean" not in failed
    assert failed["chains/failed_share"] == 1.0


def test_each_source_has_its_own() -> None:
    metrics = rollout_metrics(
        [scored("a", 1.0, source="math"), scored("b", 0.0, 0.5, source="search")], version=0
    )
    assert metrics["reward/mean"] == 0.5
    assert metrics["source/math/reward/mean"] == 1.0
    assert metrics["source/search/reward/mean"] == 0.25
    assert metrics["source/search/chains/count"] == 2.0
    assert metrics["source/math/staleness/max"] == 0.0


def test_a_run_without_named_sources_is_reported_once() -> None:
    assert not [name for name in rollout_metrics(STEP) if name.startswith("source/")]
    assert "source/math/reward/mean" in rollout_metrics([scored("a", 1.0, source="math")])


def test_every_name_is_documented() -> None:
    sources = [scored("a", 1.0, source="math/hard"), scored("b", 0.0, source="search")]
    require_documented(rollout_metrics(STEP, version=7, seconds=4.0))
    require_documented(rollout_metrics(sources, version=0))
    require_documented(evaluation_metrics(sources))


def test_another_name_is_refused() -> None:
    names = ["reward/mean", "reward/median", "source/math/oops", "source/math", "stop/"]
    with pytest.raises(
        ConfigError, match=r"metrics: reward/median, source/math, source/math/oops, stop/\. Add"
    ):
        require_documented(names)
    require_documented(["train/loss", "source/x/train/loss"], {"train/loss": "What is minimized."})


def test_names_are_in_namespaces() -> None:
    assert all("/" in name and text.endswith(".") for name, text in METRICS.items())


def test_the_page_is_made_from_the_catalog() -> None:
    """`python tests/observe/test_rollout_metrics.py` writes it."""
    assert PAGE.read_text() == metrics_page(*others())


def others() -> list[dict[str, str]]:
    """The catalogs of rooms that `observe` does not know of, as the training loop names them."""
    from agentfly.training.learner import step_metrics

    return [{f"train/{name}": text for name, text in step_metrics.METRICS.items()}]


PAGE = Path(__file__).parents[2] / "docs" / "metrics.md"

if __name__ == "__main__":
    PAGE.write_text(metrics_page(*others()))
