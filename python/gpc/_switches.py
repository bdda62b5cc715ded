"""Actions that take one of a few values."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from gpc._lib import InputError

__all__ = ["Switched", "discretes", "integer", "on_off", "one_of"]

_MOST_VALUES = 64  # of an action, as docs/reference/system-file.md has it


class Switched:
    """An action that takes one of a few values; on_off, one_of and integer make it."""

    def __init__(
        self, values: Sequence[Any], unit: str = "", *, least: int | Sequence[int] = 1, most: tuple[int, int] | None = None,
        cost: tuple[float, str] | None = None, before: float | None = None,
    ) -> None:
        self.values, self.unit, self.before = [_finite(v, f"values[{i}]") for i, v in enumerate(values)], unit, before
        if not 2 <= len(self.values) <= _MOST_VALUES:
            raise InputError(f"values are {self._listed()}, want 2 to {_MOST_VALUES} numbers")
        for a, b in zip(self.values, self.values[1:]):
            if a >= b:
                raise InputError(f"values has {b:g} {'twice' if a == b else f'after {a:g}'}, want numbers in ascending order, each once")
        if not isinstance(unit, str):
            raise InputError(f'unit is {unit!r}, want a text such as "m"')
        several = isinstance(least, (Sequence, np.ndarray)) and not isinstance(least, str)
        self.least: list[int] = [_count(n, f"least[{i}]" if several else "least") for i, n in enumerate(least if several else [least] * len(self.values))]  # type: ignore[arg-type]
        if len(self.least) != len(self.values):
            raise InputError(f"least has {len(self.least)} entries, want one number of periods, or one for each of the values {self._listed()}")
        self.most: tuple[int, int] | None = None
        if most is not None:
            if not isinstance(most, Sequence) or isinstance(most, str) or len(most) != 2:
                raise InputError(f"most is {most!r}, want (changes, periods), such as (2, 12) for two changes in any twelve periods")
            self.most = _count(most[0], "most[0]", "changes"), _count(most[1], "most[1]")
            if self.most[0] >= self.most[1]:
                raise InputError(f"most is {most!r}, and there are no more changes than periods: want fewer changes than periods")
        self.cost: tuple[float, str] | None = None
        if cost is not None:
            if not isinstance(cost, Sequence) or isinstance(cost, str) or len(cost) != 2 or not isinstance(cost[1], str):
                raise InputError(f'cost is {cost!r}, want (price of a change, name of an objective), such as (0.5, "energy")')
            price = _finite(cost[0], "cost[0]")
            if price <= 0:
                raise InputError(f"cost[0] is {cost[0]!r}, want the price of a change, above 0")
            self.cost = price, cost[1]
        if before is not None:
            self.before = _finite(before, "before")
            if self.before not in self.values:
                raise InputError(f"before is {before!r}, want one of the values {self._listed()}")

    def _listed(self) -> str:
        return ", ".join(f"{v:g}" for v in self.values) or "none"

    def __repr__(self) -> str:
        return f"<gpc switched action: {f'{self._listed()} {self.unit}'.rstrip()}>"

    def check(self, name: str, horizon: int) -> None:
        """Refuses times that are longer than a plan looks ahead."""
        for what, n in (("least", max(self.least)), *((("most", self.most[1]),) if self.most else ())):
            if n > horizon:
                raise InputError(f"action[{name!r}]: {what} has {n} periods, and a plan looks {horizon} ahead: want at most as many")

    def document(self, name: str, objectives: Sequence[str]) -> dict[str, Any]:
        """The switch in the form of a file."""
        out: dict[str, Any] = {"action": name, "values": self.values}
        if max(self.least) > 1:
            out["least"] = self.least
        if self.most:
            out["most"], out["window"] = self.most
        if self.cost:
            out["cost"], out["objective"] = self.cost
            if self.cost[1] not in objectives:
                raise InputError(f"action[{name!r}]: the cost is of the objective {self.cost[1]!r}, want one of {', '.join(objectives)}")
        if self.before is not None:
            out["before"] = self.before
        return out


def _finite(v: Any, place: str) -> float:
    try:
        x = float(v)
    except (TypeError, ValueError):
        raise InputError(f"{place} is {v!r}, want a number") from None
    if not np.isfinite(x):
        raise InputError(f"{place} is {v!r}, want a finite number")
    return x


def _count(v: Any, place: str, of: str = "periods") -> int:
    if isinstance(v, bool) or not isinstance(v, (int, np.integer)) or v < 1:
        raise InputError(f"{place} is {v!r}, want a number of {of}, at least 1")
    return int(v)


def on_off(
    unit: str = "", *, least: int | Sequence[int] = 1, least_on: int | None = None, least_off: int | None = None, most: tuple[int, int] | None = None,
    cost: tuple[float, str] | None = None, before: float | None = None,
) -> Switched:
    """An action that is 0 (off) or 1 (on), for at least least_off and least_on periods; the others are those of one_of."""
    if least_on is not None or least_off is not None:
        if least != 1:
            raise InputError("least is given beside least_on or least_off: want the one or the others")
        least = [_count(1 if least_off is None else least_off, "least_off"), _count(1 if least_on is None else least_on, "least_on")]
    return Switched([0, 1], unit, least=least, most=most, cost=cost, before=before)


def one_of(
    *values: float, unit: str = "", least: int | Sequence[int] = 1, most: tuple[int, int] | None = None, cost: tuple[float, str] | None = None,
    before: float | None = None,
) -> Switched:
    """An action that is one of these numbers, in ascending order.

    least is how many periods a value stays at least, one number, or one for each value. most=(changes, periods) bounds the changes
    in any so many periods. cost=(price, objective) is what a change costs, in the unit of the objective of that name. before is the
    value before an episode, which has stayed for long; without it that of rest.
    """
    if len(values) == 1 and isinstance(values[0], (Sequence, np.ndarray)):
        values = tuple(values[0])
    return Switched(values, unit, least=least, most=most, cost=cost, before=before)


def integer(
    lo: int, hi: int, unit: str = "", *, least: int | Sequence[int] = 1, most: tuple[int, int] | None = None, cost: tuple[float, str] | None = None,
    before: float | None = None,
) -> Switched:
    """An action that is a whole number from lo to hi; the others are those of one_of."""
    ends = []
    for name, v in (("lo", lo), ("hi", hi)):
        if isinstance(v, bool) or _finite(v, name) != int(v):
            raise InputError(f"{name} is {v!r}, want a whole number")
        ends.append(int(v))
    if not 1 <= ends[1] - ends[0] < _MOST_VALUES:
        if ends[0] >= ends[1]:
            raise InputError(f"lo is {ends[0]} and hi {ends[1]}, want lo below hi")
        raise InputError(f"there are {ends[1] - ends[0] + 1} whole numbers from {ends[0]} to {ends[1]}, want at most {_MOST_VALUES}")
    return Switched(range(ends[0], ends[1] + 1), unit, least=least, most=most, cost=cost, before=before)


def discretes(discrete: Sequence[bool] | None, action: dict[str, dict[str, Any]], switched: dict[str, Switched]) -> dict[str, Switched]:
    """The switched actions, with those that discrete marks in the order of the actions, as CasADi's nlpsol has it."""
    if discrete is None:
        return switched
    if isinstance(discrete, str) or not isinstance(discrete, (Sequence, np.ndarray)) or len(discrete) != len(action) or not all(isinstance(d, (bool, np.bool_)) for d in discrete):
        raise InputError(f"discrete is {discrete!r}, want True or False for each of the actions {', '.join(action)}")
    out = dict(switched)
    for marked, (name, v) in zip(discrete, action.items()):
        if not marked or name in switched:
            continue
        if "lo" not in v or "hi" not in v:
            raise InputError(f"action[{name!r}] is discrete and has no bounds: want (unit, lo, hi) of whole numbers")
        try:
            out[name] = integer(v["lo"], v["hi"], v.get("unit", ""))
        except InputError as e:
            raise InputError(f"action[{name!r}] is discrete: {e}") from None
    return {name: out[name] for name in action if name in out}
