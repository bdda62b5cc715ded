"""Signals that are known ahead, such as prices, weather and references."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from gpc._expression import Vector
from gpc._lib import InputError, number

__all__ = ["Forecast", "forecast", "forecasts"]

_FORM = 'want gpc.forecast("unit", points=9, period=3600), or (9, 3600), points and the time between two, s'


class Forecast:
    """A signal that is known ahead; forecast makes it. Its points are the entries NAME_0, NAME_1, … of the context."""

    def __init__(self, unit: str, points: int, period: float, range: Any) -> None:
        if not isinstance(unit, str):
            raise InputError(f'unit is {unit!r}, want a text such as "€/kWh"')
        if isinstance(points, bool) or not isinstance(points, (int, np.integer)) or not 2 <= points <= 1000:
            raise InputError(f"points is {points!r}, want a number of points, 2 to 1000")
        self.unit, self.points, self.period = unit, int(points), number(period, "period", "the time between two points, s")
        if not 0 < self.period < np.inf:
            raise InputError(f"period is {period!r}, want the time between two points, s, above 0")
        self.ranges = None if range is None else self.spans(range, "range")

    def spans(self, range: Any, what: str) -> list[tuple[float, float]]:
        """One range for each point."""
        try:
            spans = np.asarray(range, float)
        except (TypeError, ValueError):
            spans = np.empty(0)
        if spans.shape not in ((2,), (self.points, 2)):
            raise InputError(f"{what} is {range!r}, want (lo, hi) of every point, or a list of {self.points} of these, one for each")
        return [(float(lo), float(hi)) for lo, hi in np.broadcast_to(spans, (self.points, 2))]

    def names(self, name: str) -> list[str]:
        return [f"{name}_{i}" for i in range(self.points)]

    def context(self, name: str, step: float, runs_on: bool) -> dict[str, Any]:
        """The entries of the context. Where a plant runs on, and points are farther apart than decisions, NAME_age is the time since the first point, s."""
        if runs_on and self.period < step and abs(step / self.period - round(step / self.period)) > 1e-9:
            raise InputError(f"forecast[{name!r}] has a point every {self.period:g} s, want a whole number of them in the period of {step:g} s, or fewer than one")
        entries = {k: (self.unit, *self.ranges[i]) if self.ranges else self.unit for i, k in enumerate(self.names(name))}
        return {**entries, **({f"{name}_age": "s"} if runs_on and self.period > step else {})}

    def value(self, name: str, c: Vector, length: float) -> Any:
        """The signal at the time of a context, in episodes of so many seconds; 0: the plant runs on."""
        values = [c[k] for k in self.names(name)]
        if length:
            return np.interp(c["clock"], np.arange(self.points) * self.period / length, values)
        age = f"{name}_age"
        return np.interp(c[age], [0, self.period], values[:2]) if age in c._names else values[0]

    def moved(self, name: str, c: Vector, step: float) -> dict[str, Any]:
        """What a period of a plant that runs on makes of the entries: the points move on, and the last repeats."""
        names, age = self.names(name), f"{name}_age"
        ahead = max(1, round(step / self.period))
        after = {k: c[names[min(i + ahead, self.points - 1)]] for i, k in enumerate(names)}
        if age not in c._names:
            return after
        over, flat = c[age] + step >= self.period * (1 - 1e-9), sum((c[k] - c[names[0]]) ** 2 for k in names[1:]) == 0
        passed = c[age] + step - np.where(over, self.period, 0.0)
        return {**{k: np.where(over, v, c[k]) for k, v in after.items()}, age: np.where(flat, 0.0, passed)}  # a signal that is flat is at rest


def forecast(unit: str = "", *, points: int, period: float, range: Any = None) -> Forecast:
    """A signal that is known ahead, for System(forecast={"price": gpc.forecast("€/kWh", points=9, period=10800, range=(0.1, 0.5))}).

    It is linear between points that are period apart, s, and stays at the last. In equations c.price is its value at the time of the
    stage. The points are the entries price_0, price_1, … of the context: from the beginning of an episode, or from now where the plant
    runs on. range is (lo, hi) that the scenario draws every point from, or a list with one for each point; None: the scenario says it.
    """
    return Forecast(unit, points, period, range)


def forecasts(given: Mapping[str, Any] | None) -> dict[str, Forecast]:
    """The declared signals by name."""
    if given is not None and not isinstance(given, Mapping):
        raise InputError(f"forecast is {given!r}, want names of signals: {_FORM}")
    out: dict[str, Forecast] = {}
    for name, form in (given or {}).items():
        if not isinstance(form, Forecast):
            if not isinstance(form, Sequence) or isinstance(form, str) or not 2 <= len(form) <= 3:
                raise InputError(f"forecast[{name!r}] is {form!r}, {_FORM}")
            form = Forecast(form[0] if len(form) == 3 else "", form[-2], form[-1], None)
        out[str(name)] = form
    return out


def scenario(given: Any, signals: Mapping[str, Forecast]) -> Any:
    """A scenario with the ranges of every point in place of those of the signals."""
    if not signals or not isinstance(given, Mapping):
        return given
    out: dict[str, Any] = {}
    for name, form in {**given, **{k: None for k, f in signals.items() if f.ranges}}.items():
        f = signals.get(name)
        if f is None:
            out[name] = form
            continue
        if f.ranges and name in given:
            raise InputError(f"scenario[{name!r}] is said by the range of forecast[{name!r}] too: leave one of them out")
        spans = f.ranges or f.spans(form, f"scenario[{name!r}]")
        out.update(dict(zip(f.names(name), spans)))
    return out
