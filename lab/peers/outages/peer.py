#!/usr/bin/env python3
"""Outages of branches by lightsim2grid, for lab/peers/outages, which runs it.

    peer.py CASE.m TOLERANCE ITERATIONS

reads numbers of branches (rows from 0, all in one line), and for every further line solves these
outages once from the base voltages and answers with the CPU time in seconds and whether the first
call differs from those before. It ends with standard input; the voltages of the last round are
then written to the file in the environment variable VOLTAGES, by outage and bus, zero where there
are none.
"""
import os
import sys
import time
import warnings

import numpy as np

warnings.simplefilter("ignore")

import lightsim2grid  # noqa: E402
from lightsim2grid.contingencyAnalysis import ContingencyAnalysisCPP  # noqa: E402
from lightsim2grid.network import init_from_matpower  # noqa: E402
from matpowercaseframes import CaseFrames  # noqa: E402


def main():
    path, tolerance, iterations = sys.argv[1], float(sys.argv[2]), int(sys.argv[3])
    frames = CaseFrames(path)
    case = {"baseMVA": frames.baseMVA, **{k: np.asarray(getattr(frames, k), float) for k in ("bus", "gen", "branch")}}
    # Of several set-points of a bus the last counts, as there.
    units = case["gen"]
    last = {unit[0]: unit[5] for unit in units if unit[7] > 0}
    units[:, 5] = [last.get(unit[0], unit[5]) for unit in units]
    grid = init_from_matpower(case)
    bus, branch = case["bus"], case["branch"]
    start = bus[:, 7] * np.exp(1j * np.pi / 180 * bus[:, 8])
    base = grid.ac_pf(start, 30, tolerance)
    if len(base) != len(bus):
        sys.exit("peer: lightsim2grid has no power flow of the base")
    # Its branches are the lines in order, and then the transformers.
    transformer = (branch[:, 8] != 0) & (branch[:, 8] != 1) | (branch[:, 9] != 0)
    if len(grid.get_trafos()) != transformer.sum():
        transformer = (branch[:, 8] != 0) | (branch[:, 9] != 0)
    if len(grid.get_trafos()) != transformer.sum():
        sys.exit(f"peer: {len(grid.get_trafos())} transformers, the case has {transformer.sum()}")
    number = np.empty(len(branch), int)
    number[~transformer] = np.arange((~transformer).sum())
    number[transformer] = (~transformer).sum() + np.arange(transformer.sum())
    rows = [int(w) for w in sys.stdin.readline().split()]
    print(f"lightsim2grid {lightsim2grid.__version__}", flush=True)
    analysis = None
    for _ in sys.stdin:
        analysis = ContingencyAnalysisCPP(grid)
        analysis.nb_thread = 1
        for row in rows:
            analysis.add_n1(int(number[row]))
        clock = time.process_time()
        analysis.compute(base, iterations, tolerance)
        print(time.process_time() - clock, flush=True)
    # Its results are in the order of its own numbers.
    order = np.argsort(np.argsort(number[rows]))
    np.asarray(analysis.get_voltages(), complex)[order].tofile(os.environ["VOLTAGES"])


if __name__ == "__main__":
    main()
