#!/usr/bin/env python3
"""Compares gpc.pandapower with pandapower: results and times, on pandapower's own networks.

    compare.py --out peers-pandapower.json [--rounds 7] [--networks case9,case30]

Every network is solved by both, runpp and, where pandapower's own converges from a flat start
or from its power flow, runopp; the largest difference of every result table's every column is
taken, and no row may be missing. Where pandapower finds no optimum it is said what ours
comes to. Times are of whole calls, by CPU time of this process; the programs take turns, and the least
of the rounds counts. Of ours the solve alone is given besides: the rest is pandapower's
conversion and its result tables, which both do. `make docs` writes the tables of docs/results/pandapower.md
from a record in lab/results.
"""
import argparse
import copy
import json
import os
import sys
import time
import warnings

import numpy as np

warnings.simplefilter("ignore")

import pandapower as pp  # noqa: E402
import pandapower.networks as pn  # noqa: E402

import gpc  # noqa: E402
import gpc.pandapower as gp  # noqa: E402

NETWORKS = {
    "case9": pn.case9,
    "case14": pn.case14,
    "case30": pn.case30,
    "case39": pn.case39,
    "case118": pn.case118,
    "case300": pn.case300,
    "case1354pegase": pn.case1354pegase,
    "example_multivoltage": pn.example_multivoltage,
    "mv_oberrhein": pn.mv_oberrhein,
    "create_cigre_network_mv": lambda: pn.create_cigre_network_mv(with_der="all"),
}


def arguments():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--out", required=True, help="file for the record")
    p.add_argument("--rounds", type=int, default=7)
    p.add_argument("--networks", default="", help="names separated by commas (default: all)")
    p.add_argument("--numba", action="store_true", help="let pandapower use numba, where it is installed")
    return p.parse_args()


def tables(net):
    return {name: net[name] for name in net if name.startswith("res_") and hasattr(net[name], "columns") and len(net[name])}


def differences(ours, theirs):
    """The largest absolute difference of each column of each result table."""
    a, b = tables(ours), tables(theirs)
    if a.keys() != b.keys():
        raise SystemExit(f"peers: tables {sorted(a.keys() ^ b.keys())} are of one of the two alone")
    out = {}
    for name in a:
        if list(a[name].columns) != list(b[name].columns) or not a[name].index.equals(b[name].index):
            raise SystemExit(f"peers: {name} has other rows or columns")
        x, y = a[name].to_numpy(float), b[name].to_numpy(float)
        if (np.isnan(x) != np.isnan(y)).any():
            raise SystemExit(f"peers: {name} has NaN in other places")
        for k, column in enumerate(a[name].columns):
            d = np.nanmax(np.abs(x[:, k] - y[:, k])) if (~np.isnan(x[:, k])).any() else 0.0
            out[f"{name[4:]}.{column}"] = float(d)
    return out


def kinds(found, names):
    """The largest difference of the columns of a kind."""
    return max((v for k, v in found.items() if k.split(".")[1] in names), default=0.0)


POWERS = {"p_mw", "q_mvar", "p_from_mw", "q_from_mvar", "p_to_mw", "q_to_mvar", "pl_mw", "ql_mvar", "p_hv_mw", "q_hv_mvar", "p_mv_mw", "q_mv_mvar", "p_lv_mw", "q_lv_mvar"}


def solve(f, net, **kwargs):
    net = copy.deepcopy(net)
    start = time.process_time()
    f(net, **kwargs)
    return net, time.process_time() - start


def attempt(f, net, keywords):
    """The first solution of several ways to ask, with the way; None with what was raised."""
    for keyword in keywords:
        try:
            return solve(f, net, **keyword)[0], keyword
        except Exception as e:
            failed = f"{type(e).__name__}: {e}"
    return None, failed


def compare(name, op, net, ours, theirs, keywords, a):
    """One row of the record."""
    want, keyword = attempt(theirs, net, keywords)
    if want is None:
        got, failed = attempt(ours, net, [{}])
        return {"network": name, "op": op, "buses": len(net.bus), "peer_failed": keyword, "ours_failed": failed if got is None else "", "cost": None if got is None else float(got.res_cost)}
    got, _ = solve(ours, net)
    found = differences(got, want)
    row = {"network": name, "op": op, "buses": len(net.bus), "peer_init": keyword.get("init", ""), "voltage_pu": kinds(found, {"vm_pu"}), "angle_deg": kinds(found, {"va_degree"}),
           "power_mw": kinds(found, POWERS), "loading_pct": kinds(found, {"loading_percent"})}
    if op == "runopp":
        row["cost"], row["peer_cost"] = float(got.res_cost), float(want.res_cost)
        row["cost_relative"] = abs(row["cost"] - row["peer_cost"]) / max(1.0, abs(row["peer_cost"]))
    times, peer, inner = [], [], []
    for _ in range(a.rounds):
        solved, t = solve(ours, net)
        times.append(t)
        inner.append((solved._ppc if op == "runpp" else solved._ppc_opf)["gpc"]["solve_s"])
        peer.append(solve(theirs, net, **keyword)[1])
    each = [p / t for p, t in zip(peer, times)]
    row.update(ours_ms=1e3 * min(times), peer_ms=1e3 * min(peer), solve_ms=1e3 * min(inner), ratio=min(peer) / min(times), lo=min(each), hi=max(each))
    return row


def main():
    a = arguments()
    rows = []
    for name in a.networks.split(",") if a.networks else NETWORKS:
        net = NETWORKS[name]()
        for op, ours, theirs, keywords in (
            ("runpp", gp.runpp, pp.runpp, [{"numba": a.numba}]),
            ("runopp", gp.runopp, pp.runopp, [{"numba": a.numba, "init": init} for init in ("flat", "pf")]),
        ):
            row = compare(name, op, net, ours, theirs, keywords, a)
            rows.append(row)
            print("peers:", json.dumps(row, ensure_ascii=False), file=sys.stderr)
    # Where the record goes is of this machine.
    command = [w for i, w in enumerate(sys.argv) if not w.startswith("--out") and sys.argv[i - 1] != "--out"]
    record = {
        "device": f"{os.cpu_count()} CPUs, {os.uname().machine}", "commit": gpc.version()["commit"], "command": " ".join(command),
        "peer": f"pandapower {pp.__version__}", "numba": a.numba, "rounds": a.rounds, "load_average": os.getloadavg()[2], "rows": rows,
        "note": "One run; programs take turns; CPU times of whole calls, the least of the rounds; the solve by the clock. Differences are the largest of all elements and tables.",
    }
    text = json.dumps(record, indent=1, ensure_ascii=False, allow_nan=False) + "\n"
    with open(a.out, "w", encoding="utf-8") as f:
        f.write(text)


if __name__ == "__main__":
    main()
