"""Power flows, single outages and dispatches that survive them: what gpc.grid has of them.

The library answers with what `gpc pf` and `gpc opf secure` print with --json; here it becomes arrays.
"""

from __future__ import annotations

import base64
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from gpc._lib import InputError
from gpc._maps import Tabled

if TYPE_CHECKING:
    from gpc.grid import Network

__all__ = ["BROKEN", "OUTAGE", "Flow", "OutageFlows", "OutageRisks", "Relaxation", "SECURE_STATUS", "SecureOptima", "named"]

Floats = NDArray[np.float64]
Integers = NDArray[np.int32]
Records = NDArray[Any]

SECURE_STATUS = ("not solved", "secure", "no secure point found", "iteration limit", "numerical")
"""What the numbers of SecureOptima.status mean."""

OUTAGE = np.dtype([("outage", "U6"), ("row", np.int32), ("from", np.int32), ("to", np.int32)])
"""An outage: branch, unit or group, its row of the case's table from 1, and its buses (of a unit its bus twice)."""

BROKEN = np.dtype([
    ("limit", "U9"), ("bus", np.int32), ("gen", np.int32), ("branch", np.int32), ("from", np.int32), ("to", np.int32), ("end", "U4"),
    ("value", float), ("bound", float), ("by", float), ("unit", "U4"),
])
"""A limit that is broken: vmin, vmax or rating (of units also pmin, pmax, qmin, qmax), numbers of buses, rows of units and
branches from 1 (0 for what it is not of), value, bound and by how much it is broken, in unit: pu, MW, MVAr or MVA."""

WORDS = ("branches", "units", "all")


def named(outages: str | os.PathLike[str] | Iterable[str]) -> dict[str, str]:
    """What the library takes for outages: a word, a file's lines, or lines that are given."""
    want = 'want branches, units, all, a file, or a list of lines such as "branch 7" and "unit 2"'
    if isinstance(outages, (str, os.PathLike)):
        path = os.fspath(outages)
        if path in WORDS:
            return {"outages": path}
        try:
            with open(path, encoding="utf-8", errors="replace") as f:
                return {"outages_name": path, "outages_lines": f.read()}
        except OSError as e:
            raise InputError(f"outages: {path} cannot be read: {e.strerror}: {want}") from None
    if not isinstance(outages, Iterable):
        raise InputError(f"outages is a {type(outages).__name__}, {want}")
    lines = list(outages)
    for i, line in enumerate(lines):
        if not isinstance(line, str) or "\n" in line:
            raise InputError(f"outages[{i}] is {line!r}, {want}")
    return {"outages_name": "outages", "outages_lines": "\n".join(lines)}


def _records(rows: Iterable[Mapping[str, Any]], dtype: np.dtype[Any]) -> Records:
    """Objects of JSON as a structured array; null is NaN."""
    return np.array([tuple(np.nan if r[k] is None else r[k] for k in dtype.names or ()) for r in rows], dtype)


def _beside(dtype: np.dtype[Any], **more: Any) -> np.dtype[Any]:
    """dtype with more fields before its own."""
    return np.dtype([*more.items(), *((k, dtype[k]) for k in dtype.names or ())])


def _column(rows: Sequence[Mapping[str, Any]], key: str, size: int, missing: float = np.nan) -> Floats:
    """A number of every row; of no rows size times missing."""
    return np.array([np.nan if r[key] is None else r[key] for r in rows], float) if rows else np.full(size, missing)


def _packed(text: str, size: int) -> Floats:
    """A column of the library's; of no rows size times NaN."""
    return np.frombuffer(bytearray(base64.b64decode(text)), "<f8").astype(float, copy=False) if text else np.full(size, np.nan)


@dataclass(frozen=True)
class Flow(Tabled):
    """A power flow; NaN where it did not converge."""

    converged: bool
    reason: str
    """Why it did not; ""."""
    remark: str
    """That a network does not run at this solution, of low voltage or wide angles; ""."""
    iterations: int
    """Of Newton's method."""
    mismatch: float
    """The largest imbalance of a bus, pu."""
    vm: Floats
    """[buses], pu."""
    va: Floats
    """[buses], degrees."""
    pg: Floats
    """[units], MW."""
    qg: Floats
    """[units], MVAr."""
    pf: Floats
    """[branches], MW into the branch at its from end."""
    qf: Floats
    pt: Floats
    """The same at its to end."""
    qt: Floats
    loss: float
    """Of all branches, MW."""
    violations: Records
    """Limits that it breaks, of dtype BROKEN: a power flow keeps none by itself."""
    seconds: float
    """Of the solve, by the clock."""
    controls: list[dict[str, Any]] = field(default_factory=list)
    """Of a flow with controls: each with its setting, the value that it keeps, and whether it does."""
    _network: Network | None = None

    @classmethod
    def _of(cls, a: Mapping[str, Any], sizes: tuple[int, int, int], network: Network | None = None) -> Flow:
        arrays: dict[str, Any] = {field: _packed(a[table][key], sizes[i]) for i, table, field, key in _POINT}
        return cls(
            converged=a["converged"], reason=a["reason"], remark=a["remark"], iterations=a["iterations"], mismatch=_number(a["max_mismatch_pu"]), loss=_number(a["loss_mw"]),
            violations=_records(a["violations"], BROKEN), seconds=a["wall_ms"] / 1e3, **arrays, controls=a.get("controls", []), _network=network,
        )

    def _of_network(self) -> Network:
        if self._network is None:
            raise InputError("this power flow belongs to no network: pf() makes one that does")
        return self._network

    def __repr__(self) -> str:
        if not self.converged:
            return f"Flow(not converged: {self.reason})"
        return f"Flow(converged{f'; {self.remark}' if self.remark else ''}; loss {self.loss:.6g} MW, {len(self.violations)} limits broken; {len(self.vm)} buses, {len(self.pg)} units, {len(self.pf)} branches){self._rows() if self._network else ''}"


# Fields of a solution: of the i-th size, the table and key of JSON.
_POINT = (
    (0, "bus", "vm", "vm"), (0, "bus", "va", "va"), (1, "gen", "pg", "pg"), (1, "gen", "qg", "qg"),
    (2, "branch", "pf", "pf_mw"), (2, "branch", "qf", "qf_mvar"), (2, "branch", "pt", "pt_mw"), (2, "branch", "qt", "qt_mvar"),
)


@dataclass(frozen=True)
class Relaxation:
    """The least by which limits would have to give for an optimal power flow to have a solution."""

    status: str
    """"optimal", or why none was found."""
    cost: float
    """Sum of price × amount over the limits that give, by the prices of docs/reference/acopf.md."""
    shortfall: float
    """Active power that is missing, MW."""
    limits: Records
    """Those that give, of dtype BROKEN; p_balance and q_balance are load that is not met (below 0: power that nothing takes)."""

    @classmethod
    def _of(cls, a: Mapping[str, Any]) -> Relaxation:
        return cls(a["status"], _number(a["cost"]), _number(a["shortfall_mw"]), _records(a["limits"], BROKEN))

    def frame(self) -> Any:
        """The limits as a pandas data frame."""
        import pandas

        return pandas.DataFrame(self.limits)

    def __repr__(self) -> str:
        if self.status != "optimal":
            return f"Relaxation(none found: {self.status})"
        return f"Relaxation({len(self.limits)} limits give, {self.shortfall:.6g} MW are missing{'; the first: ' + _limit(self.limits[0]) if len(self.limits) else ''})"


def _number(x: float | None) -> float:
    return np.nan if x is None else x


def _where(o: Any) -> str:
    """An outage in words."""
    if o["outage"] == "group":
        return f"group {o['row']}"
    return f"branch {o['row']}, bus {o['from']} to {o['to']}" if o["outage"] == "branch" else f"unit {o['row']} at bus {o['from']}"


def _limit(v: Any) -> str:
    """A broken limit in words."""
    at = f"bus {v['bus']}"
    if v["branch"]:
        at = f"branch {v['branch']} from bus {v['from']} to bus {v['to']}"
    elif v["gen"]:
        at = f"unit {v['gen']} at bus {v['bus']}"
    return f"{v['limit']} at {at} by {v['by']:.4g} {v['unit']}"


@dataclass(frozen=True)
class OutageFlows:
    """The power flow of every outage, the worst first."""

    outages: Records
    """[n], of dtype OUTAGE."""
    branch_out: Integers
    """[n]: number of the branch in service that is out, as opf() takes it; −1 for none."""
    gen_out: Integers
    """[n]: likewise of the unit."""
    converged: NDArray[np.bool_]
    """[n]: whether there is a power flow."""
    reason: list[str]
    """[n]: why not; ""."""
    severity: Floats
    """[n]: the largest of overloads as shares of the rating or of a unit's larger limit, and of voltages tenfold their pu; NaN
    without a power flow."""
    lost_load: Floats
    """[n], MW: the load of buses that are left without supply."""
    lost_generation: Floats
    """[n], MW: of the units there, before the outage."""
    islanded: list[NDArray[Any]]
    """[n]: numbers of these buses."""
    references: list[NDArray[Any]]
    """[n]: numbers of buses that take up the balance of a part that has lost its reference."""
    labels: list[str]
    """[n]: of groups of several elements; "" of a branch or unit."""
    violations: Records
    """What each breaks more than is broken before any outage: dtype BROKEN behind the number i of the outage."""
    elements: Records
    """Of every voltage, rating and unit's limit the highest loading after any outage, below 0 in "by" what is left: dtype BROKEN
    behind the number k of that outage, −1 of one that is not kept, and it as out, out_row, out_from, out_to."""
    before: Records
    """Limits that are broken before any outage, of dtype BROKEN."""
    emergency: float
    """Factor on ratings after an outage."""
    voltage_band: float
    """How far voltages may leave their limits after an outage, pu."""
    seconds: float
    """Of all power flows, by the clock."""
    count: int
    """Outages that were solved: more than are kept, the worst, where the list is longer."""

    @classmethod
    def _of(cls, a: Mapping[str, Any], branch_row: NDArray[Any], gen_row: NDArray[Any]) -> OutageFlows:
        rows = a["outages"]
        place = {"branch": {int(r) + 1: k for k, r in enumerate(branch_row)}, "unit": {int(r) + 1: k for k, r in enumerate(gen_row)}}
        out = {kind: np.array([at[o["row"]] if o["outage"] == kind else -1 for o in rows], np.int32) for kind, at in place.items()}
        number = {(o["outage"], o["row"]): i for i, o in enumerate(rows)}
        return cls(
            _records(rows, OUTAGE), out["branch"], out["unit"], np.array([o["converged"] for o in rows], bool), [o["reason"] for o in rows], _column(rows, "severity", 0),
            _column(rows, "lost_load_mw", 0), _column(rows, "lost_generation_mw", 0), [np.array(o["islanded"], int) for o in rows],
            [np.array(o["references"], int) for o in rows], [o.get("label", "") for o in rows],
            _records(({"i": i, **v} for i, o in enumerate(rows) for v in o["violations"]), _beside(BROKEN, i=np.int32)),
            _records((_after(number.get((e["after"]["outage"], e["after"]["row"]), -1), e["after"], e) for e in a["elements"]), _AFTER), _records(a["violations"], BROKEN),
            a["emergency"], a["voltage_band_pu"], a["wall_ms"] / 1e3, a["count"],
        )

    def __len__(self) -> int:
        return len(self.outages)

    @property
    def breaking(self) -> NDArray[np.bool_]:
        """[n]: which break a limit."""
        return np.isin(np.arange(len(self)), self.violations["i"])

    @property
    def cut_off(self) -> NDArray[np.bool_]:
        """[n]: which cut off load."""
        return self.lost_load != 0

    @property
    def secure(self) -> NDArray[np.bool_]:
        """[n]: which have a power flow that breaks no limit, and cut off no load."""
        return self.converged & ~self.breaking & ~self.cut_off

    def frames(self) -> dict[str, Any]:
        """Outages, violations and elements as pandas' DataFrames."""
        import pandas

        columns = {k: getattr(self, k) for k in ("labels", "converged", "lost_load", "lost_generation", "severity", "secure", "reason")}
        return {"outages": pandas.DataFrame(self.outages).assign(**columns), "violations": pandas.DataFrame(self.violations), "elements": pandas.DataFrame(self.elements)}

    def of(self, i: int) -> Records:
        """What outage i breaks, the worst first."""
        i = range(len(self))[i]
        return self.violations[self.violations["i"] == i]

    def __repr__(self) -> str:
        worst = ""
        if len(self) and not self.secure[0]:
            broken = self.of(0)
            why = self.reason[0].partition(":")[0] or (f"{self.lost_load[0]:.6g} MW cut off" if self.lost_load[0] else _limit(broken[0]))
            worst = f"; the worst: {self.labels[0] or _where(self.outages[0])}, {why}"
        return (
            f"OutageFlows({f'the worst {len(self)} of ' if len(self) < self.count else ''}{self.count} outages: {int(self.secure.sum())} secure, {int(self.breaking.sum())} break a limit, {int(self.cut_off.sum())} cut off load, "
            f"{int((~self.converged).sum())} without a power flow{worst})"
        )


@dataclass(frozen=True)
class OutageRisks:
    """How often outages break limits over scenarios of loads, the most frequent first.

    A probability is a row of its estimate and the lower and upper end of Clopper and Pearson's interval of 95 %.
    """

    scenarios: int
    """Number of them."""
    count: int
    """Outages of each."""
    after: Floats
    """[3]: that an outage breaks a limit, or has no power flow."""
    before: Floats
    """[3]: that a limit is broken, or there is no power flow, without any outage."""
    outages: Records
    """[n], of dtype OUTAGE: those that break a limit, or have no power flow, in a scenario."""
    labels: list[str]
    """[n]: of groups of several elements; "" of a branch or unit."""
    violated: Integers
    """[n]: scenarios in which they do."""
    unsolved: Integers
    """[n]: scenarios without a power flow."""
    severity: Floats
    """[n]: the largest of all scenarios, as in OutageFlows."""
    probability: Floats
    """[n, 3]: that they do."""
    elements: Records
    """Limits that are broken after an outage in a scenario: dtype BROKEN of the farthest, behind the number of scenarios, the
    probability with its interval (low, high), and the scenario and outage (out, out_row, out_from, out_to) of the farthest."""
    seconds: float
    """Of all power flows, by the clock."""

    @classmethod
    def _of(cls, a: Mapping[str, Any]) -> OutageRisks:
        def risk(r: Mapping[str, Any]) -> list[float]:
            return [r["probability"], r["low"], r["high"]]

        rows = a["outages"]
        elements = ({"scenario": int(e["scenario"]) - 1, **_after(0, e["after"], e)} for e in a["elements"])
        names = ("violated", "probability", "low", "high", "scenario", "out", "out_row", "out_from", "out_to")
        types = (np.int32, float, float, float, np.int32, "U6", np.int32, np.int32, np.int32)
        return cls(
            a["scenarios"], a["count"], np.array(risk(a["after"])), np.array(risk(a["before"])), _records(rows, OUTAGE), [o.get("label", "") for o in rows],
            np.array([o["violated"] for o in rows], np.int32), np.array([o["unsolved"] for o in rows], np.int32), _column(rows, "severity", 0),
            np.array([risk(o) for o in rows]).reshape(-1, 3), _records(elements, _beside(BROKEN, **dict(zip(names, types)))), a["wall_ms"] / 1e3,
        )

    def __len__(self) -> int:
        return len(self.outages)

    def __repr__(self) -> str:
        p, low, high = 100 * self.after
        return f"OutageRisks({self.scenarios} scenarios of {self.count} outages: an outage breaks a limit in {p:.3g} % [{low:.3g}, {high:.3g}] of them; {len(self)} outages do)"


@dataclass(frozen=True)
class SecureOptima:
    """Dispatches that survive every outage, for n loads; rows of loads without one are NaN."""

    status: Integers
    """[n], see SECURE_STATUS."""
    reason: list[str]
    """[n]: why there is none; ""."""
    iterations: Integers
    """[n], of the interior point."""
    warm: NDArray[np.bool_]
    """[n]: whether the dispatch before served."""
    objective: Floats
    """[n], $/h."""
    plain_objective: Floats
    """[n], $/h: of the optimum that looks at no outage."""
    vm: Floats
    """[n, buses], pu, before any outage as all that follows."""
    va: Floats
    """[n, buses], degrees."""
    price_p: Floats
    """[n, buses], $/MWh: the objective's derivative by the active load."""
    pg: Floats
    """[n, units], MW."""
    qg: Floats
    """[n, units], MVAr."""
    pf: Floats
    """[n, branches], MW into the branch at its from end."""
    qf: Floats
    pt: Floats
    """The same at its to end."""
    qt: Floats
    remembered: Records
    """Outages that the optimum was found with: dtype OUTAGE behind the number k of the load."""
    before: Records
    """What outages break where the solve began, at the optimum without outages or at the dispatch before: dtype BROKEN behind k, and
    the outage as out, out_row, out_from, out_to."""
    after: Records
    """The same of a dispatch that is not secure."""
    gives: Records
    """What would have to give where there is no secure dispatch; limits there are also set-point and balance."""
    left_out: Records
    """Branches of a word that cut off a part of the network, of dtype OUTAGE."""
    outages: int
    """How many a dispatch has to survive."""
    seconds: float
    """Of the call, by the clock."""
    chance: Mapping[str, Any] | None
    """With scenarios, as in `gpc opf secure --scenarios --json`: risk and secure, the dispatch's and the secure one's probability
    to break a limit, with its interval (low, high); secure_objective; tightening; rounds."""

    @classmethod
    def _of(cls, answers: Sequence[Mapping[str, Any]], sizes: tuple[int, int, int], seconds: float) -> SecureOptima:
        def rows(table: str, key: str, size: int) -> Floats:
            return np.array([_column(a[table], key, size) for a in answers], float).reshape(len(answers), size)

        def numbers(key: str) -> Floats:
            return np.array([_number(a[key]) for a in answers], float)

        arrays: dict[str, Any] = {field: rows(table, key, sizes[i]) for i, table, field, key in (*_POINT, (0, "bus", "price_p", "price"))}
        return cls(
            status=np.array([SECURE_STATUS.index(a["status"]) for a in answers], np.int32), reason=[a["reason"] for a in answers],
            iterations=np.array([a["iterations"] for a in answers], np.int32), warm=np.array([a["warm"] for a in answers], bool),
            objective=numbers("objective"), plain_objective=numbers("plain_objective"),
            remembered=_records(({"k": k, **o} for k, a in enumerate(answers) for o in a["remembered"]), _beside(OUTAGE, k=np.int32)),
            before=_checked(answers, "before"), after=_checked(answers, "after"),
            gives=_records((_after(k, g["after"], g) for k, a in enumerate(answers) for g in a["gives"]), _AFTER),
            left_out=_records(answers[0]["left_out"] if answers else (), OUTAGE), outages=answers[0]["outages"] if answers else 0, seconds=seconds,
            chance=answers[0].get("chance") if answers else None, **arrays,
        )

    def __len__(self) -> int:
        return len(self.status)

    @property
    def secure(self) -> NDArray[np.bool_]:
        """[n]: which have a secure dispatch."""
        return self.status == 1

    def __repr__(self) -> str:
        if not len(self):
            return "SecureOptima(of no load)"
        counts = ", ".join(f"{int((self.status == k).sum())} {SECURE_STATUS[k]}" for k in np.unique(self.status))
        more = 100 * (self.objective / self.plain_objective - 1)[self.secure]
        cost = f"; {more.mean():.3g} % above the optimum without outages" if len(more) else ""
        why = f"; {next(filter(None, self.reason))}" if any(self.reason) else ""
        return f"SecureOptima({counts} against {self.outages} outages{cost}{why})"


_AFTER = _beside(BROKEN, k=np.int32, out="U6", out_row=np.int32, out_from=np.int32, out_to=np.int32)


def _after(k: int, o: Mapping[str, Any], v: Mapping[str, Any]) -> dict[str, Any]:
    return {**v, "k": k, "out": o["outage"], "out_row": o["row"], "out_from": o["from"], "out_to": o["to"]}


# An outage without a power flow breaks nothing that has a number.
_NO_FLOW = {"limit": "no flow", "bus": 0, "gen": 0, "branch": 0, "from": 0, "to": 0, "end": "", "value": None, "bound": None, "by": None, "unit": ""}


def _checked(answers: Sequence[Mapping[str, Any]], key: str) -> Records:
    """What outages break; of one without a power flow the limit is "no flow"."""
    return _records((_after(k, c, v) for k, a in enumerate(answers) for c in a[key] for v in [*([] if c["converged"] else [_NO_FLOW]), *c["violations"]]), _AFTER)
