"""Time lines by matplotlib, which is an extra."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from gpc._lib import Error

__all__ = ["Panel", "figure", "pixels"]


class Panel(NamedTuple):
    """One line over time; lo and hi of its box are dotted."""

    name: str
    unit: str
    values: ArrayLike
    box: tuple[float | None, float | None] = (None, None)


def figure(t: ArrayLike, across: str, panels: Sequence[Panel]) -> Any:
    """Panels below each other, as a matplotlib figure without a window."""
    try:
        from matplotlib.figure import Figure
    except ImportError:
        raise Error("gpc: plots are drawn by matplotlib, which is not installed: pip install matplotlib, or gpc with its extra [plot]") from None
    drawn = Figure(figsize=(7, 1.6 * len(panels)), layout="constrained")
    for axes, p in zip(np.ravel(drawn.subplots(len(panels), sharex=True)), panels):
        axes.plot(t, p.values)
        axes.set_ylabel(f"{p.name}, {p.unit}".rstrip(", "))
        for bound in p.box:
            if bound is not None:
                axes.axhline(bound, linestyle=":", color="grey")
    drawn.axes[-1].set_xlabel(across)
    return drawn


def pixels(drawn: Any) -> NDArray[np.uint8]:
    """A figure as RGB [height, width, 3]."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg

    canvas = FigureCanvasAgg(drawn)
    canvas.draw()
    return np.asarray(canvas.buffer_rgba())[..., :3].copy()
