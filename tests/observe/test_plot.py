"""Plots show what was logged, by numbers and not by looks."""

import json
import re
from html.parser import HTMLParser
from pathlib import Path

import pytest

from agentfly.errors import ConfigError
from agentfly.observe import MetricsRecord, plot_curves
from agentfly.observe.plot.curves import Point, read_curves
from agentfly.observe.plot.scale import Axis, reward_range, step_range


def record(step: int, **metrics: float) -> MetricsRecord:
    named = {name.replace("__", "/"): value for name, value in metrics.items()}
    return MetricsRecord(step=step, time=0.0, metrics=named)


RUN = [
    record(0, eval__reward=0.1, eval__reward_low=0.05, eval__reward_high=0.15),
    *(record(step, reward__mean=step / 10) for step in range(1, 8)),
    record(7, eval__reward=0.75),
    record(8, time__step=1.0),
]


def test_what_is_drawn() -> None:
    curves = read_curves(RUN)
    assert [point.step for point in curves.training] == list(range(1, 8))
    assert curves.held_out == (
        Point(step=0, value=0.1, low=0.05, high=0.15),
        Point(step=7, value=0.75),
    )


def test_smoothing_by_hand() -> None:
    rewards = [1.0, 0.0, 2.0, 0.0, 7.0, 1.0]
    curves = read_curves([record(i, reward__mean=r) for i, r in enumerate(rewards)])
    # over 1, 3, 5, 5, 3 and 1 steps
    assert [p.value for p in curves.smoothed] == pytest.approx([1.0, 1.0, 2.0, 2.0, 8 / 3, 1.0])


def test_without_rewards_there_is_nothing_to_plot(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="no reward to plot"):
        plot_curves([record(1, time__step=1.0)], tmp_path / "x.png", None, "Nothing")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("low", "high", "ticks"),
    [
        (0.0, 1.0, [0.0, 0.2, 0.4, 0.6, 0.8, 1.0]),
        (-0.1, 3.2, [0.0, 1.0, 2.0, 3.0]),
        (0.0, 60.0, [0.0, 20.0, 40.0, 60.0]),
        (0.5, 1.5, [0.6, 0.8, 1.0, 1.2, 1.4]),
    ],
)
def test_ticks_are_round_numbers(low: float, high: float, ticks: list[float]) -> None:
    assert Axis(low=low, high=high, start=0, end=1).ticks(5) == ticks


def test_the_ranges() -> None:
    assert step_range(read_curves(RUN)) == (0, 7)
    assert step_range(read_curves([record(3, reward__mean=0.5)])) == (2.5, 3.5)
    assert reward_range(read_curves(RUN)) == pytest.approx((-0.03, 1.03))
    wide = [record(1, reward__mean=-1.0), record(2, reward__mean=3.0)]
    assert reward_range(read_curves(wide)) == pytest.approx((-1.12, 3.12))


def test_a_picture(tmp_path: Path) -> None:
    plot_curves(RUN, tmp_path / "reward.png", None, "A run")
    assert (tmp_path / "reward.png").read_bytes().startswith(b"\x89PNG")
    assert not (tmp_path / "reward.html").exists()


def test_a_run_of_one_evaluation_can_be_drawn(tmp_path: Path) -> None:
    plot_curves([record(0, eval__reward=0.5)], tmp_path / "a.png", tmp_path / "a.html", "One")
    assert "circle" in (tmp_path / "a.html").read_text()


class Page(HTMLParser):
    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def named(self, tag: str) -> list[dict[str, str | None]]:
        return [attributes for name, attributes in self.tags if name == tag]


def test_the_page_needs_nothing_else_and_places_points_right(tmp_path: Path) -> None:
    path = tmp_path / "reward.html"
    plot_curves(RUN, None, path, "Does <b>it</b> learn?")
    text = path.read_text()
    assert "Does &lt;b&gt;it&lt;/b&gt; learn?" in text
    assert "http" not in text
    page = Page(text)
    assert not page.named("link")
    assert not page.named("img")
    assert all("src" not in script for script in page.named("script"))
    first, last = page.named("circle")
    assert (first["cx"], last["cx"]) == ("52.0", "744.0")
    # 0.1 on an axis from -0.03 to 1.03 that runs from 356 up to 12
    assert float(first["cy"] or 0) == pytest.approx(356 - (0.13 / 1.06) * 344, abs=0.06)


def test_the_pointer_shows_every_step(tmp_path: Path) -> None:
    path = tmp_path / "reward.html"
    plot_curves(RUN, None, path, "A run")
    [data] = re.findall(r'<script type="application/json">(.*?)</script>', path.read_text())
    steps = json.loads(data)
    assert [entry["lines"][0] for entry in steps] == [f"step {step}" for step in range(8)]
    assert steps[0]["lines"][1:] == ["held out 0.100 [0.050, 0.150]"]
    assert steps[7]["lines"][1:] == ["training 0.700", "smoothed 0.700", "held out 0.750"]
