"""Every training of the baselines, and what `gpc eval` says of their actors.

    all.py plan RESULTS               what there is to do, and how long it takes
    all.py train RESULTS --jobs 2     trains what has no actor yet; the same command continues
    all.py evaluate RESULTS           runs every actor, behind the safeguard too
    all.py cost RESULTS               measures the CPU time of 10 000 interactions of each
    all.py publish                    copies the first seed's actors to lab/baselines/actors, which is committed

Actors are those of build/baselines, and of lab/baselines/actors where there is none.

RESULTS is a device's folder of lab/results. Curves go to RESULTS/baselines, costs to RESULTS/baselines/cost.csv. An
evaluation goes where the other methods of its case are recorded, RESULTS or a folder beside it: its record among theirs, a
line into baselines/evaluations.csv there. The first seed of every training comes before any second one.
"""

from __future__ import annotations

import argparse
import csv
import fnmatch
import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
BUILD = ROOT / "build" / "baselines"
PUBLISHED = HERE / "actors"
# Of all that is published, bytes: report/trainings_test.go holds the folder to it.
PUBLISHED_LIMIT = 2_000_000
SCRIPT = {"td3": "td3.py", "ppo": "ppo.py", "ppo-lagrangian": "ppo_lagrangian.py", "cpo": "cpo.py", "ppo-shielded": "ppo_shielded.py", "td3-penalty": "td3_penalty.py"}

# Task, method, seeds, interactions: known answers first, then what takes the least time.
PLAN = [
    ("pendulum", "ppo", 3, 100_000), ("pendulum", "td3", 3, 20_000), ("point", "cpo", 3, 1_000_000), ("point", "ppo-lagrangian", 3, 1_000_000),
    ("integrator-convex", "cpo", 3, 1_000_000), ("integrator-nonconvex", "cpo", 3, 1_000_000), ("opf30", "cpo", 3, 1_000_000),
    *((case, method, 3, 1_000_000) for method in ("cpo", "ppo-lagrangian", "ppo", "ppo-shielded") for case in ("multiagent-static", "multiagent-moving")),
    ("integrator-convex", "td3", 3, 1_000_000), ("opf30", "td3", 3, 1_000_000), ("integrator-nonconvex", "td3", 3, 1_000_000),
    ("integrator-convex", "td3-penalty", 1, 1_000_000),
]

# Episodes, seed and regimes of an evaluation: those of the records of the other methods (lab/scripts/results*.sh). An
# actor of the nominal network runs on the uncertain one too.
EVALUATE = {
    "integrator-convex": (200, 7, [""]), "integrator-nonconvex": (200, 7, [""]), "multiagent-static": (100, 13, [""]), "multiagent-moving": (100, 13, [""]),
    "opf30": (20, 11, ["paper", "envelope"]), "opf30-uncertain": (20, 11, ["paper", "envelope"]),
}
COLUMNS = [
    "case", "regime", "method", "training_seed", "training_seeds", "interactions", "episodes", "seed", "safe", "safe_lo", "safe_hi", "collision_free", "reached", "feasible",
    "decisions", "violations", "fallback", "regret_pct", "regret_sem_pct", "gap_pct", "regret_n", "cost_mean", "margin_mean", "p50_us", "p99_us", "model_sha256", "commit",
    "device",
]


def trainings(only: str, seeds: list[int]):
    """(task, method, seed, interactions) in their order: every first seed, then every second."""
    for seed in seeds:
        for task, method, count, interactions in PLAN:
            if seed <= count and fnmatch.fnmatch(f"{task}-{method}-{seed}", only):
                yield task, method, seed, interactions


def actor(task: str, method: str, seed: int) -> pathlib.Path:
    return BUILD / f"{task}-{method}-{seed}.safetensors"


def found(task: str, method: str, seed: int) -> pathlib.Path | None:
    """The actor that was trained here, or else the one that is committed."""
    own = actor(task, method, seed)
    return next((f for f in (own, PUBLISHED / own.name) if f.exists()), None)


def read(path: pathlib.Path) -> list[dict]:
    if not path.exists():
        return []
    with path.open(newline="") as f:
        return list(csv.DictReader(f))


def write(path: pathlib.Path, columns: list[str], rows: list[dict]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    new = path.with_name(path.name + ".new")
    with new.open("w", newline="") as f:
        w = csv.DictWriter(f, columns, extrasaction="ignore", restval="")
        w.writeheader()
        w.writerows(rows)
    os.replace(new, path)


def seconds(results: pathlib.Path) -> dict[tuple[str, str], float]:
    """CPU seconds of 10 000 interactions by task and method, as recorded."""
    return {(r["task"], r["method"]): float(r["cpu_seconds_per_10000"]) for r in read(results / "baselines" / "cost.csv")}


def end(*_: object) -> None:
    """Ends the program with what it has begun: trainings save themselves."""
    sys.exit(130)


def run(command: list) -> None:
    """Runs a training, which ends with this program."""
    p = subprocess.Popen(command)
    try:
        if p.wait():
            sys.exit(p.returncode)
    finally:
        p.terminate()
        p.wait()


def train(args: argparse.Namespace) -> int:
    rate = seconds(args.results)
    forecast = lambda t: rate.get(t[:2], 0) * t[3] / 10_000
    todo = [t for t in trainings(args.only, args.seeds) if not actor(*t[:3]).exists()]
    total = len(todo)
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
                         "--actors", BUILD, "--curves", args.results / "baselines"], stderr=log, stdout=log)
                running[p] = (t, time.monotonic())
            time.sleep(1)
            for p in [p for p in running if p.poll() is not None]:
                t, since = running.pop(p)
                took = time.monotonic() - since
                spent, expected = spent + took, expected + forecast(t)
                if p.returncode:
                    failed.append(t)
                left = sum(forecast(u) for u in todo + [u for u, _ in running.values()]) / args.jobs * (spent / expected if expected else 1)
                print(f"{total - len(todo) - len(running)} of {total}: {t[0]} {t[1]} {t[2]} {'FAILED' if p.returncode else 'done'} in {took / 60:.1f} min; "
                      f"{(time.monotonic() - begun) / 3600:.1f} h so far, about {left / 3600:.1f} h left", file=sys.stderr, flush=True)
    finally:
        for p in running:  # each saves itself
            p.terminate()
        for p in running:
            p.wait()
    for t in failed:
        print(f"failed: {t}: see {BUILD}/{t[0]}-{t[1]}-{t[2]}.log", file=sys.stderr)
    return bool(failed)


def recorded(results: pathlib.Path, case: str) -> pathlib.Path:
    """The folder that the tables show a case from: the first beside RESULTS with a record of its navigator."""
    folders = [f for f in sorted(results.resolve().parent.iterdir()) if any((f / f"{case}-{name}.json").exists() for name in ("navigator", "paper-navigator", "planner"))]
    return folders[0] if folders else results


def seeds_planned(task: str, method: str) -> int:
    return next(p[2] for p in PLAN if p[:2] == (task, method))


def replan(path: pathlib.Path) -> None:
    """Rows of an earlier plan say how many seeds the present one has."""
    rows, before = read(path), path.read_text() if path.exists() else ""
    for r in rows:
        r["training_seeds"] = seeds_planned(r["case"].removesuffix("-uncertain"), r["method"].removesuffix("+safeguard"))
    if rows:
        write(path, COLUMNS, rows)
        print(f"{path}: {'as it was' if path.read_text() == before else 'other numbers of seeds'}", file=sys.stderr)


def evaluate(args: argparse.Namespace) -> int:
    for path in args.results.resolve().parent.glob("*/baselines/evaluations.csv"):
        replan(path)
    for task, method, seed, interactions in trainings(args.only, args.seeds):
        file = found(task, method, seed)
        if task not in EVALUATE or file is None:
            continue
        for case in [task, "opf30-uncertain"] if task == "opf30" else [task]:
            episodes, evaluation_seed, regimes = EVALUATE[case]
            folder = recorded(args.results, case)
            for regime in regimes:
                for name in [method] if method == "ppo-shielded" else [method, method + "+safeguard"]:
                    path = folder / "baselines" / "evaluations.csv"
                    rows = read(path)
                    same = [r for r in rows if (r["case"], r["regime"], r["method"]) == (case, regime, name)]
                    if str(seed) in [r["training_seed"] for r in same]:
                        continue
                    command = [args.gpc, "eval", case, "--method", name, "--model", file, "--episodes", str(args.episodes or episodes), "--seed", str(evaluation_seed), "--threads", "1", "--json"]
                    out = subprocess.run([*command, *(["--regime", regime] if regime else [])], stdout=subprocess.PIPE, check=True).stdout
                    r = json.loads(out)
                    rows.append({
                        "case": case, "regime": regime, "method": name, "training_seed": seed, "training_seeds": seeds_planned(task, method),
                        "interactions": interactions, "safe_lo": r["ci95"]["safe"][0], "safe_hi": r["ci95"]["safe"][1], "p50_us": r["latency_us"]["p50"],
                        "p99_us": r["latency_us"]["p99"], **{k: r.get(k) for k in COLUMNS if k in r},
                    })
                    # The record of the first seed that is there stands in every table of the case.
                    if all(seed < int(s["training_seed"]) for s in same):
                        (folder / ("-".join(filter(None, (case, regime, name))) + ".json")).write_bytes(out)
                    write(path, COLUMNS, rows)
                    print(f"{case} {regime} {name} {seed}: safe {r['safe']:.3f}", file=sys.stderr, flush=True)
    return 0


def publish(args: argparse.Namespace) -> int:
    """The actors of the cases, which are what the records of the tables are of."""
    files = [f for task, method, seed, _ in trainings(args.only, [1]) if task in EVALUATE and (f := actor(task, method, seed)).exists()]
    kept = [f for f in PUBLISHED.glob("*.safetensors") if f.name not in {f.name for f in files}]
    size = sum(f.stat().st_size for f in files + kept)
    if size > PUBLISHED_LIMIT:
        print(f"{len(files + kept)} actors have {size} bytes, want at most {PUBLISHED_LIMIT}", file=sys.stderr)
        return 1
    PUBLISHED.mkdir(exist_ok=True)
    for f in files:
        shutil.copy(f, PUBLISHED)
    print(f"{len(files)} actors copied to {PUBLISHED}, which has {size} bytes", file=sys.stderr)
    return 0


def cost(args: argparse.Namespace) -> int:
    """Of each task and method, between the first and the last evaluation behind 10 000 interactions, one of which is in it."""
    path = args.results / "baselines" / "cost.csv"
    for task, method, _, _ in trainings(args.only, [1]):
        with tempfile.TemporaryDirectory() as folder:
            run([sys.executable, HERE / SCRIPT[method], "--task", task, "--interactions", "30000", "--every", "10000", "--actors", folder, "--curves", folder])
            curve = read(pathlib.Path(folder) / f"{task}-{method}-1.csv")
        first, last = next((r for r in curve if int(r["interactions"]) >= 10_000 and r is not curve[-1]), curve[0]), curve[-1]
        rate = (float(last["cpu_seconds"]) - float(first["cpu_seconds"])) / (int(last["interactions"]) - int(first["interactions"])) * 1e4
        rows = [r for r in read(path) if (r["task"], r["method"]) != (task, method)]
        write(path, ["task", "method", "cpu_seconds_per_10000"], [*rows, {"task": task, "method": method, "cpu_seconds_per_10000": f"{rate:.3g}"}])
        print(f"{task} {method}: {rate:.3g} CPU s for 10 000 interactions", file=sys.stderr, flush=True)
    return 0


def plan(args: argparse.Namespace) -> int:
    rate, left = seconds(args.results), 0.0
    for t in trainings(args.only, args.seeds):
        done, forecast = actor(*t[:3]).exists(), rate.get(t[:2], 0) * t[3] / 10_000
        left += 0 if done else forecast
        print(f"{t[0]:22} {t[1]:15} seed {t[2]} {t[3]:>9} interactions, {'done' if done else f'{forecast / 60:.1f} min of CPU time' if forecast else 'its cost is not recorded'}")
    print(f"{left / 3600:.1f} h of CPU time are left")
    return 0


def main() -> int:
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = p.add_subparsers(required=True)
    for name, f in (("plan", plan), ("train", train), ("evaluate", evaluate), ("cost", cost), ("publish", publish)):
        c = commands.add_parser(name)
        c.set_defaults(run=f)
        c.add_argument("--only", default="*", help="a glob of TASK-METHOD-SEED")
        if name == "publish":
            continue
        c.add_argument("results", type=pathlib.Path)
        if name != "cost":
            c.add_argument("--seeds", type=lambda text: sorted({int(s) for s in text.split(",")}), default=[1, 2, 3], help="1,2,…")
        if name == "train":
            c.add_argument("--jobs", type=int, default=2)
            c.add_argument("--interactions", type=int, help="at most so many, for a trial")
        if name == "evaluate":
            c.add_argument("--gpc", type=pathlib.Path, default=ROOT / "bin" / "gpc")
            c.add_argument("--episodes", type=int)
    args = p.parse_args()
    signal.signal(signal.SIGTERM, end)
    return args.run(args)


if __name__ == "__main__":
    sys.exit(main())
