"""Pages that need nothing but a browser: drawn as SVG, with the values under the pointer."""

from functools import cache
from typing import Any

from agentfly.observe.estimate import interval_text
from agentfly.observe.plot.curves import Curves, Point
from agentfly.observe.plot.scale import Axis, reward_range, step_range

WIDTH, HEIGHT = 760, 400
LEFT, RIGHT, TOP, BOTTOM = 52, 16, 12, 44
"""Room around the curves, in the units of the drawing."""


def render(template: str, **values: Any) -> str:
    """Fill one of the pages; every value is escaped, but for what is marked as HTML already."""
    return str(_environment().get_template(template).render(**values))


def figure(curves: Curves) -> Any:
    """Draw the curves as a piece of HTML that pages can hold."""
    from markupsafe import Markup

    x, y = _axes(curves)
    return Markup(
        render(
            "figure.html.jinja",
            box=_BOX,
            x_ticks=[(x.place(tick), f"{tick:g}") for tick in x.ticks(8) if tick == int(tick)],
            y_ticks=[(y.place(tick), f"{tick:g}") for tick in y.ticks(6)],
            training=_path(curves.training, x, y),
            smoothed=_path(curves.smoothed, x, y),
            held_out=_path(curves.held_out, x, y),
            dots=[_dot(point, x, y) for point in curves.held_out],
            steps=_steps(curves, x),
        )
    )


_BOX = {
    "width": WIDTH,
    "height": HEIGHT,
    "left": LEFT,
    "right": WIDTH - RIGHT,
    "top": TOP,
    "bottom": HEIGHT - BOTTOM,
}


def _axes(curves: Curves) -> tuple[Axis, Axis]:
    first, last = step_range(curves)
    low, high = reward_range(curves)
    return (
        Axis(low=first, high=last, start=_BOX["left"], end=_BOX["right"]),
        Axis(low=low, high=high, start=_BOX["bottom"], end=_BOX["top"]),
    )


def _path(points: tuple[Point, ...], x: Axis, y: Axis) -> str:
    """Return the line as SVG says it: `M52.0 300.5 L80.2 280.1 …`."""
    places = (f"{x.place(p.step):.1f} {y.place(p.value):.1f}" for p in points)
    return " ".join(f"{'L' if i else 'M'}{place}" for i, place in enumerate(places))


def _dot(point: Point, x: Axis, y: Axis) -> dict[str, float | None]:
    return {
        "x": x.place(point.step),
        "y": y.place(point.value),
        "low": None if point.low is None else y.place(point.low),
        "high": None if point.high is None else y.place(point.high),
    }


def _steps(curves: Curves, x: Axis) -> list[dict[str, Any]]:
    """List what the pointer shows at each step, in order."""
    shown: dict[int, list[str]] = {}
    for name in ("training", "smoothed", "held_out"):
        for point in getattr(curves, name):
            said = f"{name.replace('_', ' ')} {_with_interval(point)}"
            shown.setdefault(point.step, [f"step {point.step}"]).append(said)
    return [{"x": round(x.place(step), 1), "lines": shown[step]} for step in sorted(shown)]


def _with_interval(point: Point) -> str:
    if point.low is None or point.high is None:
        return f"{point.value:.3f}"
    return f"{point.value:.3f} {interval_text(point.low, point.high, '{:.3f}')}"


@cache
def _environment() -> Any:
    from jinja2 import Environment, PackageLoader, StrictUndefined

    loader = PackageLoader("agentfly.observe", "pages")
    return Environment(autoescape=True, loader=loader, undefined=StrictUndefined)
