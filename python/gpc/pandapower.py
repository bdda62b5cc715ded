"""Power flows and optimal power flows of pandapower's networks.

    import gpc.pandapower as gp
    gp.runpp(net)    # net.res_bus, net.res_line, … as pandapower.runpp fills them
    gp.runopp(net)   # and net.res_cost

The network's element models, and what is written to its result tables, are pandapower's own:
it makes the arrays that its solvers work on and the admittances of their branches, gpc takes
the place of the solver, and pandapower reads the result tables from the arrays. So columns,
units and signs are pandapower's. What gpc does not solve is refused by name; docs/how-to/from-pandapower.md
has the list, and how results and times compare.
"""

from __future__ import annotations

import copy
import importlib.util
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pandas
from numpy.typing import NDArray

from gpc._lib import ARRAY, FLOAT, HANDLE, INT, OUT, TEXT, InputError, Object, address, ask, declare, lib, text
from gpc.grid import made

try:
    import pandapower
    import pandapower.optimal_powerflow
    import pandapower.powerflow
    import pandapower.run
    from pandapower.auxiliary import LoadflowNotConverged, OPFNotConverged
    from pandapower.pypower import idx_brch, idx_bus, idx_gen
    from pandapower.pypower.bustypes import bustypes
    from pandapower.pypower.makeYbus import branch_vectors, makeYbus
    from pandapower.pypower.pfsoln import pfsoln
except ImportError as e:
    raise ImportError(f"gpc.pandapower needs pandapower 3: pip install pandapower ({e})") from e

__all__ = ["LoadflowNotConverged", "OPFNotConverged", "runopp", "runpp"]

declare("gpc_grid_flow", HANDLE, TEXT, ARRAY, INT, OUT, HANDLE)
declare("gpc_network_least", HANDLE, *[ARRAY, INT] * 2, OUT, HANDLE)
declare("gpc_grid_optimal", HANDLE, TEXT, ARRAY, INT, ARRAY, INT, ARRAY, INT, OUT, HANDLE)

# Columns of the arrays that the library takes; see python/libgpc/power.go for those that it writes.
_BUS, _GEN, _BRANCH = 13, 21, 13
# pandapower stands ±1e9 MW for a limit that is not there.
_NO_LIMIT = 0.999e9
# A branch with a rating from here on has none to PYPOWER's optimal power flow.
_NO_RATING = 1e10

# Most iterations that pandapower's "auto" stands for: a step is short where a full one would leave the network's solution.
_ROUNDS = 100

# Without it pandapower warns at every call, unless told not to want it.
_NUMBA = importlib.util.find_spec("numba") is not None

# Keywords that change the problem in a way that gpc does not solve.
_REFUSED = {
    "tdpf": "the temperature-dependent power flow",
    "recycle": "recycled arrays",
    "only_v_results": "for voltages alone",
    "enforce_p_lims": "limits of active power in a power flow",
}


def runpp(net: Any, **kwargs: Any) -> None:
    """Solves the AC power flow of a pandapower network and fills its result tables.

    The keywords are pandapower.runpp's. init "auto", "flat" and "dc" are one: voltages of
    1 pu, or a unit's set-point, at angles that follow the transformers' phase shifts. Raises
    pandapower's LoadflowNotConverged with the bus that was worst, or InputError for what gpc
    does not solve. net._ppc["gpc"] has iterations, largest mismatch and times.
    """
    _check(net, "runpp", kwargs)
    rounds = kwargs.get("max_iteration", "auto")
    answer: dict[str, Any] = {}

    def solve(ppci: dict[str, Any], options: dict[str, Any], **_: Any) -> dict[str, Any]:
        clock = time.perf_counter()
        bus, gen, branch = ppci["bus"], ppci["gen"], ppci["branch"]
        voltages = np.empty((len(bus), 2))
        shares = None
        if options["distributed_slack"]:
            shares = gen[:, idx_gen.SL_FAC].real.tolist()
            if np.setdiff1d(np.flatnonzero(bus[:, idx_bus.SL_FAC]), gen[:, idx_gen.GEN_BUS].real).size:
                raise InputError("runpp: xward: gpc does not share the balance with such elements: give them no slack_weight")
        given = bool(options["init_results"]) or not isinstance(options["init_va_degree"], str)
        with _grid(ppci, limits=bool(options["enforce_q_lims"]), costs=False) as grid:
            answer.update(ask(
                lib.gpc_grid_flow, grid.handle,
                text({
                    "given": given, "enforce_q": bool(options["enforce_q_lims"]), "tolerance": options["tolerance_mva"] / float(ppci["baseMVA"]),
                    "max_iterations": _ROUNDS if rounds == "auto" else int(rounds), "shares": shares,
                }),
                address(voltages), len(voltages), long=True,
            ))
        answer["solve_s"] = time.perf_counter() - clock
        ppci["success"], ppci["iterations"], ppci["et"] = answer["converged"], answer["iterations"], answer["solve_s"]
        if answer["converged"]:
            v = _complex(voltages)
            y, yf, yt = makeYbus(ppci["baseMVA"], bus, branch)
            ref, pv, pq = bustypes(bus, gen)
            shared, grids = ref, ppci["internal"]["ref_gens"]
            if shares is not None:  # as pandapower has it: units with a weight give what their bus does
                shared, grids = np.union1d(ref, np.flatnonzero(bus[:, idx_bus.SL_FAC])), np.union1d(grids, np.flatnonzero(shares))
            ppci["bus"], ppci["gen"], ppci["branch"] = pfsoln(
                ppci["baseMVA"], bus, gen, branch, ppci["svc"], ppci["tcsc"], ppci["ssc"], ppci["vsc"], y, yf, yt, v, shared, grids,
            )
            if options["enforce_q_lims"]:
                _hold_at_references(ppci)
            ppci["internal"].update({"V": v, "Ybus": y, "Yf": yf, "Yt": yt, "ref": ref, "pv": pv, "pq": pq})
        return ppci

    with _instead(pandapower.powerflow, "_run_pf_algorithm", solve):
        try:
            pandapower.runpp(net, **{"numba": _NUMBA, **kwargs, "lightsim2grid": False})
        except LoadflowNotConverged:
            raise LoadflowNotConverged(f"gpc: the power flow did not converge after {answer['iterations']} iterations: {answer['reason']}") from None
    net._ppc["gpc"] = answer


def runopp(net: Any, **kwargs: Any) -> None:
    """Solves the AC optimal power flow of a pandapower network and fills its result tables.

    The keywords are pandapower.runopp's. OPF_FLOW_LIM is 2 (ratings limit currents, pandapower's
    own default) or 0 (apparent powers), PDIPM_MAX_IT the most iterations of an attempt; its
    tolerances are not used, as gpc's own are tighter. init is "flat", "results", or "pf": from a power flow.
    Raises pandapower's OPFNotConverged with the solver's status, and where limits contradict one another
    with the least by which they would have to give, by element: in the text, and as a data frame in its relaxation. Or it raises InputError for what gpc does
    not solve. net._ppc_opf holds the arrays with all multipliers, and under "gpc" status,
    iterations, largest mismatch and violation, and times.
    """
    _check(net, "runopp", kwargs)
    if kwargs.get("OPF_FLOW_LIM", 2) not in (0, 2):
        raise InputError(f"runopp: OPF_FLOW_LIM {kwargs['OPF_FLOW_LIM']}, want 2 (currents) or 0 (apparent powers)")
    if reason := _no_optimum(net):
        raise InputError(f"runopp: {reason}")
    answer: dict[str, Any] = {}
    least: list[dict[str, Any]] = []
    rows: list[NDArray[Any]] = []

    def solve(ppci: dict[str, Any], ppopt: dict[str, Any]) -> dict[str, Any]:
        clock = time.perf_counter()
        bus, gen, branch = ppci["bus"], ppci["gen"], ppci["branch"]
        apart = branch[:, idx_brch.F_BUS] != branch[:, idx_brch.T_BUS]
        buses, gens, branches = np.empty((len(bus), 6)), np.empty((len(gen), 6)), np.empty((int(apart.sum()), 4))
        with _grid(ppci, limits=True, costs=True, dc=_dc_lines(net, ppci, limits=True)) as grid:
            answer.update(ask(
                lib.gpc_grid_optimal, grid.handle,
                text({"given": ppopt["INIT"] != "flat", "current_limits": ppopt["OPF_FLOW_LIM"] == 2, "max_iterations": int(ppopt["PDIPM_MAX_IT"])}),
                address(buses), len(buses), address(gens), len(gens), address(branches), len(branches), long=True,
            ))
            if answer["status"] == "infeasible":
                least.extend(ask(lib.gpc_network_least, grid.handle, None, 0, None, 0, long=True)["limits"])
                rows.append(np.flatnonzero(ppci["internal"]["branch_is"])[apart])
        answer["solve_s"] = time.perf_counter() - clock
        ppci["success"], ppci["iterations"], ppci["et"] = answer["status"] == "optimal", answer["iterations"], answer["solve_s"]
        if ppci["success"]:
            multipliers = np.zeros((len(branch), 4))
            multipliers[apart] = branches
            _write_optimum(ppci, buses, gens, multipliers)
            ppci["f"] = answer["objective"]
        return ppci

    with _instead(pandapower.optimal_powerflow, "opf", solve):
        try:
            pandapower.runopp(net, **{"numba": _NUMBA, **kwargs})
        except OPFNotConverged:
            limits = [_named(net, limit, rows[0]) for limit in least]
            reason = "; ".join(f"{v['limit']} of {v['element']} {v['index']} by {v['by']:.4g} {v['unit']}" for v in limits[:5])
            error = OPFNotConverged(f"gpc: no optimum: {answer['status']} after {answer['iterations']} iterations"
                                    + (f"; the least relaxation has {len(limits)} limits: {reason}" if limits else ""))
            error.relaxation = pandas.DataFrame(limits)
            raise error from None
    net._ppc_opf["gpc"] = answer


def _named(net: Any, limit: dict[str, Any], rows: NDArray[Any]) -> dict[str, Any]:
    """A limit of the arrays by the element of the network; rows are those of the branches in service."""
    lookups = net._pd2ppc_lookups
    element, index = "bus", int(np.argmax(lookups["bus"] == limit["bus"] - 1)) if limit["bus"] else -1
    if limit["branch"]:
        row = rows[limit["branch"] - 1]
        for element, (first, last) in lookups["branch"].items():
            if first <= row < last:
                size = len(net[element]) if element in net else 1
                index = int(net[element].index[(row - first) % size]) if element in net and size else int(row - first)
                break
    elif limit["gen"]:
        for table in ("ext_grid", "gen", "sgen_controllable", "load_controllable", "storage_controllable", "xward"):
            found = np.flatnonzero(np.asarray(lookups.get(table, [])) == limit["gen"] - 1)
            if len(found):
                element, index = table.removesuffix("_controllable"), int(found[0])
                break
    name = net[element].name.get(index) if element in net and "name" in net[element] else None
    return {"limit": limit["limit"], "element": element, "index": index, "name": name, **{k: limit[k] for k in ("end", "value", "bound", "by", "unit")}}


def _hold_at_references(ppci: dict[str, Any]) -> None:
    """Units at the bus of an external grid within their reactive limits: the grid takes the rest, as pandapower has it."""
    gen, grids = ppci["gen"], ppci["internal"]["ref_gens"]
    for bus in np.unique(gen[grids, idx_gen.GEN_BUS]):
        at = np.flatnonzero(gen[:, idx_gen.GEN_BUS] == bus)
        units, balancing, total = np.setdiff1d(at, grids), np.intersect1d(at, grids), gen[at, idx_gen.QG].sum()
        gen[units, idx_gen.QG] = np.clip(gen[units, idx_gen.QG], gen[units, idx_gen.QMIN], gen[units, idx_gen.QMAX])
        gen[balancing, idx_gen.QG] += (total - gen[at, idx_gen.QG].sum()) / len(balancing)


def _complex(voltages: NDArray[Any]) -> NDArray[Any]:
    return voltages[:, 0] * np.exp(1j * np.pi / 180 * voltages[:, 1])


def _write_optimum(ppci: dict[str, Any], buses: NDArray[Any], gens: NDArray[Any], branches: NDArray[Any]) -> None:
    """The library's results in PYPOWER's columns."""
    bus, branch = ppci["bus"], ppci["branch"]
    missing = idx_gen.MU_QMIN + 1 - ppci["gen"].shape[1]
    if missing > 0:
        ppci["gen"] = np.hstack([ppci["gen"], np.zeros((len(gens), missing))])
    gen = ppci["gen"]
    bus[:, [idx_bus.VM, idx_bus.VA, idx_bus.LAM_P, idx_bus.LAM_Q, idx_bus.MU_VMAX, idx_bus.MU_VMIN]] = buses
    gen[:, [idx_gen.PG, idx_gen.QG, idx_gen.MU_PMAX, idx_gen.MU_PMIN, idx_gen.MU_QMAX, idx_gen.MU_QMIN]] = gens
    gen[:, idx_gen.VG] = buses[gen[:, idx_gen.GEN_BUS].astype(int), 0]
    v = _complex(buses)
    _, yf, yt = makeYbus(ppci["baseMVA"], bus, branch)
    f, t = (branch[:, k].real.astype(int) for k in (idx_brch.F_BUS, idx_brch.T_BUS))
    sf, st = v[f] * np.conj(yf @ v) * ppci["baseMVA"], v[t] * np.conj(yt @ v) * ppci["baseMVA"]
    branch[:, [idx_brch.PF, idx_brch.QF, idx_brch.PT, idx_brch.QT]] = np.column_stack([sf.real, sf.imag, st.real, st.imag])
    branch[:, [idx_brch.MU_SF, idx_brch.MU_ST, idx_brch.MU_ANGMIN, idx_brch.MU_ANGMAX]] = branches


_substituting = threading.RLock()


@contextmanager
def _instead(module: Any, name: str, ours: Callable[..., Any]) -> Iterator[None]:
    """A solver of pandapower's replaced by ours, for what this thread calls meanwhile."""
    with _substituting:
        theirs, me = getattr(module, name), threading.get_ident()

        def choose(*args: Any, **kwargs: Any) -> Any:
            return (ours if threading.get_ident() == me else theirs)(*args, **kwargs)

        setattr(module, name, choose)
        try:
            yield
        finally:
            setattr(module, name, theirs)


_PARAMETERS = {
    "runpp": {
        "algorithm", "calculate_voltage_angles", "init", "max_iteration", "tolerance_mva", "trafo_model", "trafo_loading", "enforce_q_lims", "check_connectivity",
        "voltage_depend_loads", "consider_line_temperature", "run_control", "numba", "switch_rx_ratio", "delta_q", "trafo3w_losses", "init_vm_pu", "init_va_degree",
        "neglect_open_switch_branches", "distributed_slack",
    },
    "runopp": {
        "verbose", "calculate_voltage_angles", "check_connectivity", "suppress_warnings", "switch_rx_ratio", "delta", "init", "numba", "trafo3w_losses",
        "consider_line_temperature", "OPF_FLOW_LIM", "OPF_VIOLATION", "PDIPM_COSTTOL", "PDIPM_GRADTOL", "PDIPM_COMPTOL", "PDIPM_FEASTOL", "PDIPM_MAX_IT", "SCPDIPM_RED_IT",
    },
}


_PARAMETERS["network"] = _PARAMETERS["runpp"]


def _check(net: Any, function: str, kwargs: dict[str, Any]) -> None:
    """Refuses what gpc does not solve, by the name of the keyword or the element."""
    given = kwargs if function == "runopp" else {**getattr(net, "user_pf_options", {}), **kwargs}
    for name, what in _REFUSED.items():
        if given.get(name):
            raise InputError(f"{function}: {name}: gpc does not solve {what}")
    for name in given:
        if name not in _PARAMETERS[function] and name not in _REFUSED:
            raise InputError(f"{function}: no keyword {name}")
    starts = ("auto", "flat", "dc", "results") if function != "runopp" else ("flat", "pf", "results")
    if isinstance(given.get("init"), str) and given["init"] not in starts:
        raise InputError(f"{function}: init {given['init']!r}, want {', '.join(starts)}")
    if given.get("algorithm", "nr") != "nr":
        raise InputError(f"{function}: algorithm {given['algorithm']!r}: gpc has one, Newton's")
    for table in ("svc", "tcsc", "ssc", "vsc", "b2b_vsc", "bus_dc", "line_dc", "load_dc", "source_dc"):
        if table in net and len(net[table]):
            elements = net[table]
            on = elements.index[elements.in_service.astype(bool)] if "in_service" in elements else elements.index
            if len(on):
                raise InputError(f"{function}: {table} {_names(on)}: gpc does not solve networks with such elements")
    if function != "runopp" and given.get("voltage_depend_loads", True):
        columns = [c for c in net.load if c.startswith(("const_z_", "const_i_"))]
        dependent = net.load.index[net.load.in_service.astype(bool) & (net.load[columns] != 0).any(axis=1)]
        if len(dependent):
            raise InputError(f"{function}: load {_names(dependent)}: const_z_… and const_i_… make it depend on its voltage, which gpc does not solve; "
                             "voltage_depend_loads=False takes it as constant")


def _no_optimum(net: Any) -> str:
    """Which elements in service pose no optimal power flow, and why; ""."""
    for table, why in (
        ("asymmetric_load", "pandapower's optimal power flow leaves it out"), ("asymmetric_sgen", "pandapower's optimal power flow leaves it out"),
    ):
        on = net[table].index[net[table].in_service.astype(bool)]
        if len(on):
            return f"{table} {_names(on)}: {why}"
    return ""


def tables(net: Any) -> tuple[float, list[NDArray[Any]], NDArray[Any], bool, str]:
    """Base, MATPOWER's four tables and admittances of a net as pandapower's power flow has it, with the units, limits and
    costs of its optimal power flow; whether the admittances are those of the tables' impedances; and why there is no
    optimal power flow, or "". net gets the lookups of the tables' rows."""
    _check(net, "network", {})
    copied = copy.deepcopy(net)
    flow = _captured(pandapower.powerflow, "_run_pf_algorithm", pandapower.runpp, copied)
    reason, ppci, lookups = _no_optimum(net), flow, copied._pd2ppc_lookups
    check = pandapower.run._check_necessary_opf_parameters

    def required(*args: Any) -> None:
        nonlocal reason
        try:
            check(*args)
        except KeyError as e:
            reason = str(e.args[0])

    if not reason:
        copied = copy.deepcopy(net)
        try:
            with _instead(pandapower.run, "_check_necessary_opf_parameters", required):
                optimal = _captured(pandapower.optimal_powerflow, "opf", pandapower.runopp, copied)
            _restore(flow, optimal)
            if difference := _difference(flow, optimal):
                reason = f"pandapower's has other {difference} than its power flow"
            else:
                ppci, lookups = optimal, copied._pd2ppc_lookups
        except (UserWarning, ValueError, NotImplementedError) as e:
            reason = str(e)
    bus, gen, branch, cost, admittance = _arrays(ppci, limits=True, costs=ppci is not flow)
    gen[:, idx_gen.VG] = bus[gen[:, idx_gen.GEN_BUS].astype(int) - 1, idx_bus.VM]  # a unit without a set-point may stand at the bus of one
    if ppci is flow:  # which has no limits of external grids
        gen[np.ix_(flow["internal"]["ref_gens"], [idx_gen.QMAX, idx_gen.QMIN])] = np.inf, -np.inf
    net._pd2ppc_lookups = lookups
    pi = not ppci["branch"][:, [idx_brch.BR_G, idx_brch.BR_R_ASYM, idx_brch.BR_X_ASYM, idx_brch.BR_G_ASYM, idx_brch.BR_B_ASYM]].any()
    return float(ppci["baseMVA"]), [bus, gen, branch, cost, ppci["dc"]], admittance, pi, f"no optimal power flow of this net: {reason}" if reason else ""


def _captured(module: Any, name: str, run: Callable[..., None], net: Any, **kwargs: Any) -> dict[str, Any]:
    """The arrays that pandapower gives to its solver."""
    given: dict[str, Any] = {}

    def keep(ppci: dict[str, Any], *_: Any, **__: Any) -> dict[str, Any]:
        given.update(ppci, dc=_dc_lines(net, ppci, limits=name == "opf"))
        return {**ppci, "success": False, "iterations": 0, "et": 0.0}

    with _instead(module, name, keep):
        try:
            run(net, numba=_NUMBA, **kwargs)
        except (LoadflowNotConverged, OPFNotConverged):
            pass
    return given


def _powers(ppci: dict[str, Any]) -> NDArray[Any]:
    """What buses take, MW and MVAr, 0 where a power flow finds it."""
    bus, gen = ppci["bus"], ppci["gen"]
    power = bus[:, [idx_bus.PD, idx_bus.QD]].copy()
    np.subtract.at(power, gen[:, idx_gen.GEN_BUS].astype(int), gen[:, [idx_gen.PG, idx_gen.QG]])
    kind = bus[:, idx_bus.BUS_TYPE]
    power[np.column_stack([kind == idx_bus.REF, kind != idx_bus.PQ])] = 0
    return power


def _restore(flow: dict[str, Any], optimal: dict[str, Any]) -> None:
    """Set-points as the power flow has them: pandapower moves those of its optimal power flow into their limits."""
    if len(flow["bus"]) != len(optimal["bus"]):
        return
    gen, lacking = optimal["gen"], _powers(optimal) - _powers(flow)
    for k, (value, least, most) in enumerate(((idx_gen.PG, idx_gen.PMIN, idx_gen.PMAX), (idx_gen.QG, idx_gen.QMIN, idx_gen.QMAX))):
        moved = np.flatnonzero((gen[:, value] <= gen[:, least] + 1e-9) | (gen[:, value] >= gen[:, most] - 1e-9))
        for bus in np.flatnonzero(np.abs(lacking[:, k]) > 1e-9):
            gen[moved[gen[moved, idx_gen.GEN_BUS] == bus][:1], value] += lacking[bus, k]


def _difference(a: dict[str, Any], b: dict[str, Any]) -> str:
    """What two networks' power flows differ in, of equal buses."""
    def parts(p: dict[str, Any]) -> dict[str, NDArray[Any]]:
        bus, branch = p["bus"], p["branch"]
        kind = bus[:, idx_bus.BUS_TYPE]
        held = kind != idx_bus.PQ
        return {
            "types of buses": kind, "shunts": bus[:, [idx_bus.GS, idx_bus.BS]], "voltages": bus[held][:, [idx_bus.VM, idx_bus.VA]], "loads": _powers(p),
            "branches": np.column_stack([branch[:, [idx_brch.F_BUS, idx_brch.T_BUS]], *branch_vectors(branch, len(branch))]),
        }

    ours, theirs = parts(a), parts(b)
    return next((k for k in ours if ours[k].shape != theirs[k].shape or not np.allclose(ours[k], theirs[k], rtol=1e-12, atol=1e-9)), "")


def _names(index: Any) -> str:
    return ", ".join(str(i) for i in index[:5]) + (f" and {len(index) - 5} more" if len(index) > 5 else "")


def _arrays(ppci: dict[str, Any], limits: bool, costs: bool) -> list[NDArray[Any]]:
    """MATPOWER's four tables and the admittances of pandapower's arrays, without branches that begin where they end, which are
    shunts. Without limits generators have none, and without costs buses have none and branches no ratings."""
    bus = np.zeros((len(ppci["bus"]), _BUS))
    bus[:] = ppci["bus"][:, :_BUS].real
    bus[:, 0] += 1
    gen = np.zeros((len(ppci["gen"]), _GEN))
    gen[:] = ppci["gen"][:, :_GEN].real
    gen[:, 0] += 1
    gen[:, 10:] = 0
    branch = np.zeros((len(ppci["branch"]), _BRANCH))
    branch[:] = ppci["branch"][:, :_BRANCH].real
    branch[:, :2] += 1
    bus[:, [idx_bus.BUS_AREA, idx_bus.ZONE]] = 1
    most, least = [idx_gen.QMAX, idx_gen.PMAX], [idx_gen.QMIN, idx_gen.PMIN]
    if limits:
        for columns, none in ((most, np.inf), (least, -np.inf)):
            values = gen[:, columns]
            gen[:, columns] = np.where(np.abs(values) >= _NO_LIMIT, none, values)
    else:
        gen[:, most], gen[:, least] = np.inf, -np.inf
    if not costs:
        bus[:, idx_bus.VMAX], bus[:, idx_bus.VMIN] = 2, 0
        branch[:, idx_brch.ANGMIN], branch[:, idx_brch.ANGMAX] = -360, 360
    rating = branch[:, idx_brch.RATE_A]
    branch[:, idx_brch.RATE_A] = np.where(np.isfinite(rating) & (rating < _NO_RATING) & costs, rating, 0)
    ytt, yff, yft, ytf = branch_vectors(ppci["branch"], len(branch))
    parts = [part for y in (yff, yft, ytf, ytt) for part in (y.real, y.imag)]
    admittance = np.ascontiguousarray(np.column_stack(parts)) if len(branch) else np.zeros((0, 8))
    cost = np.ascontiguousarray(ppci["gencost"].real, dtype=float) if costs else np.zeros((0, 1))
    loop = branch[:, idx_brch.F_BUS] == branch[:, idx_brch.T_BUS]  # beside a closed switch, a shunt
    shunt = (yff + yft + ytf + ytt)[loop] * float(ppci["baseMVA"])
    for column, part in ((idx_bus.GS, shunt.real), (idx_bus.BS, shunt.imag)):
        np.add.at(bus[:, column], branch[loop, idx_brch.F_BUS].astype(int) - 1, part)
    return [bus, gen, branch[~loop], cost, admittance[~loop]]


def _dc_lines(net: Any, ppci: dict[str, Any], limits: bool) -> NDArray[Any]:
    """Of each DC line in service the rows of gen that are its from and its to end, and its losses, as pandapower's optimal
    power flow has them: P of the from end is −(1 + loss_percent/100)·P of the to end − loss_mw. pandapower adds two units a
    line at the end of net.gen, the to end first. With limits the from end's
    become those of both."""
    lookup, ends, gen = net._pd2ppc_lookups["gen"], net.gen.index[len(net.gen) - 2 * len(net.dcline):], ppci["gen"]
    out = []
    for k, (on, percent, mw) in enumerate(zip(net.dcline.in_service, net.dcline.loss_percent, net.dcline.loss_mw)):
        if on:
            start, end, by = lookup[ends[2 * k + 1]], lookup[ends[2 * k]], 1 + percent / 100
            if limits:
                gen[start, idx_gen.PMIN] = max(gen[start, idx_gen.PMIN], -by * gen[end, idx_gen.PMAX] - mw)
                gen[start, idx_gen.PMAX] = min(gen[start, idx_gen.PMAX], -by * gen[end, idx_gen.PMIN] - mw)
            out.append([start, end, mw / by / float(ppci["baseMVA"]), 1 - 1 / by])
    return np.array(out, float).reshape(-1, 4)


def _grid(ppci: dict[str, Any], limits: bool, costs: bool, dc: NDArray[Any] | None = None) -> Object:
    """The library's network of pandapower's arrays."""
    *of, admittance = _arrays(ppci, limits, costs)
    if dc is not None:
        of.append(dc)
    return Object(made({"name": "network", "no_optimum": "by gpc_grid_optimal"}, float(ppci["baseMVA"]), of, admittance))
