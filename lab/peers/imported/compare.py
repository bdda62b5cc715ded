"""Models of do-mpc and acados taken from CasADi, compiled, and driven beside IPOPT, which is do-mpc's own solver:

    compare.py [--budget 4m] [--episodes 50] [--seed 2026] [--only NAME] [--out out/imported]

Every controller begins at the same starts, has the same preference, plant and limits, and plans to the end of the episode: the compiled map by the
method that its compilation chose, gpc's exact solver, and IPOPT by multiple shooting from the plan before, at its default tolerance. Costs are
above the optimum that gpc finds for the whole episode. Times are those of decisions on one thread, by the clock. acados, whose solver would
stand beside its models, is no package of PyPI, so that IPOPT stands there too.

Prints a line of a benchmark for each controller, as lab/record keeps them.
"""

import argparse
import os
import tempfile
import time

import casadi as ca
import models
import numpy as np

import gpc
from gpc import traces

WEIGHTS = [0.6, 0.4]
TOLERANCE = 1e-6  # of a margin, as IPOPT keeps it


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--budget", default="4m", help="time of a compilation")
    parser.add_argument("--episodes", type=int, default=50, help="starts")
    parser.add_argument("--seed", type=int, default=2026, help="of the starts")
    parser.add_argument("--only", default="", help="one of the models, by name")
    parser.add_argument("--out", default="out/imported", help="folder of the maps; the same command goes on with those that are there")
    options = parser.parse_args()
    os.makedirs(options.out, exist_ok=True)
    for make in (models.cstr, models.pendulum, models.chain):
        case = make()
        if options.only in ("", case.system.name):
            compare(case, options)


def compare(case, options):
    """All controllers of one model."""
    with gpc.compile(case.system, os.path.join(options.out, f"{case.system.name}.safetensors"), budget=options.budget, threads=1) as compiled:
        method = compiled.report["test"]["method"]
        scenes, optima = driven(case, method, compiled, options)
    with gpc.nmpc(case.system, threads=1) as exact:
        driven(case, "nmpc", exact, options)
    costs, unsafe, times, failed = ipopt(case, [scene["s"] for scene in scenes])
    say(case, "ipopt", costs, optima, unsafe, *np.percentile(times, [50, 99]), unsolved=failed)


def driven(case, method, controller, options):
    """Closed loops of ours: their starts and the optima from there."""
    with tempfile.TemporaryDirectory() as folder:
        file = os.path.join(folder, "trace.jsonl")
        r = controller.evaluate(episodes=options.episodes, seed=options.seed, preference=WEIGHTS, trace=file, progress=False)
        trace = traces.read(file)
    optima = [end["oracle_cost"] for end in trace.ends]
    say(case, method, [end["cost"] for end in trace.ends], optima, sum(not end["safe"] for end in trace.ends), r["latency_us"]["p50"], r["latency_us"]["p99"])
    return trace.scenes, optima


def ipopt(case, starts):
    """The same loops by IPOPT: costs, unsafe episodes, times of decisions, decisions without an optimum."""
    steps, F, nu = case.options["steps"], case.step(), len(case.options["action"])
    programs = [case.program(left, WEIGHTS) for left in range(1, steps + 1)]
    costs, unsafe, times, failed = [], 0, [], 0
    for start in starts:
        x, plan, cost, safe = ca.DM(start), case.rested(start, steps), 0.0, True
        for t in range(steps):
            solver, bounds = programs[steps - t - 1]
            begun = time.perf_counter()
            plan = solver(x0=plan, p=x, **bounds)["x"].full().ravel()
            times.append(1e6 * (time.perf_counter() - begun))
            failed += not solver.stats()["success"]
            u, plan = plan[:nu], plan[nu + len(start):]
            y = F(x, u)
            j = case.objectives(ca.vertsplit(x), list(u), ca.vertsplit(y))
            cost += float(WEIGHTS[0] * j[0] + WEIGHTS[1] * j[1])
            safe = safe and all(float(m) >= -TOLERANCE for m in case.margins(y))
            x = y
        costs.append(cost)
        unsafe += not safe
    return costs, unsafe, times, failed


def say(case, method, costs, optima, unsafe, p50, p99, unsolved=None):
    above = [100 * (cost - best) / abs(best) for cost, best in zip(costs, optima, strict=True) if best is not None]
    extra = "" if unsolved is None else f" {unsolved} unsolved"
    print(f"BenchmarkImported/{case.system.name}/{method} 1 {len(costs)} episodes {unsafe} unsafe {np.mean(costs):.9g} mean_cost {np.mean(above):.6g} above_% {len(above)} above_n {p50:.4g} p50_us {p99:.4g} p99_us{extra}", flush=True)


if __name__ == "__main__":
    main()
