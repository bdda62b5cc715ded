#!/usr/bin/env python3
"""Compares every network of pandapower.networks, and every table of elements, through both doors with pandapower itself.

    doors.py --out pandapower-doors.json [--networks "case9;iceland"]

runpp stands beside gpc.pandapower.runpp and grid.pf(grid.network(net)), runopp beside gpc.pandapower.runopp and
grid.opf, and either's power flow without one line at a time, which pandapower's run_contingency is made of. Differences are the
largest of all rows and columns: of voltages in pu and degrees, of powers in MW and MVAr, of an optimum's cost relative
to it. A network that is refused has the refusal. `make docs` writes the table of docs/results/pandapower.md.
"""
import argparse
import copy
import inspect
import json
import logging
import os
import sys
import warnings

import numpy as np

warnings.simplefilter("ignore")
logging.disable(logging.CRITICAL)

import pandapower as pp  # noqa: E402
import pandapower.networks as pn  # noqa: E402

import gpc  # noqa: E402
import gpc.grid as grid  # noqa: E402
import gpc.pandapower as gp  # noqa: E402

# Most lines whose outages are compared, in networks of up to 500 buses and beyond, and buses up to which optima are.
OUTAGES, FEW, BUSES = 40, 2, 3500
# MVA: rounding keeps some networks from the first, nearly all large ones.
TOLERANCES = (1e-10, 1e-9, 1e-8)
STD_LINE = "149-AL1/24-ST1A 110.0"


def networks():
    """Every function of pandapower.networks that gives a network without being told anything."""
    found = {}
    for name, f in sorted(inspect.getmembers(pn, inspect.isfunction)):
        required = [p for p in inspect.signature(f).parameters.values() if p.default is p.empty and p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD)]
        if f.__module__.startswith("pandapower.networks") and not required and not name.startswith("_"):
            found[name] = f
    return found


def five():
    """Five buses of 110 kV with an external grid, two units and four loads, with limits and costs."""
    net = pp.create_empty_network()
    buses = [pp.create_bus(net, 110, min_vm_pu=0.95, max_vm_pu=1.05) for _ in range(5)]
    for i, j, km in ((0, 1, 40), (1, 2, 30), (2, 3, 35), (3, 4, 20), (4, 0, 45), (1, 3, 50)):
        pp.create_line(net, buses[i], buses[j], km, STD_LINE, max_loading_percent=80)
    pp.create_ext_grid(net, 0, vm_pu=1.01, min_p_mw=-50, max_p_mw=150, min_q_mvar=-60, max_q_mvar=60)
    pp.create_gen(net, 2, 30, vm_pu=1.0, min_p_mw=5, max_p_mw=70, min_q_mvar=-25, max_q_mvar=30, controllable=True)
    pp.create_gen(net, 4, 20, vm_pu=1.0, min_p_mw=0, max_p_mw=40, min_q_mvar=-15, max_q_mvar=20, controllable=True)
    for bus, p, q in ((1, 45, 12), (2, 30, 8), (3, 50, 15), (4, 20, 4)):
        pp.create_load(net, bus, p, q, controllable=False)
    pp.create_poly_cost(net, 0, "ext_grid", cp1_eur_per_mw=32, cp2_eur_per_mw2=0.02)
    pp.create_poly_cost(net, 0, "gen", cp1_eur_per_mw=24, cp2_eur_per_mw2=0.05)
    pp.create_poly_cost(net, 1, "gen", cp1_eur_per_mw=27, cp2_eur_per_mw2=0.03)
    return net


def low(net, kv=20):
    return pp.create_bus(net, kv, min_vm_pu=0.9, max_vm_pu=1.1)


def transformer(net, kind="25 MVA 110/20 kV", **columns):
    bus = low(net)
    pp.create_transformer(net, 3, bus, kind, **columns)
    pp.create_load(net, bus, 12, 3, controllable=False)


def transformer3w(net, **columns):
    middle, lowest = low(net), low(net, 10)
    pp.create_transformer3w(net, 3, middle, lowest, "63/25/38 MVA 110/20/10 kV")
    for name, value in columns.items():
        net.trafo3w[name] = value
    pp.create_load(net, middle, 12, 3, controllable=False)
    pp.create_load(net, lowest, 9, 2, controllable=False)


def controllable(net, create, cost=None, **columns):
    index = create(net, 3, **columns, controllable=True, min_q_mvar=-3, max_q_mvar=3)
    if cost is not None:
        pp.create_poly_cost(net, index, create.__name__.removeprefix("create_"), cp1_eur_per_mw=cost)


def set_column(table, column, value):
    def change(net):
        net[table][column] = value
    return change


def bus_switch(net, **columns):
    bus = pp.create_bus(net, 110, min_vm_pu=0.9, max_vm_pu=1.1)
    pp.create_switch(net, 3, bus, "b", **columns)
    pp.create_load(net, bus, 3, 1, controllable=False)


def piecewise(net):
    net.poly_cost = net.poly_cost.drop(1)
    pp.create_pwl_cost(net, 0, "gen", [[5, 30, 20], [30, 50, 28], [50, 70, 45]])
    net.poly_cost["cp2_eur_per_mw2"] = 0.0


def external(net, bus, **columns):
    pp.create_ext_grid(net, bus, min_p_mw=-50, max_p_mw=50, min_q_mvar=-50, max_q_mvar=50, **columns)


ELEMENTS = {
    "five buses": lambda net: None,
    "trafo YNd5": transformer,
    "trafo, tap 3": lambda net: transformer(net, tap_pos=3),
    "trafo, iron losses": lambda net: (transformer(net), set_column("trafo", "pfe_kw", 500.0)(net)),
    "trafo, parallel, derated": lambda net: transformer(net, parallel=2, df=0.8),
    "trafo, asymmetric leakage": lambda net: (transformer(net), net.trafo.__setitem__("leakage_resistance_ratio_hv", 0.3), net.trafo.__setitem__("leakage_reactance_ratio_hv", 0.7)),
    "trafo3w": transformer3w,
    "trafo3w, tap 2, iron losses": lambda net: transformer3w(net, tap_pos=2, pfe_kw=300.0),
    "asymmetric load": lambda net: pp.create_asymmetric_load(net, 3, 1, 2, 1, 0.1, 0.2, 0.3),
    "asymmetric sgen": lambda net: pp.create_asymmetric_sgen(net, 3, 1, 2, 1, 0.1, 0.2, 0.3),
    "load, constant impedance": lambda net: pp.create_load(net, 1, 5, 1, const_z_p_percent=100, const_z_q_percent=100),
    "load, constant current": lambda net: pp.create_load(net, 1, 5, 1, const_i_p_percent=50, const_i_q_percent=50),
    "load, controllable, cost": lambda net: controllable(net, pp.create_load, -30, p_mw=5, q_mvar=1, min_p_mw=2, max_p_mw=8),
    "load, controllable, no cost": lambda net: controllable(net, pp.create_load, p_mw=5, q_mvar=1, min_p_mw=2, max_p_mw=8),
    "sgen, scaled": lambda net: pp.create_sgen(net, 3, 6, 2, scaling=0.5),
    "sgen, controllable, cost": lambda net: controllable(net, pp.create_sgen, 1, p_mw=6, q_mvar=1, min_p_mw=0, max_p_mw=10),
    "sgen, controllable, no cost": lambda net: controllable(net, pp.create_sgen, p_mw=6, q_mvar=1, min_p_mw=0, max_p_mw=10),
    "storage": lambda net: pp.create_storage(net, 3, 3, 10, q_mvar=1),
    "storage, controllable": lambda net: controllable(net, pp.create_storage, -29, p_mw=0, max_e_mwh=100, min_p_mw=-10, max_p_mw=12),
    "motor": lambda net: pp.create_motor(net, 3, 3, 0.9),
    "ward": lambda net: pp.create_ward(net, 3, 2, 0.5, 3, 0.2),
    "xward": lambda net: pp.create_xward(net, 3, 2, 0.5, 0.3, 0.2, 0.5, 5, 1.0),
    "shunt, two steps": lambda net: pp.create_shunt(net, 3, q_mvar=-8, p_mw=0.1, step=2),
    "impedance, asymmetric": lambda net: pp.create_impedance(net, 1, 4, 0.01, 0.05, 100, rtf_pu=0.02, xtf_pu=0.06),
    "switch between buses": bus_switch,
    "switch between buses, open": lambda net: bus_switch(net, closed=False),
    "switch between buses, impedance": lambda net: bus_switch(net, z_ohm=0.1),
    "switch of a line, open": lambda net: pp.create_switch(net, 1, 1, "l", closed=False),
    "bus without a line": lambda net: pp.create_load(net, pp.create_bus(net, 110), 3, 1),
    "line out": lambda net: net.line.loc.__setitem__((1, "in_service"), False),
    "lines, parallel, temperature": lambda net: (set_column("line", "parallel", 2)(net), set_column("line", "temperature_degree_celsius", 60.0)(net)),
    "gen, scaled": set_column("gen", "scaling", 0.5),
    "gen, not controllable": lambda net: net.gen.loc.__setitem__((0, "controllable"), False),
    "gen without a cost": lambda net: net.poly_cost.drop(1, inplace=True),
    "gen as slack": lambda net: net.gen.__setitem__("slack", [True, False]),
    "gen at the external grid": lambda net: pp.create_gen(net, 0, 5, vm_pu=1.01, min_p_mw=0, max_p_mw=9, min_q_mvar=-1, max_q_mvar=1, controllable=True),
    "two gens at a bus": lambda net: pp.create_gen(net, 2, 5, vm_pu=1.0, min_p_mw=0, max_p_mw=9, min_q_mvar=-1, max_q_mvar=1, controllable=True),
    "two external grids": lambda net: external(net, 2, vm_pu=1.0, va_degree=-1),
    "two external grids at a bus": lambda net: external(net, 0, vm_pu=1.01),
    "DC line": lambda net: pp.create_dcline(net, 0, 3, p_mw=10, loss_percent=1.2, loss_mw=0.05, vm_from_pu=1.01, vm_to_pu=1.0, max_p_mw=25,
                                            min_q_from_mvar=-10, max_q_from_mvar=10, min_q_to_mvar=-10, max_q_to_mvar=10),
    "DC line out": lambda net: pp.create_dcline(net, 0, 3, p_mw=10, loss_percent=1.2, loss_mw=0.05, vm_from_pu=1.01, vm_to_pu=1.0, in_service=False),
    "SVC": lambda net: pp.create_svc(net, 3, x_l_ohm=10.0, x_cvar_ohm=-100.0, set_vm_pu=1.0, thyristor_firing_angle_degree=140.0),
    "SSC": lambda net: pp.create_ssc(net, 3, r_ohm=0.1, x_ohm=5.0, set_vm_pu=1.0),
    "TCSC": lambda net: pp.create_tcsc(net, 1, 3, x_l_ohm=1.0, x_cvar_ohm=-10.0, set_p_to_mw=-10.0, thyristor_firing_angle_degree=140.0),
    "piecewise linear cost": piecewise,
    "cost of reactive power": lambda net: net.poly_cost.__setitem__("cq2_eur_per_mvar2", 0.02),
}


def tables(net):
    return {name: net[name] for name in net if name.startswith("res_") and hasattr(net[name], "columns") and len(net[name])}


class Differs(Exception):
    """A result table has other rows, columns or missing numbers."""


def differences(ours, theirs):
    """The largest difference of voltages, pu; of angles, °; of powers, MW and MVAr."""
    a, b = tables(ours), tables(theirs)
    if a.keys() != b.keys():
        raise Differs(f"tables {sorted(a.keys() ^ b.keys())} are of one of the two alone")
    worst = {"pu": 0.0, "deg": 0.0, "mw": 0.0}
    for name in a:
        if list(a[name].columns) != list(b[name].columns) or not a[name].index.equals(b[name].index):
            raise Differs(f"{name} has other rows or columns")
        for column in a[name].columns:
            unit = "pu" if column.startswith("vm_") and column.endswith("pu") else "deg" if column.startswith("va_") else "mw" if column.endswith(("_mw", "_mvar")) else None
            x, y = a[name][column].to_numpy(float), b[name][column].to_numpy(float)
            if (np.isnan(x) != np.isnan(y)).any():
                raise Differs(f"{name}.{column} has NaN in other places")
            if unit and (~np.isnan(x)).any():
                worst[unit] = max(worst[unit], float(np.nanmax(np.abs(x - y))))
    return worst


def refusal(e):
    return f"{type(e).__name__}: {str(e).splitlines()[0] if str(e) else ''}"


def closely(net, **_):
    """gpc's power flow to the smallest tolerance that rounding leaves."""
    for tolerance in TOLERANCES[len(net.bus) > 1000:]:
        try:
            return gp.runpp(net, tolerance_mva=tolerance)
        except pp.LoadflowNotConverged:
            if tolerance == TOLERANCES[-1]:
                raise


def flow(net):
    """Rows of a power flow: pandapower's, or why it has none; both doors' differences."""
    theirs = copy.deepcopy(net)
    row = {}
    try:
        pp.runpp(theirs, numba=False, tolerance_mva=1e-10, max_iteration=30)
    except Exception as e:
        theirs, row["peer_failed"] = None, refusal(e)
    ours = copy.deepcopy(net)
    try:
        closely(ours)
        row["runpp"] = differences(ours, theirs) if theirs is not None else "solved"
    except Exception as e:
        row["runpp"] = refusal(e)
    try:
        asked = copy.deepcopy(net)
        n = grid.network(asked)
        for tolerance in TOLERANCES[len(asked.bus) > 1000:]:
            f = grid.pf(n, tolerance=tolerance / asked.sn_mva)
            if f.converged:
                break
        if not f.converged:
            row["pf"] = f"{f.reason}"
        elif theirs is None:
            row["pf"] = "solved"
        else:
            on = theirs.res_bus.index[theirs.res_bus.vm_pu.notna()]
            at = asked._pd2ppc_lookups["bus"][on]
            turned = np.abs((f.va[at] - theirs.res_bus.va_degree[on] + 180) % 360 - 180)
            row["pf"] = {"pu": float(np.abs(f.vm[at] - theirs.res_bus.vm_pu[on]).max()), "deg": float(turned.max()) if pp_angles(theirs) else None}
    except Exception as e:
        row["pf"] = refusal(e)
    return row


def pp_angles(net):
    """Whether a power flow had the phase shifts of transformers."""
    return bool(net._options["calculate_voltage_angles"])


def optimum(net):
    row = {}
    theirs = None
    for init in ("flat", "pf"):
        try:
            tried = copy.deepcopy(net)
            pp.runopp(tried, numba=False, init=init)
            if theirs is None or tried.res_cost < theirs:
                theirs = float(tried.res_cost)
        except Exception as e:
            row["peer_failed"] = refusal(e)
    if theirs is not None:
        row = {"peer_cost": theirs}

    def beside(cost):
        return {"cost": cost, "relative": (cost - theirs) / max(1, abs(theirs))} if theirs is not None else {"cost": cost}
    try:
        ours = copy.deepcopy(net)
        gp.runopp(ours)
        row["runopp"] = beside(float(ours.res_cost))
    except Exception as e:
        row["runopp"] = refusal(e)
    try:
        r = grid.opf(copy.deepcopy(net), current_limits=True)
        row["opf"] = beside(float(r.objective[0])) if r.optimal[0] else grid.STATUS[int(r.status[0])]
    except Exception as e:
        row["opf"] = refusal(e)
    return row


def contingency(net):
    """Power flows without one line at a time, as run_contingency has them: how many either program solves, and the largest
    difference of voltages where both do. grid.outages is there for the whole table."""
    index = list(net.line.index[net.line.in_service.astype(bool)])[: OUTAGES if len(net.bus) <= 500 else FEW]
    if not index:
        return {}
    row = {"outages": len(index), "both": 0, "ours_alone": 0, "peer_alone": 0, "pu": 0.0}
    for line in index:
        solved = []
        for run, options in ((pp.runpp, {"numba": False, "tolerance_mva": 1e-10, "max_iteration": 30}), (closely, {})):
            tried = copy.deepcopy(net)
            tried.line.loc[line, "in_service"] = False
            try:
                run(tried, **options)
                solved.append(tried)
            except pp.LoadflowNotConverged:
                solved.append(None)
            except Exception as e:
                return {**row, "refused": refusal(e)}
        theirs, ours = solved
        if theirs is not None and ours is not None:
            row["both"] += 1
            row["pu"] = max(row["pu"], differences(ours, theirs)["pu"])
        elif theirs is not None or ours is not None:
            row["ours_alone" if ours is not None else "peer_alone"] += 1
    try:
        row["outages_door"] = len(grid.outages(copy.deepcopy(net), "branches").outages)
    except Exception as e:
        row["outages_door"] = refusal(e)
    return row


def cells(row):
    """The row of a table: differences, or in words what either does not solve."""
    flow, optimum, out = row["flow"], row["optimum"], row["contingency"]

    def voltage(x):
        if isinstance(x, dict):
            return f"{x['pu']:.0e}"
        return "pandapower fails" if x == "solved" else brief(x)

    def cost(x):
        if isinstance(x, dict):
            return f"{x['relative']:.0e}" if "relative" in x else "gpc alone"
        return "–" if x is None else ("neither" if "peer_cost" not in optimum and not x.startswith("InputError") else brief(x))
    if "refused" in out:
        lines = brief(out["refused"])
    elif out:
        lines = f"{out['both']}, {out['ours_alone']}, {out['peer_alone']}; {out['pu']:.0e} pu"
    else:
        lines = "–"
    ours = flow["runpp"]
    if "peer_failed" in flow and ours != "solved":
        return [row["network"], str(row["buses"]), "neither", "neither", *[cost(optimum.get(k)) for k in ("runopp", "opf")], lines]
    return [row["network"], str(row["buses"]), voltage(ours), voltage(flow["pf"]), *[cost(optimum.get(k)) for k in ("runopp", "opf")], lines]


def brief(refused):
    """A refusal without what is said of every one."""
    if not refused.startswith("InputError: "):
        return refused.split(":")[-1].strip()
    named = refused.removeprefix("InputError: ").removeprefix("no optimal power flow of this net: ")
    for start in ("runpp: ", "runopp: ", "network: "):
        named = named.removeprefix(start)
    return "refused: " + named.split(":")[0].strip()


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--out", required=True, help="file for the record")
    p.add_argument("--networks", default="", help="names separated by semicolons (default: all, and the tables of elements)")
    a = p.parse_args()
    chosen = a.networks.split(";") if a.networks else None
    sources = {**{name: f for name, f in networks().items()}, **{name: (lambda add=add: with_element(add)) for name, add in ELEMENTS.items()}}
    rows = []
    for name, make in sources.items():
        if chosen and name not in chosen:
            continue
        row = {"network": name, "element": name in ELEMENTS}
        try:
            made = make()
        except Exception as e:
            rows.append({**row, "no_network": refusal(e)})
            continue
        net = made[0] if isinstance(made, (list, tuple)) else made
        if not isinstance(net, pp.pandapowerNet):
            continue
        row["buses"] = len(net.bus)
        row["flow"] = flow(net)
        row["optimum"] = optimum(net) if len(net.bus) <= BUSES else {}
        row["contingency"] = contingency(net) if len(net.bus) <= BUSES else {}
        rows.append(row)
        print("peers:", json.dumps(row, ensure_ascii=False), file=sys.stderr, flush=True)
    record = {
        "listing": "networks of pandapower", "device": f"{os.cpu_count()} CPUs, {os.uname().machine}", "commit": gpc.version()["commit"],
        "note": f"{pp.__version__}", "columns": ["network", "buses", "`runpp`, pu", "`grid.pf`, pu", "`runopp`, of the cost", "`grid.opf`, of the cost", "lines out: both, gpc alone, pandapower alone"],
        "rows": [cells(row) for row in rows if "buses" in row],
    }
    with open(a.out, "w", encoding="utf-8") as f:
        f.write(json.dumps(record, indent=1, ensure_ascii=False) + "\n")


def with_element(add):
    net = five()
    add(net)
    return net


if __name__ == "__main__":
    main()
