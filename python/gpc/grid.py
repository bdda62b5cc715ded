"""Power flows and optimal power flows of a network, one or thousands a call, and its outages, as NumPy arrays.

    import gpc.grid as grid

    r = grid.opf("case118")                      # or a MATPOWER file, PowerModels' JSON, arrays, a pandapower net
    r.objective, r.pg, r.price_p                 # [1], [1, units], [1, buses]

    n = grid.network("case118")
    loads = grid.sample(n, 10_000, "opfdata", seed=1)
    r = grid.opf(n, loads)                       # all threads, the interpreter's lock released
    r.solves_per_second

    grid.outages(n, "all", dispatch=grid.opf(n))  # the power flow without each branch and each unit: what breaks where
    grid.secure(n, outages="units")               # the cheapest dispatch that survives every outage

Powers are in MW and MVAr, voltages in pu and degrees, prices in $/MWh. Scenarios that have no
optimum have NaN in their rows, and r.status says why. The same scenarios have the same results on any
number of threads. docs/reference/acopf.md, powerflow.md and secure.md have the methods, gpc.griddata what machine learning reads.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Union, overload

import numpy as np
from numpy.typing import NDArray

from gpc._lib import ARRAY, FLOAT, HANDLE, INT, OUT, TEXT, InputError, Object, address, array, as_json, ask, call, create, declare, lib, number, reals, text, write
from gpc._maps import Svg, Tabled
from gpc._outages import BROKEN, OUTAGE, SECURE_STATUS, Flow, OutageFlows, OutageRisks, Relaxation, SecureOptima, _records, named

__all__ = [
    "BROKEN", "OUTAGE", "SECURE_STATUS", "STATUS", "Flow", "Network", "Optima", "OutageFlows", "OutageRisks", "Relaxation", "Scenarios", "SecureOptima", "Svg", "least_relaxation", "lodf", "network", "opf", "outages", "pf", "ptdf", "sample", "secure",
]

declare("gpc_network", TEXT, OUT)
declare("gpc_network_of", TEXT, FLOAT, *[ARRAY, INT, INT] * 6, ARRAY, OUT)
declare("gpc_network_about", HANDLE, OUT)
declare("gpc_network_case", HANDLE, ARRAY, ARRAY, ARRAY, ARRAY, OUT)
declare("gpc_network_solve", HANDLE, TEXT, INT, ARRAY, INT, ARRAY, INT, ARRAY, INT, ARRAY, INT, ARRAY, INT, OUT, HANDLE)
declare("gpc_network_text", HANDLE, TEXT, OUT)
declare("gpc_network_least", HANDLE, *[ARRAY, INT] * 2, OUT, HANDLE)
declare("gpc_network_factors", HANDLE, INT, *[ARRAY, INT] * 2)
declare("gpc_network_flow", HANDLE, TEXT, *[ARRAY, INT] * 6, OUT, HANDLE)
declare("gpc_network_outages", HANDLE, TEXT, *[ARRAY, INT] * 6, OUT, HANDLE)
declare("gpc_network_secure", HANDLE, TEXT, INT, *[ARRAY, INT] * 3, OUT, HANDLE)

Floats = NDArray[np.float64]
Integers = NDArray[np.int32]

STATUS = ("not solved", "optimal", "infeasible", "iteration limit", "numerical")
"""What the numbers of Optima.status mean."""

# What the library writes, in its order, and along what.
_RESULTS = (
    ("objective", ""), ("vm", "bus"), ("va", "bus"), ("price_p", "bus"), ("price_q", "bus"), ("pg", "gen"), ("qg", "gen"),
    ("pf", "branch"), ("qf", "branch"), ("pt", "branch"), ("qt", "branch"), ("mu_vmin", "bus"), ("mu_vmax", "bus"),
    ("mu_pmin", "gen"), ("mu_pmax", "gen"), ("mu_qmin", "gen"), ("mu_qmax", "gen"), ("mu_from", "branch"), ("mu_to", "branch"),
    ("mu_angmin", "branch"), ("mu_angmax", "branch"), ("mismatch", ""),
)


def _between(values: Floats) -> str:
    """The least and the largest of some numbers."""
    if len(values) == 0:
        return "of nothing"
    lo, hi = f"{values.min():.6g}", f"{values.max():.6g}"
    return lo if lo == hi else f"{lo} to {hi}"


@dataclass(frozen=True)
class Scenarios:
    """Loads, and what is out, of n scenarios."""

    pd: Floats
    """Active load [n, buses], MW."""
    qd: Floats
    """Reactive load [n, buses], MVAr."""
    branch_out: Integers | None = None
    """The branch in service that is out [n], −1 for none."""
    gen_out: Integers | None = None
    """The unit in service that is out [n], −1 for none."""

    def __len__(self) -> int:
        return len(self.pd)

    def __repr__(self) -> str:
        out = [f"{int((k >= 0).sum())} with a {what} out" for what, k in (("branch", self.branch_out), ("unit", self.gen_out)) if k is not None]
        return f"Scenarios({'; '.join([f'{len(self)} of {self.pd.shape[1]} buses', f'load {_between(self.pd.sum(axis=1))} MW', *out])})"


@dataclass(frozen=True)
class Optima(Tabled):
    """Results of n scenarios; rows of those without an optimum are NaN."""

    status: Integers
    """[n], see STATUS."""
    iterations: Integers
    """[n], of the interior point."""
    objective: Floats
    """[n], $/h."""
    vm: Floats
    """[n, buses], pu."""
    va: Floats
    """[n, buses], degrees."""
    price_p: Floats
    """[n, buses], $/MWh: the objective's derivative by the active load."""
    price_q: Floats
    """[n, buses], $/MVArh."""
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
    mu_vmin: Floats
    """[n, buses], $/h per pu; multipliers of limits are at least 0."""
    mu_vmax: Floats
    mu_pmin: Floats
    """[n, units], $/MWh."""
    mu_pmax: Floats
    mu_qmin: Floats
    mu_qmax: Floats
    mu_from: Floats
    """[n, branches], $/MVAh, of |S| at the from end."""
    mu_to: Floats
    mu_angmin: Floats
    """[n, branches], $/h per degree."""
    mu_angmax: Floats
    mismatch: Floats
    """[n], the largest imbalance of a bus, pu."""
    seconds: float
    """Of the call, by the clock."""
    soft: list[NDArray[Any]] = field(default_factory=list)
    """Of each scenario with soft limits those that give, of dtype BROKEN."""
    controls: list[list[dict[str, Any]]] = field(default_factory=list)
    """Of each scenario with controls each of these, with its setting; none without an optimum."""
    _problem: tuple[Network, Floats | None, Floats | None, bool] | None = None

    def __len__(self) -> int:
        return len(self.status)

    def _of_network(self) -> Network:
        if self._problem is None:
            raise InputError("these optima belong to no network: opf() makes those that do")
        return self._problem[0]

    def why(self, k: int | None = None) -> Relaxation:
        """The least relaxation of scenario k, by default the first without an optimum: which limits contradict one another."""
        if k is None:
            if self.optimal.all():
                raise InputError("why: every scenario has an optimum")
            k = int(np.argmin(self.optimal))
        if self._problem is None or self._problem[3]:
            raise InputError("why: outages, ramps, controls and linear optima are not relaxed: use least_relaxation() of a network without what is out")
        n, pd, qd, _ = self._problem
        return least_relaxation(n, None if pd is None or qd is None else (pd[k], qd[k]))

    def __repr__(self) -> str:
        counts = ", ".join(f"{int((self.status == k).sum())} {STATUS[k]}" for k in np.unique(self.status))
        cost = f"; objective {_between(self.objective[self.optimal])} $/h" if self.optimal.any() else ""
        return f"Optima({counts}{cost}; {self.vm.shape[1]} buses, {self.pg.shape[1]} units, {self.pf.shape[1]} branches){self._rows() if self._problem else ''}"

    @property
    def optimal(self) -> NDArray[np.bool_]:
        """[n]: which have an optimum."""
        return self.status == 1

    @property
    def solves_per_second(self) -> float:
        return len(self) / self.seconds if self.seconds > 0 else float("inf")


class Network(Object):
    """A network whose analysis is done: make it once with network(), and give it to opf()."""

    pi = True
    """Whether every branch is the π equivalent of branch_table: one of a pandapower net may have iron losses or differ by direction."""

    def __init__(self, handle: int) -> None:
        super().__init__(handle)
        about = ask(lib.gpc_network_about, self.handle)
        self.name: str = about["name"]
        self.base_mva: float = about["base_mva"]
        self.bus: NDArray[Any] = np.array(about["bus"], int)
        """Numbers of the buses in service, in the order of results."""
        self.bus_row: NDArray[Any] = np.array(about["bus_row"], int)
        self.gen_bus: NDArray[Any] = np.array(about["gen_bus"] or [], int)
        """Bus number of each unit in service."""
        self.gen_row: NDArray[Any] = np.array(about["gen_row"] or [], int)
        """Its row of the case's table, from 0."""
        self.branch_from: NDArray[Any] = np.array(about["from"] or [], int)
        self.branch_to: NDArray[Any] = np.array(about["to"] or [], int)
        self.branch_row: NDArray[Any] = np.array(about["branch_row"] or [], int)
        self.bridge: NDArray[np.bool_] = np.array(about["bridge"] or [], bool)
        """[branches]: which cut off a part of the network when they are out."""
        self.reference: NDArray[Any] = np.array(about["reference"], int)
        self.ramp_10: Floats = np.array(about["ramp_10"] or [], float)
        """[units], MW: the case's ten-minute ramps, 0 where it has none."""
        self.bus_name, self.gen_name, self.branch_name = (np.array(about[f"{k}_name"] or [], str) for k in ("bus", "gen", "branch"))
        """Names of the file; "" where it has none."""
        self.notes: list[str] = about["notes"] or []
        """In a sentence each, where the network differs from the file."""
        self.controls: list[str] = about["controls"] or []
        """What a PSS/E file has to keep voltages and flows, for pf(controls=…)."""
        self.beyond: list[str] = about["beyond"]
        """What its optima depend on and bus_table, gen_table, branch_table and cost_table do not hold."""
        self.isa: str = about["isa"]
        self.lanes: int = about["lanes"]
        sizes = ask(lib.gpc_network_case, self.handle, None, None, None, None)
        self.quadratic: bool = sizes["quadratic"]
        """Whether costs are polynomials of degree 2 at most."""
        tables = [np.zeros((sizes[k], n)) for k, n in (("buses", 13), ("gens", 10), ("branches", 13), ("gens", 3))]
        ask(lib.gpc_network_case, self.handle, *(address(t) for t in tables))
        self.bus_table, self.gen_table, self.branch_table, self.cost_table = (t[r] for t, r in zip(tables, (self.bus_row, self.gen_row, self.branch_row, self.gen_row)))
        """MATPOWER's columns of what is in service; costs as c2, c1, c0 of MW."""
        self.pd: Floats = self.bus_table[:, 2].copy()
        """The case's load by bus, MW."""
        self.qd: Floats = self.bus_table[:, 3].copy()

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes the case, whatever it was read from, as a MATPOWER case file with its names."""
        if not self.pi:
            raise InputError(f"save: network {self.name} has branches that are no π equivalents, which a MATPOWER case cannot hold")
        write(path, ask(lib.gpc_network_text, self.handle, text(os.path.basename(os.fspath(path)))))

    def __repr__(self) -> str:
        return f"Network({self.name}: {len(self.bus)} buses, {len(self.gen_bus)} units, {len(self.branch_from)} branches)"


def network(
    source: Any, *, threads: int = 0, dispatchable: str = "file", max_iterations: int = 0, feasibility: float = 0.0, optimality: float = 0.0,
    current_limits: bool = False,
) -> Network:
    """Analyses a network.

    source is the name of one that comes with the library, a path of a MATPOWER case (.m or .mat), of PSS/E RAW
    (.raw), the IEEE Common Data Format (.cdf) or PowerModels' JSON, PowerModels' dictionary, a mapping with MATPOWER's tables as arrays (baseMVA,
    bus, gen, branch, gencost, dcline, dclinecost), or a pandapower net. threads is 0 for all; the other options are
    those of `gpc opf`.
    """
    options: dict[str, Any] = {
        "threads": threads, "dispatchable": dispatchable, "max_iterations": max_iterations, "feasibility": feasibility, "optimality": optimality,
        "current_limits": current_limits,
    }
    if isinstance(source, (str, os.PathLike)):
        path = os.fspath(source)
        return Network(create(lib.gpc_network, text({**options, "name": path, "file": os.sep in path or os.path.splitext(path)[1].lower() in _ENDINGS})))
    if isinstance(source, Mapping) and isinstance(source.get("bus"), Mapping):
        return Network(create(lib.gpc_network, text({**options, "name": "powermodels.json", "text": as_json(source)})))
    admittance, pi = None, True
    if hasattr(source, "res_bus") and hasattr(source, "ext_grid"):
        from gpc.pandapower import tables as of

        name = str(source.name or "pandapower")
        base, tables, admittance, pi, options["no_optimum"] = of(source)
    else:
        name, base, tables = _tables(source)
    n = Network(made({**options, "name": name}, base, tables, admittance))
    n.pi = pi
    return n


def made(options: dict[str, Any], base: float, tables: list[Floats], admittance: Floats | None = None) -> int:
    """The library's handle of a network of MATPOWER's tables: bus, gen, branch, gencost, and dcline with dclinecost if there
    are any; admittance replaces the branches' impedances."""
    tables = tables + [np.zeros((0, 1))] * (6 - len(tables))
    rows = [x for t in tables for x in (address(t), len(t), t.shape[1])]
    return create(lib.gpc_network_of, text(options), base, *rows, address(admittance))


def opf(source: Any, loads: Any = None, *, chains: int = 0, branch_out: Any = None, gen_out: Any = None, dc: bool = False,
        soft: Mapping[str, float] | None = None, previous: Any = None, minutes: float = 10.0, ramp: Any = None, controls: Iterable[str] | None = None,
        progress: Callable[[int, int], None] | None = None, **options: Any) -> Optima:
    """Optimal power flows of a network at loads.

    source is a Network, or what network() takes, with its options. loads is None for the case's
    own, Scenarios, an array of active loads [n, buses] in MW at the case's power factors, or a pair
    of arrays (active, reactive). branch_out and gen_out [n] are numbers of what is out in each
    scenario, −1 for nothing; the buses that are left have to hang together. chains other than 0
    begins every scenario at the optimum of the one before, in so many runs side by side: for
    a series in time. dc solves the linear model instead, as `gpc opf dc`: voltages of 1 pu and no losses.
    soft are prices at which limits may give, as in MATPOWER's softlims: {"rating": $/MVAh, "voltage": $/h per pu, "angle": $/h per
    degree, "generation": $/MWh}, or "vmin", "vmax", "angmin", "angmax", "pmin", "pmax", "qmin", "qmax" apart, and "rating:3" of one limit by
    its number; the objective has their cost, and Optima.soft what gives. previous are powers [units] in MW before,
    such as those of a dispatch before the outages: units then move by no more than their ramp in so many minutes (the case's
    ten-minute ramps, which have to be given, or ramp [units] in MW). That is the corrective dispatch. controls are lines of
    ratios, phase shifts (degrees) and shunts (MVAr) that are variables within ranges, as in `gpc opf --controls`: "tap 8 0.9 1.1 16",
    or n.controls of a PSS/E file; Optima.controls has their settings, those with a number of steps rounded. progress(done, total) is called about
    ten times a second, with scenarios. Ctrl-C ends the call, and so does an exception of progress.
    """
    if unknown := set(options) - set(network.__kwdefaults__ or ()):
        raise InputError(f"opf has no option {', '.join(sorted(unknown))}: loads are the second argument, the options are {', '.join(network.__kwdefaults__ or ())}")
    n = source if isinstance(source, Network) else network(source, **options)
    if isinstance(source, Network) and options:
        raise InputError(f"opf: give {', '.join(options)} to network(), not to opf() of a network that is made already")
    pd, qd = _loads(n, loads, outages=True)
    if isinstance(loads, Scenarios):
        branch_out = loads.branch_out if branch_out is None else branch_out
        gen_out = loads.gen_out if gen_out is None else gen_out
    out: list[Integers | None] = []
    count = 1 if pd is None else len(pd)
    for name, given in (("branch_out", branch_out), ("gen_out", gen_out)):
        if given is not None:
            given = _rows(given, name, -1, "numbers of what is in service, −1 for nothing")
            count = len(given) if pd is None else count
            given = array(given, np.int32, (count,), name)
        out.append(given)
    sizes = {"": (), "bus": (len(n.bus),), "gen": (len(n.gen_bus),), "branch": (len(n.branch_from),)}
    status, iterations = np.zeros(count, np.int32), np.zeros(count, np.int32)
    results = {name: np.empty((count, *sizes[along])) for name, along in _RESULTS}
    into = np.array([address(status), address(iterations), *(address(a) for a in results.values())], np.uintp)
    clock = time.perf_counter()
    moves: dict[str, Any] = {}
    if previous is None and (ramp is not None or minutes != 10.0):
        raise InputError("opf: ramp and minutes are of the powers before: give previous [units], MW")
    if previous is not None:
        if dc or soft:
            raise InputError("opf: ramps are of the AC model with hard limits: leave dc and soft out")
        room = n.ramp_10 * (number(minutes, "minutes") / 10) if ramp is None else array(reals(ramp, "ramp"), float, (len(n.gen_bus),), "ramp")
        if ramp is None and not n.ramp_10.any():
            raise InputError(f"opf: network {n.name} has no ramps: give ramp [units], MW")
        moves = {"previous": array(reals(previous, "previous"), float, (len(n.gen_bus),), "previous"), "ramp": room}
    if controls is not None:
        if dc or soft:
            raise InputError("opf: controls are of the AC model with hard limits: leave dc and soft out")
        moves["controls"] = "\n".join([controls] if isinstance(controls, str) else controls)
    if soft and dc:
        raise InputError("opf: soft limits are of the AC model: leave dc out")
    answer = ask(
        lib.gpc_network_solve, n.handle, text({"chains": chains, "linear": bool(dc), "soft": dict(soft or {}), **moves}), count, address(pd), 0 if pd is None else pd.size, address(qd), 0 if qd is None else qd.size,
        address(out[0]), 0 if out[0] is None else count, address(out[1]), 0 if out[1] is None else count, address(into), len(into), long=True, progress=progress,
    )
    return Optima(status, iterations, **results, seconds=time.perf_counter() - clock, _problem=(n, pd, qd, dc or bool(moves) or any(x is not None for x in out)), controls=answer.get("controls", []), soft=[_records(limits, BROKEN) for limits in answer.get("soft", [])])


def _rows(given: Any, name: str, least: int, want: str) -> Integers:
    """Numbers of elements, as integers: what would be rounded or wrapped is an InputError."""
    a = np.atleast_1d(np.asarray(given)).reshape(-1) if not np.ma.is_masked(given) else np.array([np.nan])
    if a.size and (a.dtype.kind not in "iu" or a.min() < least or a.max() > 1 << 30):
        raise InputError(f"{name} is {given!r}, want {want}")
    return np.ascontiguousarray(a, dtype=np.int32)


def least_relaxation(source: Any, loads: Any = None) -> Relaxation:
    """By how much limits of buses, units and branches would have to give, at least, for opf() to have an optimum.

    source and loads are those of pf(). Costs do not count. Where all limits can be kept, none gives.
    """
    n = _network(source)
    pd, qd, *_ = _point(n, loads, None)
    return Relaxation._of(ask(lib.gpc_network_least, n.handle, *_passed(pd, qd), long=True))


Dispatch = Union["Optima", SecureOptima, tuple[Any, Any]]
"""Optima or secure optima of one row, or a pair of arrays: powers of units [units] in MW and voltages of buses [buses] in pu."""


def pf(
    source: Any, loads: Any = None, *, dispatch: Dispatch | None = None, enforce_q: bool = False, flat: bool = False, tolerance: float = 1e-9, max_iterations: int = 30, dc: bool = False,
    participation: str | Floats | None = None, controls: Iterable[str] | None = None,
) -> Flow:
    """The power flow of a network, as `gpc pf`.

    source is a Network, or what network() takes. loads is None for the case's own, an array of active
    loads [buses] in MW at the case's power factors, or a pair of arrays (active, reactive). dispatch
    replaces the case's powers and voltage set-points: a dispatch holds the voltage of every unit's bus.
    A file of PGLib has no dispatch of its own: give that of opf(). enforce_q holds units within their
    reactive limits but at the reference, flat starts from 1 pu and angles that follow phase shifts, tolerance is the
    largest mismatch that counts as solved, pu. dc solves the linear model instead, as `gpc pf dc`. With participation units share
    the balance within their limits of active power, which otherwise the reference takes up: by "range", "pmax", "equal",
    "headroom" (what PMAX or PMIN leaves), or factors [units]. controls are lines of transformers, phase shifters and shunts that
    keep a band, as in `gpc pf --controls`: "tap 8 bus 9 1.03 1.05 0.9 1.1 16"; Flow.controls has their settings. n.controls
    are those of a PSS/E file.
    """
    n = _network(source)
    if dc and (enforce_q or participation is not None or controls is not None):
        raise InputError("pf: enforce_q, participation and controls are of the AC model: leave dc out")
    options: dict[str, Any] = {"linear": bool(dc), "enforce_q": bool(enforce_q), "flat": bool(flat), "tolerance": number(tolerance, "tolerance"), "max_iterations": _whole(max_iterations, "max_iterations")}
    options["participation"], shares = ("", None) if participation is None else _shares(n, participation)
    if controls is not None:
        options["controls"] = "\n".join([controls] if isinstance(controls, str) else controls)
    given = [*_point(n, loads, dispatch), shares]
    answer = ask(lib.gpc_network_flow, n.handle, text(options), *_passed(*given), long=True)
    return Flow._of(answer, _sizes(n), n)


@overload
def outages(
    source: Any, outages: str | os.PathLike[str] | Iterable[str] = "all", loads: Any = None, *, scenarios: None = None, dispatch: Dispatch | None = None, enforce_q: bool = False,
    emergency: float = 1.0, voltage_band: float = 0.0, participation: str | Floats | None = None, tolerance: float = 1e-9, max_iterations: int = 30,
    worst: int = 10_000, progress: Callable[[int, int], None] | None = None,
) -> OutageFlows: ...


@overload
def outages(
    source: Any, outages: str | os.PathLike[str] | Iterable[str] = "all", loads: Any = None, *, scenarios: Any, dispatch: Dispatch | None = None, enforce_q: bool = False,
    emergency: float = 1.0, voltage_band: float = 0.0, participation: str | Floats | None = None, tolerance: float = 1e-9, max_iterations: int = 30,
    worst: int = 10_000, progress: Callable[[int, int], None] | None = None,
) -> OutageRisks: ...


def outages(
    source: Any, outages: str | os.PathLike[str] | Iterable[str] = "all", loads: Any = None, *, scenarios: Any = None, dispatch: Dispatch | None = None, enforce_q: bool = False,
    emergency: float = 1.0, voltage_band: float = 0.0, participation: str | Floats | None = None, tolerance: float = 1e-9, max_iterations: int = 30,
    worst: int = 10_000, progress: Callable[[int, int], None] | None = None,
) -> OutageFlows | OutageRisks:
    """The power flow of a network without one branch or unit at a time, as `gpc pf outages`.

    outages is "branches" (every branch in service), "units", "all" (both), a file of lines such as
    "branch 7" and "unit 2", which count rows of the case's tables from 1, or a list of such lines. A line may have
    several elements ("branch 5, branch 6"), a busbar ("bus 7"), names of the case, and a label before a colon. The
    reference takes up the power of a unit, or with enforce_q and participation units share it as in
    pf() and secure(), and the balance before any outage too: so a secure dispatch is looked at again with its own limits. After an outage ratings are emergency times as large, and
    voltages may leave their limits by voltage_band, pu. The rest is as in pf(). Of a longer list the worst are kept, 0 keeps all. Where there is no power
    flow without any outage, it is a gpc.Error that says why. progress(done, total) is
    called about ten times a second, with outages. Ctrl-C ends the call, and so does an exception of progress.

    scenarios are loads [n, buses] as in opf(), each with a power flow of its own: the result is how often outages break limits.
    """
    n = _network(source)
    options: dict[str, Any] = {
        "enforce_q": bool(enforce_q), "emergency": number(emergency, "emergency"), "voltage_band": number(voltage_band, "voltage_band"),
        "tolerance": number(tolerance, "tolerance"), "max_iterations": _whole(max_iterations, "max_iterations"), "worst": _whole(worst, "worst"), **named(outages),
    }
    options["participation"], shares = ("", None) if participation is None else _shares(n, participation)
    given = [*_point(n, loads, dispatch), shares]
    if scenarios is not None:
        if loads is not None:
            raise InputError("loads and scenarios are given: scenarios are the loads")
        given[:2] = pd, _ = _loads(n, scenarios)
        options["scenarios"] = 0 if pd is None else len(pd)
        return OutageRisks._of(ask(lib.gpc_network_outages, n.handle, text(options), *_passed(*given), long=True, progress=progress))
    answer = ask(lib.gpc_network_outages, n.handle, text(options), *_passed(*given), long=True, progress=progress)
    return OutageFlows._of(answer, n.branch_row, n.gen_row)


def secure(
    source: Any, loads: Any = None, *, outages: str | os.PathLike[str] | Iterable[str] = "all", emergency: float = 1.3, voltage_band: float = 0.05,
    participation: str | Floats = "range", max_iterations: int = 0, scenarios: Any = None, violations: float = 0.01, progress: Callable[[int, int], None] | None = None,
) -> SecureOptima:
    """The cheapest dispatch that keeps every limit after any single outage, as `gpc opf secure`.

    source is a Network, or what network() takes. loads is None for the case's own, or [n, buses] as
    in opf(): a series, in which each solve begins at the last secure dispatch. outages is as in
    outages(); branches that cut off a part of the network are left out (left_out), and need units
    in both parts in a file or list. participation says how units share missing power: by "range" (PMAX − PMIN), "pmax",
    "equal", or factors [units]. max_iterations is of the interior point in each round, 0 for 200.
    progress(done, total) is called about ten times a second, with loads. Ctrl-C ends the call.

    scenarios are further loads [m, buses], three or more: the dispatch of the one row of loads then breaks limits in about a share violations of them, before or
    after an outage (SecureOptima.chance).
    """
    n = _network(source)
    options: dict[str, Any] = {
        "emergency": number(emergency, "emergency"), "voltage_band": number(voltage_band, "voltage_band"), "max_iterations": _whole(max_iterations, "max_iterations"), **named(outages),
    }
    pd, qd = _loads(n, loads)
    options["participation"], shares = _shares(n, participation)
    if scenarios is not None:
        further, reactive = _loads(n, scenarios)
        pd, qd = (n.pd[None], n.qd[None]) if pd is None or qd is None else (pd, qd)
        if further is None or reactive is None or len(further) < 3 or len(pd) != 1 or not 0 <= violations < 1:
            raise InputError("secure: want one row of loads, three scenarios or more, and violations from 0, below 1")
        pd, qd = np.vstack([pd, further]), np.vstack([qd, reactive])
        options.update(scenarios=True, violations=number(violations, "violations"))
    clock = time.perf_counter()
    answers = ask(lib.gpc_network_secure, n.handle, text(options), 1 if pd is None else len(pd), *_passed(pd, qd, shares), long=True, progress=progress)
    return SecureOptima._of(answers, _sizes(n), time.perf_counter() - clock)


def ptdf(source: Any, branches: Any = None, *, buses: Any = None, slack: Any = None, sparse: bool = False, threshold: float = 1e-6) -> Any:
    """Power transfer distribution factors [branches, buses] of the linear model: a branch's flow for a unit injected at a bus.

    branches are numbers in service from 0, None for all; with buses, numbers from 0, the columns of these buses are computed alone.
    The reference of each island takes out what is injected, or with slack [buses] all buses in that proportion, as
    in MATPOWER's makePTDF. sparse makes a SciPy matrix of the factors from threshold on.
    """
    n = _network(source)
    if buses is None:
        return _factors(n, 0, branches, len(n.branch_from), len(n.bus), slack, sparse, threshold)
    if branches is not None or slack is not None:
        raise InputError("ptdf: buses are columns of all branches, by the reference: leave branches and slack out")
    return _factors(n, 1, buses, len(n.bus), len(n.branch_from), None, sparse, threshold).T


def lodf(source: Any, out: Any = None, *, sparse: bool = False, threshold: float = 1e-6) -> Any:
    """Line outage distribution factors [branches, out] of the linear model: the share of the flow of a branch that is out which
    each branch carries, −1 for itself. out are numbers in service from 0, None for all. A column is NaN where an island is left.
    """
    n = _network(source)
    return _factors(n, 2, out, len(n.branch_from), len(n.branch_from), None, sparse, threshold).T


def _factors(n: Network, kind: int, numbers: Any, most: int, width: int, slack: Any, sparse: bool, threshold: float) -> Any:
    """Rows of distribution factors of a kind; sparse ones a block at a time."""
    rows = _rows(np.arange(most) if numbers is None else numbers, ("branches", "buses", "out")[kind], 0, "numbers of what is in service")
    weights = None
    if slack is not None:
        weights = array(reals(slack, "slack"), float, (len(n.bus),), "slack")
        if len(n.reference) > 1:
            raise InputError(f"slack: network {n.name} has {len(n.reference)} references, and weights are of one")
        if not weights.sum() > 0:
            raise InputError("slack: want weights whose sum is above 0")
        weights = weights / weights.sum()
    step = 1024 if sparse else max(len(rows), 1)
    blocks = []
    for first in range(0, max(len(rows), 1), step):
        part = rows[first : first + step]
        block = np.empty((len(part), width))
        call(lib.gpc_network_factors, n.handle, kind, address(part), len(part), address(block), block.size)
        if weights is not None:
            block -= (block @ weights)[:, None]
        if sparse:
            from scipy.sparse import csr_array

            block[np.abs(block) < threshold] = 0
            blocks.append(csr_array(block))
        else:
            blocks.append(block)
    if sparse:
        from scipy.sparse import vstack

        return vstack(blocks, format="csr")
    return blocks[0]


def _network(source: Any) -> Network:
    return source if isinstance(source, Network) else network(source)


def _shares(n: Network, participation: str | Floats) -> tuple[str, Floats | None]:
    """A word of participation, or factors by unit."""
    if isinstance(participation, str):
        if not participation:
            raise InputError(f"participation is empty, want range, pmax, equal or an array of {len(n.gen_bus)} factors")
        return participation, None
    return "", array(participation, float, (len(n.gen_bus),), "participation")


def _whole(x: Any, name: str) -> int:
    if isinstance(x, bool) or not isinstance(x, (int, np.integer)):
        raise InputError(f"{name} is {x!r}, want a whole number")
    return int(x)


def _sizes(n: Network) -> tuple[int, int, int]:
    return len(n.bus), len(n.gen_bus), len(n.branch_from)


def _passed(*arrays: NDArray[Any] | None) -> list[int | None]:
    """What ARRAY and INT take of arrays that may be left out; the caller keeps these."""
    return [x for a in arrays for x in (address(a), 0 if a is None else a.size)]


def _point(n: Network, loads: Any, dispatch: Dispatch | None) -> list[NDArray[Any] | None]:
    """Loads, active and reactive, and of a dispatch powers, magnitudes and angles: one row of each, None for the case's."""
    pd, qd = _loads(n, loads)
    if pd is not None and len(pd) != 1:
        raise InputError(f"loads has {len(pd)} rows, want one: a power flow is of one load")
    pg = vm = va = None
    if isinstance(dispatch, (Optima, SecureOptima)):
        if len(dispatch) != 1:
            raise InputError(f"dispatch has {len(dispatch)} rows, want one: give (r.pg[k], r.vm[k]) of row k")
        if not np.isfinite(dispatch.pg).all():
            raise InputError("dispatch has no optimum: its powers are NaN")
        pg, vm, va = (np.ascontiguousarray(a[0]) for a in (dispatch.pg, dispatch.vm, dispatch.va))
    elif dispatch is not None:
        if not isinstance(dispatch, tuple) or len(dispatch) != 2:
            raise InputError(f"dispatch is a {type(dispatch).__name__}, want optima of one row, or a pair: powers of units in MW and voltages of buses in pu")
        pg, vm = reals(dispatch[0], "dispatch, powers"), reals(dispatch[1], "dispatch, voltages")
    for name, a, size in (("dispatch, powers", pg, len(n.gen_bus)), ("dispatch, voltages", vm, len(n.bus)), ("dispatch, angles", va, len(n.bus))):
        if a is not None:
            array(a, float, (size,), name)
    return [pd, qd, pg, vm, va]


def _loads(n: Network, loads: Any, outages: bool = False) -> tuple[Floats | None, Floats | None]:
    """Active and reactive loads [n, buses], None for the case's."""
    if loads is None:
        return None, None
    if isinstance(loads, Scenarios):
        if not outages and any(k is not None and (k >= 0).any() for k in (loads.branch_out, loads.gen_out)):
            raise InputError("loads have branches or units that are out, which opf() alone takes: give (s.pd, s.qd), and outages by their rows")
        loads = (loads.pd, loads.qd)
    pair = loads if isinstance(loads, tuple) else (loads,)
    if len(pair) not in (1, 2):
        raise InputError(f"loads: {len(pair)} arrays, want one (active loads) or two (active and reactive loads)")
    wanted = [np.atleast_2d(reals(a, "loads")) for a in pair]
    pd = array(wanted[0], float, (None, len(n.bus)), "loads, active")
    if len(pair) == 1:
        ratio = np.divide(n.qd, n.pd, out=np.zeros_like(n.qd), where=n.pd != 0)
        return pd, np.where(n.pd != 0, pd * ratio, n.qd)
    return pd, array(wanted[1], float, (len(pd), len(n.bus)), "loads, reactive")


def sample(n: Network, count: int, recipe: str = "opfdata", *, seed: int | np.random.Generator, outages: bool = False, low: float = 0.8, high: float = 1.2, noise: float | None = None) -> Scenarios:
    """Loads as the field's data sets draw them.

    "opfdata" (arXiv 2406.07234) draws each active and each reactive load by itself within noise
    (0.2) of the case's. "pglearn" (arXiv 2505.22825) draws one factor for all loads from low to high and
    another for every load within noise (0.15) of 1, which keeps power factors. With outages one unit
    or branch is out in every scenario, as in OPFData's N−1 sets: units but the reference's, and
    branches that leave no bus alone, with even odds of the two kinds. A generator as seed goes on where it is.
    """
    draw = np.random.default_rng(seed)
    if count < 0 or not 0 <= low <= high:
        raise InputError(f"sample: {count} scenarios with factors of {low} to {high}, want 0 or more scenarios and 0 ≤ low ≤ high")
    if recipe == "opfdata":
        by = 0.2 if noise is None else noise
        p, q = (draw.uniform(1 - by, 1 + by, (count, len(n.bus))) for _ in range(2))
    elif recipe == "pglearn":
        by = 0.15 if noise is None else noise
        p = q = draw.uniform(low, high, (count, 1)) * draw.uniform(1 - by, 1 + by, (count, len(n.bus)))
    else:
        raise InputError(f'sample: recipe "{recipe}", want opfdata or pglearn')
    if not outages:
        return Scenarios(n.pd * p, n.qd * q)
    units = np.flatnonzero(~np.isin(n.gen_bus, n.reference))
    branches = np.flatnonzero(~n.bridge)
    if not len(units) or not len(branches):
        raise InputError("sample: the network has no unit or no branch that can be out: leave outages out")
    kind = draw.random(count) < 0.5
    branch = np.where(kind, draw.choice(branches, count), -1).astype(np.int32)
    gen = np.where(kind, -1, draw.choice(units, count)).astype(np.int32)
    return Scenarios(n.pd * p, n.qd * q, branch, gen)


_ENDINGS = (".m", ".mat", ".raw", ".cdf", ".json")

# Of a mapping: MATPOWER's tables, and what says nothing about the flows.
_KEYS = {"baseMVA", "bus", "gen", "branch", "gencost", "dcline", "dclinecost", "name", "version", "bus_name", "areas", "gentype", "genfuel", "order", "success", "et", "iterations", "f"}


def _tables(source: Any) -> tuple[str, float, list[Floats]]:
    """Name, base and MATPOWER's four tables of what network() takes."""
    if not isinstance(source, Mapping):
        raise InputError(f"network: a {type(source).__name__}, want a name, a path, a mapping of tables, PowerModels' data or a pandapower net")
    missing = [k for k in ("baseMVA", "bus", "gen", "branch") if k not in source]
    if missing:
        raise InputError(f"network: {', '.join(missing)} missing: want MATPOWER's baseMVA, bus, gen, branch and gencost")
    if unknown := [str(k) for k in source if k not in _KEYS]:
        raise InputError(f"network: {', '.join(unknown)}: no table that gpc uses: leave out what does not change the network")
    tables = [reals(source[k], f"network: {k}") for k in ("bus", "gen", "branch")]
    tables += [reals(source.get(k, np.zeros((0, 1))), f"network: {k}") for k in ("gencost", "dcline", "dclinecost")]
    for k, t in zip(("bus", "gen", "branch", "gencost", "dcline", "dclinecost"), tables):
        if t.ndim != 2:
            raise InputError(f"network: {k} has {t.ndim} dimensions, want rows and columns")
    return str(source.get("name", "network")), number(source["baseMVA"], "network: baseMVA", "MVA, a positive number"), tables
