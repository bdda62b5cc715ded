"""The search of settings: search.py RESULTS, a device's folder of lab/results. The same command continues.

Each method has the same budget: one setting, at the library's own value and two others, on three tasks, one training of
--interactions each with seed 90, which no other training has. Curves go to RESULTS/baselines/search/VALUE. Behind the shield
PPO has what is chosen for PPO.

Of a training the mean over the last fifth of its evaluations counts. On each task a value's score is its excess of
the training's cost over the limit, as a share of the largest excess of the values, plus how far its return stays behind
the best one's, as a share of that one's size; the value with the least sum over the tasks is the method's. TD3 and PPO,
which do not know of the cost, have no limit: theirs is the return alone. This was fixed before any training was run.
"""

from __future__ import annotations

import argparse
import csv
import fnmatch
import math
import pathlib
import signal
import sys

import numpy as np

import all as queue
import point

SEED = 90
INTERACTIONS = 200_000
TASKS = ("point", "integrator-convex", "multiagent-static")
# Method: setting, values, tasks: the known answer, then of Case 1, and of a case that the method is for.
GRID = {
    "ppo-lagrangian": ("multiplier_lr", (0.035, 0.1, 0.35), TASKS),
    "cpo": ("steps_per_epoch", (2_000, 5_000, 20_000), TASKS),
    "ppo": ("learning_rate", (1e-4, 3e-4, 1e-3), TASKS),
    "td3": ("learning_rate", (3e-4, 1e-3, 3e-3), ("point", "integrator-convex", "opf30")),
}


def limit(method: str, task: str) -> float:
    """Of the cost of an episode; infinite for a method that does not know of it."""
    if method in ("td3", "ppo"):
        return math.inf
    return point.LIMIT if task == "point" else 0.0


def forecast(results: pathlib.Path, method: str, task: str) -> float | None:
    """CPU seconds of a training by cost.csv: where the task is not in it, as the dearest of the method's that are."""
    rate = queue.seconds(results)
    of_method = [r for (_, m), r in rate.items() if m == method]
    return rate.get((task, method), max(of_method)) * INTERACTIONS / 10_000 if of_method else None


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


def scores(found: dict[float, dict[str, float]], method: str, task: str) -> dict[float, float]:
    """The score of each value on a task; less is better."""
    excess = {value: max(0.0, r["training_cost"] - limit(method, task)) for value, r in found.items()}
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
        for value, score in scores(found, method, task).items():
            total[value] += score
    return min(total, key=total.get)


def main() -> int:
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("results", type=pathlib.Path)
    p.add_argument("--interactions", type=int, default=INTERACTIONS)
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
