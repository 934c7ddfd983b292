"""Plots reward over steps, as a PNG and as a self-contained HTML page, for a run's report.

matplotlib draws both. In the page, its SVG takes the page's colors, light or dark, and a script
shows the values of the step under the pointer.
"""

import io
import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from statistics import fmean
from typing import Any

from agentfly.errors import ConfigError
from agentfly.observe.estimate import interval_text
from agentfly.observe.trackers.metrics_file import MetricsRecord

WINDOW = 5
"""Steps averaged in the smoothed curve, with the step itself in the middle."""
POINTS_PER_INCH = 72
"""Unit of matplotlib's SVG."""

_INK, _MUTED, _GRID, _TRAINING, _HELD_OUT = "#1f2328", "#6b7280", "#e5e7eb", "#2563eb", "#d97706"
_CSS_COLORS = {
    _INK: "var(--ink)",
    _MUTED: "var(--muted)",
    _GRID: "var(--line)",
    _TRAINING: "var(--training)",
    _HELD_OUT: "var(--held-out)",
}


def plot_curves(
    records: Sequence[MetricsRecord],
    path_png: Path | None,
    path_html: Path | None,
    title: str,
) -> None:
    """Draw training reward (each step, and smoothed) and held-out reward with its interval.

    Args:
        records: Records as `read_metrics` returns them.
        path_png: File of the picture; None for none.
        path_html: File of a page that shows the values under the pointer; None for none.
        title: Title of the plot.
    """
    curves = read_curves(records)
    if path_png:
        figure, _ = _draw(curves, title)
        figure.savefig(path_png, format="png", dpi=160, facecolor="white")
    if path_html:
        page = render("plot.html.jinja", title=title, figure=html_figure(curves))
        path_html.write_text(page, encoding="utf-8")


@dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    """The reward at a step, and its interval where it has one."""

    step: int
    value: float
    low: float | None = None
    high: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Curves:
    """The curves of a run's plot."""

    training: tuple[Point, ...]
    smoothed: tuple[Point, ...]
    held_out: tuple[Point, ...]

    @property
    def reward_range(self) -> tuple[float, float]:
        """The range of the vertical axis: at least 0 to 1, and some space."""
        values = [point.value for point in self.training + self.smoothed + self.held_out]
        low, high = min(0.0, *values), max(1.0, *values)
        space = 0.03 * (high - low)
        return low - space, high + space


def read_curves(records: Sequence[MetricsRecord]) -> Curves:
    """Read the rewards of a run; records without a reward are skipped."""
    training = tuple(
        Point(step=record.step, value=record.metrics["reward/mean"])
        for record in records
        if "reward/mean" in record.metrics
    )
    held_out = tuple(
        Point(
            step=record.step,
            value=record.metrics["eval/reward"],
            low=record.metrics.get("eval/reward_low"),
            high=record.metrics.get("eval/reward_high"),
        )
        for record in records
        if "eval/reward" in record.metrics
    )
    if not training and not held_out:
        raise ConfigError(
            "there is no reward to plot: no record has `reward/mean` or `eval/reward`. "
            "Run at least one step first"
        )
    return Curves(training=training, smoothed=_smoothed(training), held_out=held_out)


def _smoothed(points: Sequence[Point]) -> tuple[Point, ...]:
    """Average each point with its neighbors: fewer near the ends, as many on either side."""
    last = len(points) - 1
    smoothed = []
    for index, point in enumerate(points):
        reach = min(WINDOW // 2, index, last - index)
        near = points[index - reach : index + reach + 1]
        smoothed.append(Point(step=point.step, value=fmean(p.value for p in near)))
    return tuple(smoothed)


def render(template: str, **values: Any) -> str:
    """Fill one of the pages; every value is escaped, except what is marked as HTML already."""
    return str(_jinja().get_template(template).render(**values))


@cache
def _jinja() -> Any:
    from jinja2 import Environment, PackageLoader, StrictUndefined

    loader = PackageLoader("agentfly.observe", "pages")
    return Environment(autoescape=True, loader=loader, undefined=StrictUndefined)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Shape:
    """Size of a figure in inches; its text keeps the same size."""

    name: str
    size: tuple[float, float]
    legend_columns: int


_WIDE = _Shape(name="wide", size=(8, 4.5), legend_columns=3)
_NARROW = _Shape(name="narrow", size=(4.8, 4.4), legend_columns=1)


def html_figure(curves: Curves) -> Any:
    """Return the curves as an HTML fragment (inline SVG), for wide screens and for phones."""
    from markupsafe import Markup

    fragments = []
    for shape in (_WIDE, _NARROW):
        figure, axes = _draw(curves, shape=shape)
        svg = Markup(_svg(figure, shape.name))  # It arranges the figure: steps have places now.
        steps = _steps(curves, figure, axes)
        fragments.append(render("figure.html.jinja", svg=svg, steps=steps, shape=shape.name))
    return Markup("".join(fragments))


def _svg(figure: Any, salt: str) -> str:
    """Return a figure as an SVG element with the page's colors, and a line for the pointer.

    Args:
        figure: Figure of matplotlib.
        salt: Makes the ids inside differ from those of other figures of the page.
    """
    from matplotlib import rc_context

    file = io.StringIO()
    with rc_context({"svg.fonttype": "none", "svg.hashsalt": f"agentfly {salt}"}):
        figure.savefig(file, format="svg", transparent=True)
    text = file.getvalue()
    # Inside HTML, neither namespaces nor metadata have a use.
    svg = re.sub(r'<metadata>.*?</metadata>| xmlns(:\w+)?="[^"]*"', "", text, flags=re.DOTALL)
    for color, variable in _CSS_COLORS.items():
        svg = svg.replace(color, variable)
    pointer = '<line class="pointer" y1="0" y2="100%"/>'
    return svg[svg.index("<svg") :].replace("</svg>", f"{pointer}</svg>")


def _steps(curves: Curves, figure: Any, axes: Any) -> list[dict[str, Any]]:
    """List what is shown at each step, with the step's place in the SVG."""
    shown: dict[int, list[str]] = {}
    for name in ("training", "smoothed", "held_out"):
        for point in getattr(curves, name):
            line = f"{name.replace('_', ' ')} {_with_interval(point)}"
            shown.setdefault(point.step, [f"step {point.step}"]).append(line)
    share_of_width = axes.transData + figure.transFigure.inverted()
    width = figure.get_figwidth() * POINTS_PER_INCH
    return [
        {
            "x": round(width * float(share_of_width.transform((step, 0.0))[0]), 1),
            "lines": shown[step],
        }
        for step in sorted(shown)
    ]


def _with_interval(point: Point) -> str:
    if point.low is None or point.high is None:
        return f"{point.value:.3f}"
    return f"{point.value:.3f} {interval_text(point.low, point.high, '{:.3f}')}"


def _draw(curves: Curves, title: str | None = None, *, shape: _Shape = _WIDE) -> tuple[Any, Any]:
    """Draw the curves, without a display; return matplotlib's figure and axes."""
    try:
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
        from matplotlib.ticker import MaxNLocator
    except ImportError as error:
        raise ConfigError(
            f"drawing a plot needs matplotlib ({error}): pip install 'agentfly[train]'"
        ) from error
    figure = Figure(figsize=shape.size, layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.add_subplot()
    axes.plot(
        *_xy(curves.training), color=_TRAINING, alpha=0.4, lw=1.2, label="training, each step"
    )
    axes.plot(*_xy(curves.smoothed), color=_TRAINING, lw=2.4, label="training, smoothed")
    if curves.held_out:
        _draw_held_out(axes, curves.held_out, gid="held-out" if shape is _WIDE else None)
    if title:
        axes.set_title(title, loc="left", fontsize=13, fontweight="bold", color=_INK, pad=12)
    axes.set_xlabel("step", color=_MUTED)
    axes.set_ylabel("reward", color=_MUTED)
    axes.set_ylim(*curves.reward_range)
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.tick_params(colors=_MUTED, length=0)
    axes.grid(axis="y", color=_GRID)
    axes.set_axisbelow(True)
    axes.spines[:].set_visible(False)
    columns = shape.legend_columns
    figure.legend(loc="outside lower center", ncols=columns, frameon=False, labelcolor=_INK)
    return figure, axes


def _draw_held_out(axes: Any, points: tuple[Point, ...], gid: str | None) -> None:
    label = "held out, 95% interval"
    axes.plot(*_xy(points), color=_HELD_OUT, lw=1.6, marker="o", ms=6, label=label, gid=gid)
    spread = [point for point in points if point.low is not None and point.high is not None]
    below = [point.value - (point.low or 0.0) for point in spread]
    above = [(point.high or 0.0) - point.value for point in spread]
    axes.errorbar(*_xy(spread), yerr=[below, above], fmt="none", color=_HELD_OUT, lw=1.4, capsize=4)


def _xy(points: Sequence[Point]) -> tuple[list[int], list[float]]:
    return [point.step for point in points], [point.value for point in points]
