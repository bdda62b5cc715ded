"""Every training of the baselines and what `gpc eval` says of their actors.

    all.py plan                       what there is to do, and how long it takes
    all.py train --jobs 2             trains what has no actor yet; the same command continues
    all.py evaluate RESULTS           runs every actor, behind the safeguard too, into RESULTS/baselines/evaluations.csv

RESULTS is a device's folder of bench/results. Curves go to RESULTS/baselines with `train --curves`.
"""

from __future__ import annotations

import argparse
import csv
import fnmatch
import json
import pathlib
import subprocess
import sys
import time

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent
BUILD = ROOT / "build" / "baselines"
SCRIPT = {"td3": "td3.py", "ppo": "ppo.py", "ppo-lagrangian": "ppo_lagrangian.py", "cpo": "cpo.py", "ppo-shielded": "ppo_shielded.py"}

# Interactions a CPU second, measured on a busy machine, for the forecast alone (docs/baselines.md).
RATE = {"td3": 270, "ppo": 2000, "ppo-lagrangian": 700, "cpo": 3000, "ppo-shielded": 2000}
# Pendulum-v1's TD3 has an update for each interaction.
SLOWER = {"opf30": 1.3, "pendulum": 4.0}

# Known answers first: task, method, seeds, interactions.
PLAN = [
    ("pendulum", "td3", 3, 20_000), ("pendulum", "ppo", 3, 100_000), ("point", "cpo", 3, 1_000_000), ("point", "ppo-lagrangian", 3, 1_000_000),
    *((case, method, 3, 1_000_000) for case in ("integrator-convex", "integrator-nonconvex") for method in ("td3", "cpo")),
    *(("opf30", method, 1, 1_000_000) for method in ("td3", "cpo")),
    *((case, method, 3, 1_000_000) for case in ("multiagent-static", "multiagent-moving") for method in ("ppo", "ppo-lagrangian", "cpo", "ppo-shielded")),
]

# Episodes, seed and regimes of an evaluation: those of the records of the other methods (scripts/results*.sh). An
# actor of the nominal network runs on the uncertain one too.
EVALUATE = {
    "integrator-convex": (200, 7, [""]), "integrator-nonconvex": (200, 7, [""]), "multiagent-static": (100, 13, [""]), "multiagent-moving": (100, 13, [""]),
    "opf30": (20, 11, ["paper", "envelope"]), "opf30-uncertain": (20, 11, ["paper", "envelope"]),
}
COLUMNS = [
    "case", "regime", "method", "training_seed", "interactions", "episodes", "seed", "safe", "safe_lo", "safe_hi", "collision_free", "reached", "feasible", "decisions",
    "violations", "fallback", "regret_pct", "regret_sem_pct", "gap_pct", "regret_n", "cost_mean", "margin_mean", "p50_us", "p99_us", "model_sha256", "commit", "device",
]


def trainings(only: str):
    """(task, method, seed, interactions) in their order, seeds side by side last."""
    for task, method, seeds, interactions in PLAN:
        for seed in range(1, seeds + 1):
            if fnmatch.fnmatch(f"{task}-{method}-{seed}", only):
                yield task, method, seed, interactions


def actor(task: str, method: str, seed: int) -> pathlib.Path:
    return BUILD / f"{task}-{method}-{seed}.safetensors"


def forecast(task: str, method: str, interactions: int) -> float:
    """Seconds of one training."""
    return interactions * SLOWER.get(task, 1.0) / RATE[method]


def train(args: argparse.Namespace) -> int:
    todo = [t for t in trainings(args.only) if not actor(*t[:3]).exists()]
    total = len(list(trainings(args.only)))
    begun, spent, expected, failed = time.monotonic(), 0.0, 0.0, []
    running: dict[subprocess.Popen, tuple] = {}
    BUILD.mkdir(parents=True, exist_ok=True)
    try:
        while todo or running:
            while todo and len(running) < args.jobs:
                t = todo.pop(0)
                task, method, seed, interactions = t
                with (BUILD / f"{task}-{method}-{seed}.log").open("a") as log:
                    p = subprocess.Popen(
                        [sys.executable, HERE / SCRIPT[method], "--task", task, "--seed", str(seed), "--interactions", str(min(interactions, args.interactions or interactions)),
                         "--actors", BUILD, "--curves", args.curves], stderr=log, stdout=log)
                running[p] = (t, time.monotonic())
            time.sleep(1)
            for p in [p for p in running if p.poll() is not None]:
                t, since = running.pop(p)
                spent, expected = spent + time.monotonic() - since, expected + forecast(t[0], t[1], t[3])
                if p.returncode:
                    failed.append(t)
                left = sum(forecast(u[0], u[1], u[3]) for u in todo + [u for u, _ in running.values()]) * spent / expected / args.jobs
                print(f"{total - len(todo) - len(running)} of {total}: {t[0]} {t[1]} {t[2]} {'FAILED' if p.returncode else 'done'} in {(time.monotonic() - since) / 60:.1f} min; "
                      f"{(time.monotonic() - begun) / 3600:.1f} h so far, about {left / 3600:.1f} h left", file=sys.stderr, flush=True)
    finally:
        for p in running:  # each saves itself
            p.terminate()
        for p in running:
            p.wait()
    for t in failed:
        print(f"failed: {t}: see {BUILD}/{t[0]}-{t[1]}-{t[2]}.log", file=sys.stderr)
    return bool(failed)


def evaluate(args: argparse.Namespace) -> int:
    path = args.results / "baselines" / "evaluations.csv"
    path.parent.mkdir(parents=True, exist_ok=True)
    rows = list(csv.DictReader(path.open(newline=""))) if path.exists() else []
    have = {(r["case"], r["regime"], r["method"], r["training_seed"]) for r in rows}
    for task, method, seed, interactions in trainings(args.only):
        file = actor(task, method, seed)
        if task not in EVALUATE or not file.exists():
            continue
        for case in [task, "opf30-uncertain"] if task == "opf30" else [task]:
            episodes, evaluation_seed, regimes = EVALUATE[case]
            for regime in regimes:
                for name in [method] if method == "ppo-shielded" else [method, method + "+safeguard"]:
                    if (case, regime, name, str(seed)) in have:
                        continue
                    command = [args.gpc, "eval", case, "--method", name, "--model", file, "--episodes", str(args.episodes or episodes), "--seed", str(evaluation_seed), "--json"]
                    out = subprocess.run([*command, *(["--regime", regime] if regime else [])], stdout=subprocess.PIPE, check=True).stdout
                    r = json.loads(out)
                    rows.append({
                        "case": case, "regime": regime, "method": name, "training_seed": str(seed), "interactions": interactions, "episodes": r["episodes"], "seed": r["seed"],
                        "safe": r["safe"], "safe_lo": r["ci95"]["safe"][0], "safe_hi": r["ci95"]["safe"][1], "p50_us": r["latency_us"]["p50"], "p99_us": r["latency_us"]["p99"],
                        **{k: r.get(k) for k in COLUMNS if k in r},
                    })
                    with path.open("w", newline="") as f:
                        w = csv.DictWriter(f, COLUMNS, extrasaction="ignore", restval="")
                        w.writeheader()
                        w.writerows(rows)
                    # The first seed's record stands in every table of the case.
                    if seed == 1:
                        (args.results / ("-".join(filter(None, (case, regime, name))) + ".json")).write_bytes(out)
                    print(f"{case} {regime} {name} {seed}: safe {r['safe']:.3f}", file=sys.stderr, flush=True)
    return 0


def plan(args: argparse.Namespace) -> int:
    seconds = 0.0
    for t in trainings(args.only):
        have = actor(*t[:3]).exists()
        seconds += 0 if have else forecast(t[0], t[1], t[3])
        print(f"{t[0]:22} {t[1]:15} seed {t[2]} {t[3]:>9} interactions, {'done' if have else f'{forecast(t[0], t[1], t[3]) / 60:.0f} min'}")
    print(f"{seconds / 3600 / args.jobs:.1f} h with {args.jobs} side by side")
    return 0


def main() -> int:
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = p.add_subparsers(required=True)
    for name, f in (("plan", plan), ("train", train), ("evaluate", evaluate)):
        c = commands.add_parser(name)
        c.set_defaults(run=f)
        c.add_argument("--only", default="*", help="a glob of TASK-METHOD-SEED")
        if name != "evaluate":
            c.add_argument("--jobs", type=int, default=2)
        if name == "train":
            c.add_argument("--curves", type=pathlib.Path, default=BUILD / "curves")
            c.add_argument("--interactions", type=int, help="at most so many, for a trial")
        if name == "evaluate":
            c.add_argument("results", type=pathlib.Path)
            c.add_argument("--gpc", type=pathlib.Path, default=ROOT / "bin" / "gpc")
            c.add_argument("--episodes", type=int)
    args = p.parse_args()
    return args.run(args)


if __name__ == "__main__":
    sys.exit(main())
