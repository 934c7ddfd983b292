"""Plots show what was logged, by numbers and not by looks."""

import json
import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from agentfly.errors import ConfigError
from agentfly.observe import MetricsRecord, plot_curves
from agentfly.observe.plot import Point, read_curves


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


def test_the_axis_shows_at_least_0_to_1() -> None:
    assert read_curves(RUN).reward_range == pytest.approx((-0.03, 1.03))
    wide = [record(1, reward__mean=-1.0), record(2, reward__mean=3.0)]
    assert read_curves(wide).reward_range == pytest.approx((-1.12, 3.12))


def test_a_picture(tmp_path: Path) -> None:
    plot_curves(RUN, tmp_path / "reward.png", None, "A run")
    assert (tmp_path / "reward.png").read_bytes().startswith(b"\x89PNG")
    assert not (tmp_path / "reward.html").exists()


def test_a_run_of_one_evaluation_can_be_drawn(tmp_path: Path) -> None:
    plot_curves([record(0, eval__reward=0.5)], tmp_path / "a.png", tmp_path / "a.html", "One")
    assert (tmp_path / "a.png").read_bytes().startswith(b"\x89PNG")
    assert len(places_of_held_out((tmp_path / "a.html").read_text())) == 1


def places_of_held_out(page: str) -> list[tuple[float, float]]:
    """Return where the page draws the held-out rewards."""
    [drawn] = re.findall(r'<g id="held-out">.*?</g>\s*</g>', page, re.DOTALL)
    markers = re.findall(r'<use [^>]*x="([\d.]+)" y="([\d.]+)"', drawn)
    return [(float(x), float(y)) for x, y in markers]


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
    [(first_x, first_y), (last_x, last_y)] = places_of_held_out(text)
    steps = steps_under_the_pointer(text)
    assert (steps[0]["x"], steps[7]["x"]) == pytest.approx((first_x, last_x), abs=0.06)
    wide = text.partition('class="figure narrow"')[0]
    # 0.1 and 0.75 on an axis from -0.03 to 1.03, whose grid has lines at 0 and 1
    zero, one = (height for height, label in grid_lines(wide) if label in ("0.0", "1.0"))
    assert first_y == pytest.approx(zero + 0.1 * (one - zero), abs=0.01)
    assert last_y == pytest.approx(zero + 0.75 * (one - zero), abs=0.01)


def grid_lines(page: str) -> list[tuple[float, str]]:
    """Return the height of each horizontal line, and its label."""
    ticks = re.findall(
        r'<g id="ytick_\d+">.*?<path d="M [\d.]+ ([\d.]+).*?<text[^>]*>([^<]+)<', page, re.DOTALL
    )
    return [(float(height), label) for height, label in ticks]


def steps_under_the_pointer(page: str) -> list[dict[str, Any]]:
    [data, _narrow] = re.findall(r'<script type="application/json">(.*?)</script>', page)
    steps: list[dict[str, Any]] = json.loads(data)
    return steps


def test_the_page_has_the_colors_of_its_style(tmp_path: Path) -> None:
    plot_curves(RUN, None, tmp_path / "reward.html", "A run")
    svg = (tmp_path / "reward.html").read_text().partition("<svg")[2].partition("</svg>")[0]
    assert "stroke: var(--training)" in svg
    assert "fill: var(--ink)" in svg
    assert not re.findall(r"(?:fill|stroke): #(?!000000)\w+", svg)


def test_the_pointer_shows_every_step(tmp_path: Path) -> None:
    path = tmp_path / "reward.html"
    plot_curves(RUN, None, path, "A run")
    steps = steps_under_the_pointer(path.read_text())
    assert [entry["lines"][0] for entry in steps] == [f"step {step}" for step in range(8)]
    assert steps[0]["lines"][1:] == ["held out 0.100 [0.050, 0.150]"]
    assert steps[7]["lines"][1:] == ["training 0.700", "smoothed 0.700", "held out 0.750"]
