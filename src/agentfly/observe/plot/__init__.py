"""The reward over the steps of a run: a picture, and a page that needs nothing but a browser."""

from collections.abc import Sequence
from pathlib import Path

from agentfly.observe.plot.curves import read_curves
from agentfly.observe.plot.page import figure, render
from agentfly.observe.plot.png import draw_png
from agentfly.observe.trackers.metrics_file import MetricsRecord

__all__ = ["plot_curves"]


def plot_curves(
    records: Sequence[MetricsRecord],
    path_png: Path | None,
    path_html: Path | None,
    title: str,
) -> None:
    """Draw training reward (each step, and smoothed) and held-out reward with its interval.

    Args:
        records: As `read_metrics` returns them.
        path_png: A picture, drawn by matplotlib; None for none.
        path_html: A page that shows the values under the pointer, light and dark; None for none.
        title: Shown above.
    """
    curves = read_curves(records)
    if path_png:
        draw_png(curves, path_png, title)
    if path_html:
        page = render("plot.html.jinja", title=title, figure=figure(curves))
        path_html.write_text(page, encoding="utf-8")
