"""The picture, by matplotlib."""

from pathlib import Path
from typing import Any

from agentfly.errors import ConfigError
from agentfly.observe.plot.curves import Curves, Point
from agentfly.observe.plot.scale import reward_range

INK, MUTED, GRID = "#1f2328", "#6b7280", "#e5e7eb"
TRAINING, HELD_OUT = "#2563eb", "#d97706"


def draw_png(curves: Curves, path: Path, title: str) -> None:
    """Draw to a file, without a display."""
    figure = _figure()
    axes = figure.add_subplot()
    axes.plot(*_xy(curves.training), color=TRAINING, alpha=0.3, lw=1.2, label="training, each step")
    axes.plot(*_xy(curves.smoothed), color=TRAINING, lw=2.4, label="training, smoothed")
    if curves.held_out:
        _draw_held_out(axes, curves.held_out)
    _dress(axes, title)
    axes.set_ylim(*reward_range(curves))
    figure.savefig(path, format="png", dpi=160, facecolor="white")


def _figure() -> Any:
    try:
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
    except ImportError as error:
        raise ConfigError(
            f"drawing a PNG needs matplotlib ({error}): pip install 'agentfly[train]'"
        ) from error
    figure = Figure(figsize=(8, 4.5), layout="constrained")
    FigureCanvasAgg(figure)
    return figure


def _draw_held_out(axes: Any, points: tuple[Point, ...]) -> None:
    steps, values = _xy(points)
    axes.plot(
        steps, values, color=HELD_OUT, lw=1.6, marker="o", ms=6, label="held out, 95% interval"
    )
    spread = [point for point in points if point.low is not None and point.high is not None]
    below = [point.value - (point.low or 0.0) for point in spread]
    above = [(point.high or 0.0) - point.value for point in spread]
    axes.errorbar(
        *_xy(tuple(spread)), yerr=[below, above], fmt="none", ecolor=HELD_OUT, lw=1.4, capsize=4
    )


def _dress(axes: Any, title: str) -> None:
    from matplotlib.ticker import MaxNLocator

    axes.set_title(title, loc="left", fontsize=13, fontweight="bold", color=INK, pad=12)
    axes.set_xlabel("step", color=MUTED)
    axes.set_ylabel("reward", color=MUTED)
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.tick_params(colors=MUTED, length=0)
    axes.grid(axis="y", color=GRID)
    axes.set_axisbelow(True)
    axes.spines[:].set_visible(False)
    axes.legend(loc="lower right", frameon=False, labelcolor=INK)


def _xy(points: tuple[Point, ...]) -> tuple[list[int], list[float]]:
    return [point.step for point in points], [point.value for point in points]
