"""The search of settings: search.py RESULTS, a device's folder of bench/results. The same command continues.

Each method has the same budget: one setting of the library's own, at three values, on its tasks, one training of
--interactions each with seed 90, which no other training has. Curves go to RESULTS/baselines/search/VALUE.

Of a training the mean over the last fifth of its evaluations counts. On each task a value's score is its excess of
the training's cost over the limit, as a share of the largest excess of the values, plus how far its return stays behind
the best one's, as a share of that one's size; the value with the least sum over the tasks is the method's. This was
fixed before any training was run.
"""

from __future__ import annotations

import argparse
import csv
import fnmatch
import pathlib
import signal
import sys

import numpy as np

import all as queue

SEED = 90
TASKS = ("point", "integrator-convex", "multiagent-static")
# Method: setting, values, tasks.
GRID = {
    "ppo-lagrangian": ("multiplier_lr", (0.035, 0.1, 0.35), TASKS),
    "cpo": ("steps_per_epoch", (2_000, 5_000, 20_000), TASKS),
}


def limit(task: str) -> float:
    return 10.0 if task == "point" else 0.0


def trainings(only: str):
    """(method, setting, value, task) in their order."""
    for method, (setting, values, tasks) in GRID.items():
        for task in tasks:
            for value in values:
                if fnmatch.fnmatch(f"{task}-{method}-{value}", only):
                    yield method, setting, value, task


def last(folder: pathlib.Path, method: str, value: float, task: str) -> dict[str, float] | None:
    """Interactions, CPU time, and the means of the last fifth of a training; None where it has not been run to its end."""
    path = folder / "search" / str(value) / f"{task}-{method}-{SEED}.csv"
    ended = queue.BUILD / "search" / str(value) / f"{task}-{method}-{SEED}"
    if not path.exists() or ended.exists() and not ended.with_name(ended.name + ".safetensors").exists():
        return None
    with path.open(newline="") as f:
        rows = [{k: float(v) for k, v in r.items()} for r in csv.DictReader(f)]
    behind = [r for r in rows if r["interactions"] >= 0.8 * rows[-1]["interactions"]]
    return {k: float(np.mean([r[k] for r in behind])) for k in ("return_mean", "cost_mean", "training_return", "training_cost")} | {
        "interactions": rows[-1]["interactions"], "cpu_seconds": rows[-1]["cpu_seconds"],
    }


def scores(found: dict[float, dict[str, float]], task: str) -> dict[float, float]:
    """The score of each value on a task; less is better."""
    excess = {value: max(0.0, r["training_cost"] - limit(task)) for value, r in found.items()}
    best = max(r["return_mean"] for r in found.values())
    return {value: excess[value] / max(max(excess.values()), 1e-12) + (best - r["return_mean"]) / max(abs(best), 1e-12) for value, r in found.items()}


def chosen(folder: pathlib.Path, method: str) -> float | None:
    """The value with the least sum of scores; None while a training is missing, or one had another budget."""
    _, values, tasks = GRID[method]
    total = dict.fromkeys(values, 0.0)
    for task in tasks:
        found = {value: last(folder, method, value, task) for value in values}
        if None in found.values() or min(r["interactions"] for r in found.values()) < 0.95 * max(r["interactions"] for r in found.values()):
            return None
        for value, score in scores(found, task).items():
            total[value] += score
    return min(total, key=total.get)


def main() -> int:
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("results", type=pathlib.Path)
    p.add_argument("--interactions", type=int, default=200_000)
    p.add_argument("--only", default="*", help="a glob of TASK-METHOD-VALUE")
    args = p.parse_args()
    signal.signal(signal.SIGTERM, queue.end)
    folder = args.results / "baselines"
    for method, setting, value, task in trainings(args.only):
        if last(folder, method, value, task):
            continue
        queue.run([
            sys.executable, queue.HERE / queue.SCRIPT[method], "--task", task, "--seed", str(SEED), "--interactions", str(args.interactions), "--set", f"{setting}={value}",
            "--actors", queue.BUILD / "search" / str(value), "--curves", folder / "search" / str(value),
        ])
        print(f"{task} {method} {setting} {value}: {last(folder, method, value, task)}", file=sys.stderr, flush=True)
    for method in GRID:
        print(f"{method} {GRID[method][0]}: {chosen(folder, method) or 'not all trainings have ended'}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
