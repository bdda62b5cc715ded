"""What evaluate, refine, drive and compile answer: dictionaries with all their keys, shown as a few figures."""

from __future__ import annotations

import html
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from gpc._lib import InputError, reals

__all__ = ["CompileReport", "Drive", "Evaluation", "Findings", "Front", "Refinement", "Result"]

_SHOWN = 6  # entries of a list


class Result(dict[str, Any]):
    """A dictionary that a prompt and a notebook show as a table of figures(). dict(result) shows every key."""

    def figures(self) -> list[tuple[str, str]]:
        """The figures that are shown: what, and how much."""
        return [(k, _number(v) if isinstance(v, (int, float)) else type(v).__name__) for k, v in self.items()]

    def __repr__(self) -> str:
        rows = self.figures()
        width = max((len(k) for k, _ in rows), default=0)
        return "\n".join([f"gpc.{type(self).__name__}, {len(self)} keys", *(f"  {k.ljust(width)}  {v}" for k, v in rows)])

    def _repr_html_(self) -> str:
        return "<table>" + "".join(f"<tr><td>{html.escape(k)}</td><td>{html.escape(v)}</td></tr>" for k, v in self.figures()) + "</table>"


class Findings(list[dict[str, Any]]):
    """What a check of a system finds: dictionaries with the keys of `gpc check --json`, and where, the file and line of the function
    that each is about. errors are those that no controller can be made with."""

    @property
    def errors(self) -> Findings:
        """Those of severity "error"."""
        return Findings(f for f in self if f["severity"] == "error")

    def lines(self) -> list[str]:
        """Each in a line, as a warning says it."""
        return [f"{f.get('where', '')}{f['severity']}: {f['message']}{f['fix'] and '; what would help: ' + f['fix']}" for f in self]

    def __repr__(self) -> str:
        return "\n".join([f"gpc.Findings, {len(self)}", *(f"  {line}" for line in self.lines())])

    def _repr_html_(self) -> str:
        keys = ("severity", "of", "where", "message", "fix")
        rows = "".join("<tr>" + "".join(f"<td>{html.escape(f.get(k, ''))}</td>" for k in keys) + "</tr>" for f in self)
        return "<table><tr>" + "".join(f"<th>{k}</th>" for k in keys) + f"</tr>{rows}</table>"


class Evaluation(Result):
    """A method in closed loop on unseen episodes, with the keys of `gpc eval --json` (docs/reference/json.md)."""

    def figures(self) -> list[tuple[str, str]]:
        """Case, method, episodes, safety, cost and times."""
        regret, episodes = self["regret"], self["episodes"]
        rows = [
            ("case", self["case"]), ("method", self["method"]), ("episodes", f"{episodes}, seed {self['seed']}"), ("driven with", _driven(self)), ("safe", _share(self["safe"], episodes)),
            ("limits broken", ", ".join(f"{v['limit']} in {v['episodes']}" for v in self.get("limits") or () if v["episodes"])),
            ("first unsafe", "".join(f"episode {v['episode']}: {v['cause']}" for v in (self.get("unsafe") or ())[:1])), ("goal reached", _share(self.get("reached"), episodes)),
        ]
        rows += _unreferenced(self, episodes)
        if regret["n"]:
            over = f"over {regret['n']} of {episodes} episodes"
            rows.append(("cost above the optimum, %", f"mean {_number(regret['mean_pct'])}, median {_number(regret['median_pct'])}, largest {_number(regret['max_pct'])}, {over}"))
        elif self.get("reached") is None:
            rows.append(("cost above the optimum, %", "none: no episode is safe and has a reference"))
        rows += [
            ("cost of an episode", _number(self["cost_mean"])), ("least margin", _number(self["margin_min"])),
            ("ended", self.get("ended") or ""), ("integration", _integration(self)), ("fallback", _count(self["fallback"], self["decisions"])), ("late", _count(self.get("late"), self["decisions"])),
            ("decision p50 / p99 (first), µs", _latency(self["latency_us"])),
        ]
        return [(k, v) for k, v in rows if v]


class Refinement(Result):
    """The best feasible plan of many candidates, with the keys of `gpc refine --json` (docs/reference/json.md)."""

    def figures(self) -> list[tuple[str, str]]:
        """Action, cost, margin, candidates and time."""
        return [
            ("action u", _list(self["u"])), ("feasible", "yes" if self["feasible"] else "no"), ("cost", _number(self["cost"])),
            ("least margin", _number(self["margin"])), ("candidates", f"{self['feasible_candidates']} of {self['candidates']} feasible"),
            ("best comes from", self["source"]), ("time, µs", _number(self["latency_us"]["total"])),
        ]


class Front(Result):
    """All trade-offs of a moment, with the keys of `gpc front --json` (docs/reference/json.md) and its points as arrays."""

    def _rows(self, key: str, dtype: Any = np.float64) -> NDArray[Any]:
        return np.array([p[key] for p in self["points"]], dtype)

    @property
    def w(self) -> NDArray[np.float64]:
        """Weights of the objectives [n, M]."""
        return self._rows("w")

    @property
    def u(self) -> NDArray[np.float64]:
        """First actions, projected onto the limits [n, n_u]."""
        return self._rows("u")

    @property
    def j(self) -> NDArray[np.float64]:
        """Objectives summed over the roll-outs [n, M]."""
        return self._rows("j")

    @property
    def margin(self) -> NDArray[np.float64]:
        """Smallest margin of each roll-out [n]."""
        return self._rows("margin")

    @property
    def feasible(self) -> NDArray[np.bool_]:
        """Whether a roll-out keeps every limit [n]."""
        return self._rows("feasible", np.bool_)

    @property
    def dominated(self) -> NDArray[np.bool_]:
        """Whether another feasible point is no dearer in any objective and cheaper in one [n]."""
        return self._rows("dominated", np.bool_)

    def within(self, bounds: ArrayLike) -> int | None:
        """The point whose objectives are at most bounds [M], inf for none, and in which those without a bound are least together; None where no point is."""
        if self["knee"] < 0:
            return None
        ideal, nadir, most = np.array(self["ideal"]), np.array(self["nadir"]), reals(bounds, "bounds")
        if most.shape != ideal.shape or np.isnan(most).any():
            raise InputError(f"bounds are {bounds!r}, want {len(ideal)} numbers, inf for none")
        shares = (self.j - ideal) / np.where(nadir > ideal, nadir - ideal, np.inf)
        free = np.isposinf(most) if np.isposinf(most).any() else np.ones(len(most), bool)
        kept = self.feasible & ~self.dominated & (self.j <= most).all(axis=1)
        return int(np.argmin(np.where(kept, shares[:, free].sum(axis=1), np.inf))) if kept.any() else None

    def figures(self) -> list[tuple[str, str]]:
        """How many points there are, and the knee."""
        rows = [("points", f"{len(self['points'])}, {int(self.feasible.sum())} keep every limit, {int(self.dominated.sum())} of these dominated")]
        if self["knee"] >= 0:
            knee = self["points"][self["knee"]]
            rows += [("knee: weights", _list(knee["w"])), ("objectives", _list(knee["j"])), ("action u", _list(knee["u"]))]
        return rows


class CompileReport(Result):
    """How a compilation went, with the keys of `gpc compile --json` (docs/reference/json.md)."""

    def figures(self) -> list[tuple[str, str]]:
        """What the map does on unseen episodes, and whether it meets its target."""
        test = self["test"]
        rows = [
            *_unreferenced(test, test["episodes"]),
            ("method", test["method"]), ("driven with", _driven({**self, "estimated": self.get("measured")})), ("unsafe of unseen episodes", f"{test['unsafe']} of {test['episodes']}"),
            ("cost above the optimum, %", f"{_number(test['floored_pct'])} (p90 {_number(test['p90_pct'])}, largest {_number(test['max_pct'])}){_over(test)}"),
            ("decision p50 / p99, µs", f"{_number(test['p50_us'])} / {_number(test['p99_us'])}"),
            ("integration", _integration(self)), ("target", f"{self['target']['mean_pct']:g} %, {'met' if self['met'] else 'missed'}"), ("what would help", self.get("advice") or ""),
        ]
        return [(k, v) for k, v in rows if v]


class Drive(Result):
    """One episode, with arrays of times t, states s, contexts c and actions u."""

    def figures(self) -> list[tuple[str, str]]:
        """The arrays' shapes."""
        return [(k, " × ".join(map(str, v.shape))) for k, v in self.items()]


def _number(v: float | None) -> str:
    if v is None:
        return "–"
    return f"{v:.0f}" if 999.5 <= abs(v) < 1e9 else f"{v:.3g}"


def _unreferenced(r: Mapping[str, Any], episodes: int) -> list[tuple[str, str]]:
    """Why episodes have no reference, a row for each reason."""
    return [
        ("no reference", f"in {m['episodes']} of {episodes} episodes: {m['reason']}, first in episode {m['episode']} from {_list(m['start'] or [])}: {m['cause']}")
        for m in r.get("no_reference") or ()
    ]


def _over(test: Mapping[str, Any]) -> str:
    """Of how many episodes the costs of a test are, where some have no reference."""
    return f", over {test['referenced']} of {test['episodes']} episodes" if test.get("no_reference") else ""


def _share(share: float | None, n: int) -> str:
    return "" if share is None else f"{round(share * n)} of {n}"


def _integration(r: Mapping[str, Any]) -> str:
    """What episodes cost more with finer steps of the integrator, %; "" where that was not looked at."""
    i = r.get("integration")
    if not i:
        return ""
    safe = "" if i["safe"] == i["safe_finer"] else f", safe {i['safe']:.2g}, and {i['safe_finer']:.2g} with steps of 1/{i['factor']}, where a margin comes to {_number(i['margin_min_finer'])}"
    return f"{_number(i['cost_pct'])} %{safe}"


def _count(n: int | None, of: int) -> str:
    return f"{n} of {of} decisions" if n else ""


def _driven(r: Mapping[str, Any]) -> str:
    """By what decisions were made, and when they act; "" where that is the state itself, at once."""
    parts: list[str] = [f"noise {r['noise']:g}"] if r.get("noise") else []
    if r.get("estimated"):
        of = ", ".join(r.get("measured_states") or ()) or "every state" if "measured_noise" in r else "what is declared"
        parts.append(f"estimates of {of}" + (f" at a noise of {r['measured_noise']:g}" if "measured_noise" in r else ""))
        parts.append(f"{r.get('kept_off', 0):g} deviations kept off")
    if r.get("delay"):
        parts.append(f"a delay of {r['delay']:g} periods")
    return ", ".join(parts)


def _latency(q: dict[str, Any] | None) -> str:
    """Of the decisions behind an episode's first, and in brackets the median of these where they are told apart."""
    if not q:
        return ""
    own, cold = q.get("running") or q, q.get("cold")
    first = f" ({_number(cold['p50'])})" if cold else ""
    return f"{_number(own['p50'])} / {_number(own['p99'])}{first}"


def _list(values: Sequence[float]) -> str:
    more = f", … ({len(values)} values)" if len(values) > _SHOWN else ""
    return f"[{', '.join(map(_number, values[:_SHOWN]))}{more}]"
