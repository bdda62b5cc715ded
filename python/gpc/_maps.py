"""Results of networks as tables with names, and as one-line maps in SVG.

gpc.grid has Flow and Optima, which are Tabled: res_bus, res_gen, res_line, res_trafo and res_branch are pandas' data frames, and
plot() is a map that a notebook shows.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from html import escape
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from gpc._lib import InputError, write

if TYPE_CHECKING:
    from gpc.grid import Network

__all__ = ["Svg", "Tabled", "layout"]

Floats = NDArray[np.float64]

_ROWS = 8  # of a table in a repr


class Svg:
    """A picture in SVG: a notebook shows it, save() writes it, str() is its text."""

    def __init__(self, text: str) -> None:
        self.text = text

    def _repr_svg_(self) -> str:
        return self.text

    def __str__(self) -> str:
        return self.text

    def __repr__(self) -> str:
        return f"Svg({len(self.text)} characters)"

    def save(self, path: str | os.PathLike[str]) -> None:
        write(path, self.text)


class Tabled:
    """What results of a network have in common: tables and maps. Subclasses have vm, va, pg, qg, pf, qf, pt and qt, one row a
    scenario or one alone, and _of_network."""

    def _of_network(self) -> Network:
        raise NotImplementedError

    def __getstate__(self) -> dict[str, Any]:
        """What is pickled or copied: the arrays, without the network, which is of its process."""
        return {k: None if k in ("_network", "_problem") else v for k, v in self.__dict__.items()}

    def _values(self, name: str) -> Floats:
        """[scenarios, elements]."""
        return np.atleast_2d(getattr(self, name))

    def _frame(self, index: str, numbers: NDArray[Any], names: NDArray[Any], columns: Mapping[str, Floats]) -> Any:
        import pandas

        count = len(next(iter(columns.values())))
        frames = [pandas.DataFrame({"name": names, **{k: v[i] for k, v in columns.items()}}, index=pandas.Index(numbers, name=index)) for i in range(count)]
        return frames[0] if count == 1 else pandas.concat(frames, keys=range(count), names=["scenario"])

    @property
    def res_bus(self) -> Any:
        """Voltages, and the demand of each bus with its shunt less its generation as in pandapower, by its number; of an optimum
        prices too. Several scenarios are the first level of the index."""
        n = self._of_network()
        p, q = self._injections()
        prices = {"lam_p": self._values("price_p"), "lam_q": self._values("price_q")} if hasattr(self, "price_p") else {}
        return self._frame("bus", n.bus, n.bus_name, {"vm_pu": self._values("vm"), "va_degree": self._values("va"), "p_mw": p, "q_mvar": q, **prices})

    @property
    def res_gen(self) -> Any:
        """Powers of units, by their row of the case from 1."""
        n = self._of_network()
        at = np.searchsorted(n.bus, n.gen_bus, sorter=np.argsort(n.bus))
        bus = np.argsort(n.bus)[at]
        return self._frame("gen", n.gen_row + 1, n.gen_name, {
            "bus": np.tile(n.gen_bus, (len(self._values("pg")), 1)), "p_mw": self._values("pg"), "q_mvar": self._values("qg"), "vm_pu": self._values("vm")[:, bus], "va_degree": self._values("va")[:, bus],
        })

    @property
    def res_branch(self) -> Any:
        """Flows of lines and transformers, by their row of the case from 1. loading_percent is of the rating, NaN without one."""
        n = self._of_network()
        pf, qf, pt, qt = (self._values(k) for k in ("pf", "qf", "pt", "qt"))
        ends = {"from_bus": np.tile(n.branch_from, (len(pf), 1)), "to_bus": np.tile(n.branch_to, (len(pf), 1))}
        return self._frame("branch", n.branch_row + 1, n.branch_name, {
            **ends, "p_from_mw": pf, "q_from_mvar": qf, "p_to_mw": pt, "q_to_mvar": qt, "pl_mw": pf + pt, "ql_mvar": qf + qt, "loading_percent": self._loading(),
        })

    @property
    def res_line(self) -> Any:
        """The branches of res_branch without a ratio and a phase shift."""
        return self._some_branches(False)

    @property
    def res_trafo(self) -> Any:
        """Those with one."""
        return self._some_branches(True)

    def _some_branches(self, transformer: bool) -> Any:
        n, frame = self._of_network(), self.res_branch
        which = ((n.branch_table[:, 8] != 0) | (n.branch_table[:, 9] != 0)) == transformer
        return frame[np.tile(which, len(frame) // max(len(which), 1))]

    def _loading(self) -> Floats:
        rate = self._of_network().branch_table[:, 5]
        with np.errstate(divide="ignore", invalid="ignore"):
            loading = 100 * np.maximum(np.hypot(self._values("pf"), self._values("qf")), np.hypot(self._values("pt"), self._values("qt"))) / rate
        return np.where(rate > 0, loading, np.nan)

    def _injections(self) -> tuple[Floats, Floats]:
        """Demands of buses, less generation: what their branches bring."""
        n = self._of_network()
        p, q = np.zeros(self._values("vm").shape), np.zeros(self._values("vm").shape)
        place = {b: k for k, b in enumerate(n.bus)}
        for ends, active, reactive in ((n.branch_from, "pf", "qf"), (n.branch_to, "pt", "qt")):
            at = np.array([place[b] for b in ends], int)
            for scenario in range(len(p)):
                np.subtract.at(p[scenario], at, self._values(active)[scenario])
                np.subtract.at(q[scenario], at, self._values(reactive)[scenario])
        return p, q

    def _rows(self) -> str:
        """The first buses as a table of text, of a single result."""
        if len(self._values("vm")) != 1 or not np.isfinite(self._values("vm")).all():
            return ""
        n = self._of_network()
        names = n.bus_name if (n.bus_name != "").any() else None
        head = ["bus", *(["name"] if names is not None else []), "V pu", "angle °"] + (["$/MWh"] if hasattr(self, "price_p") else [])
        lines = [head]
        for k in range(min(len(n.bus), _ROWS)):
            row = [str(n.bus[k]), *([names[k]] if names is not None else []), f"{self._values('vm')[0, k]:.4f}", f"{self._values('va')[0, k]:.3f}"]
            lines.append(row + ([f"{self._values('price_p')[0, k]:.3f}"] if hasattr(self, "price_p") else []))
        width = [max(len(r[i]) for r in lines) for i in range(len(head))]
        text = "\n".join("  ".join(c.rjust(w) for c, w in zip(r, width)) for r in lines)
        return f"\n{text}" + (f"\n… {len(n.bus) - _ROWS} more; res_bus, res_gen, res_branch have all" if len(n.bus) > _ROWS else "")

    def plot(self, scenario: int = 0, *, buses: str = "", positions: Any = None, size: int = 900) -> Svg:
        """A map of a result: branches by loading, buses by "voltage" or "price" (of optima, where it is the default).

        positions are coordinates [buses, 2], or a mapping of bus numbers to pairs; without them a layout is made of the
        network's distances. Numbers of each element stand in its tooltip.
        """
        n = self._of_network()
        buses = buses or ("price" if hasattr(self, "price_p") else "voltage")
        if buses not in ("voltage", "price") or buses == "price" and not hasattr(self, "price_p"):
            raise InputError(f'plot: buses by "{buses}", want voltage{", or price" if hasattr(self, "price_p") else ""}')
        if positions is None:
            xy = layout(n)
        elif isinstance(positions, Mapping):
            if missing := [int(b) for b in n.bus if b not in positions]:
                raise InputError(f"plot: positions has no bus {missing[0]}")
            xy = np.array([positions[b] for b in n.bus], float)
        else:
            xy = np.asarray(positions, float)
        if xy.shape != (len(n.bus), 2) or not np.isfinite(xy).all():
            raise InputError(f"plot: positions of shape {xy.shape}, want finite ones of {(len(n.bus), 2)}")
        value = self._values("price_p" if buses == "price" else "vm")[scenario]
        return _draw(n, xy, value, "$/MWh" if buses == "price" else "pu", self._loading()[scenario], self._values("pf")[scenario], size, (self._values("va"))[scenario], self._values("vm")[scenario])


_EXACT = 700  # buses up to which a layout is of all distances


def layout(n: Network, pivots: int = 50) -> Floats:
    """Coordinates of buses by their distances in the network, in branches: classical scaling from some pivots (U. Brandes, C. Pich,
    "Eigensolver methods for progressive multidimensional scaling of large data", Graph Drawing 2006), and up to 700 buses the
    least stress (E. Gansner, Y. Koren, S. North, "Graph drawing by stress majorization", Graph Drawing 2004)."""
    count = len(n.bus)
    place = {b: k for k, b in enumerate(n.bus)}
    near: list[list[int]] = [[] for _ in range(count)]
    for f, t in zip(n.branch_from, n.branch_to):
        near[place[f]].append(place[t])
        near[place[t]].append(place[f])
    distances = np.empty((count, count if count <= _EXACT else min(pivots, count)))
    least, order, pivot = np.full(count, np.inf), np.empty(distances.shape[1], int), 0
    for column in range(distances.shape[1]):
        d = np.full(count, -1)
        d[pivot], queue = 0, [pivot]
        for b in queue:
            for other in near[b]:
                if d[other] < 0:
                    d[other] = d[b] + 1
                    queue.append(other)
        d[d < 0] = d.max() + 2  # another island
        distances[:, column], order[column] = d, pivot
        least = np.minimum(least, d)
        pivot = int(np.argmax(least))
    squares = distances**2
    centred = squares - squares.mean(0) - squares.mean(1, keepdims=True) + squares.mean()
    u, s, _ = np.linalg.svd(centred, full_matrices=False)
    xy = np.zeros((count, 2))
    xy[:, : min(2, len(s))] = (u * np.sqrt(s))[:, :2]
    if 2 < count <= _EXACT:
        d = np.empty((count, count))
        d[:, order] = distances
        weight = 1 / np.maximum(d, 1) ** 2
        np.fill_diagonal(weight, 0)
        inverse = np.linalg.inv(np.diag(weight.sum(1)) - weight + 1 / count)
        xy += 1e-3 * np.random.default_rng(0).standard_normal(xy.shape)  # buses with the same distances come apart
        for _ in range(150):
            gap = xy[:, None] - xy
            pull = weight * d / np.maximum(np.hypot(gap[..., 0], gap[..., 1]), 1e-9)
            xy = inverse @ (pull.sum(1)[:, None] * xy - pull @ xy)
    span = np.ptp(xy, axis=0)
    return (xy - xy.min(0)) / max(float(span.max()), 1e-12)


def _colour(x: float) -> str:
    """From blue by green and yellow to red."""
    if not np.isfinite(x):
        return "#9a9a9a"
    stops = np.array([[49, 104, 189], [53, 160, 107], [240, 190, 60], [204, 51, 51]], float)
    x = float(np.clip(x, 0, 1)) * (len(stops) - 1)
    k = min(int(x), len(stops) - 2)
    r, g, b = np.round(stops[k] + (x - k) * (stops[k + 1] - stops[k])).astype(int)
    return f"#{r:02x}{g:02x}{b:02x}"


def _draw(n: Network, xy: Floats, value: Floats, unit: str, loading: Floats, power: Floats, size: int, angle: Floats, magnitude: Floats) -> Svg:
    lo, hi = (0.94, 1.06) if unit == "pu" else (float(np.nanmin(value)), float(np.nanmax(value)))
    span = xy.max(0) - xy.min(0)
    scaled = (xy - xy.min(0)) / max(float(span.max()), 1e-12) * (size - 80) + 40
    height = int(max(float((span / max(float(span.max()), 1e-12))[1]) * (size - 80) + 110, 160))
    scaled[:, 1] = height - 70 - (scaled[:, 1] - 40)
    place = {b: k for k, b in enumerate(n.bus)}
    radius = float(np.clip(220 / np.sqrt(len(n.bus)) / 4, 1.5, 9))
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {size} {height}" width="{size}" height="{height}" font-family="sans-serif" font-size="11">',
           f"<title>{escape(n.name)}</title>", f'<rect width="{size}" height="{height}" fill="white"/>']
    for k, (f, t) in enumerate(zip(n.branch_from, n.branch_to)):
        (x1, y1), (x2, y2) = scaled[place[f]], scaled[place[t]]
        loaded = f", {loading[k]:.1f} %" if np.isfinite(loading[k]) else ""
        label = escape(f"branch {n.branch_row[k] + 1} {n.branch_name[k]}".strip())
        out.append(f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" stroke="{_colour(loading[k] / 100)}" stroke-width="{radius / 3:.1f}">'
                   f"<title>{label}, {f} to {t}: {power[k]:.1f} MW{loaded}</title></line>")
    units = set(n.gen_bus.tolist())
    for k, b in enumerate(n.bus):
        x, y = scaled[k]
        colour = _colour((value[k] - lo) / (hi - lo) if hi > lo else 0.5)
        label = escape(f"bus {b} {n.bus_name[k]}".strip())
        price = f", {value[k]:.3f} {unit}" if unit != "pu" else ""
        out.append(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="{radius:.1f}" fill="{colour}" stroke="{"black" if b in units else "none"}">'
                   f"<title>{label}: {magnitude[k]:.4f} pu, {angle[k]:.2f}°{price}</title></circle>")
        if len(n.bus) <= 60:
            out.append(f'<text x="{x + radius + 2:.1f}" y="{y + 4:.1f}">{escape(n.bus_name[k] or str(b))}</text>')
    for row, (what, first, last) in enumerate((("branches, loading", "0 %", "100 %"), ("buses" + (", a ring has units" if units else ""), f"{lo:.4g} {unit}", f"{hi:.4g} {unit}"))):
        y = height - 38 + 18 * row
        out += [f'<rect x="{40 + 4 * i}" y="{y}" width="4" height="10" fill="{_colour(i / 29)}"/>' for i in range(30)]
        out.append(f'<text x="168" y="{y + 9}">{first} to {last}: {what}</text>')
    return Svg("\n".join([*out, "</svg>"]))
