"""What the examples here do with a system: compile it, drive it from unseen starts, export it, and say how good it is."""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import tempfile
import time

import gpc
from gpc import traces


def main(system: gpc.System, episodes: int = 100) -> None:
    """The command line of an example."""
    parser = argparse.ArgumentParser(description=f"{system.name}: {system.description}")
    parser.add_argument("--budget", default="4m", help="time of the compilation, such as 90s or 4m")
    parser.add_argument("--out", default=f"out/{system.name}", help="folder to write; the same command goes on where it was interrupted")
    parser.add_argument("--target", type=float, default=0.5, help="mean cost above the optimum, %%")
    parser.add_argument("--episodes", type=int, default=episodes, help="unseen episodes to drive")
    parser.add_argument("--seed", type=int, default=2026, help="of these episodes")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.add_argument("--bench", action="store_true", help="print the numbers as a line of a benchmark, as lab/record keeps them")
    options = parser.parse_args()
    os.makedirs(options.out, exist_ok=True)
    system.save(os.path.join(options.out, f"{system.name}.json"))

    begun = time.perf_counter()
    controller = gpc.compile(system, os.path.join(options.out, f"{system.name}.safetensors"), target=options.target, budget=options.budget)
    result: dict[str, object] = {"system": system.name, "method": controller.report["test"]["method"], "compile_s": time.perf_counter() - begun}
    here, optima = driven(controller, options.episodes, options.seed)
    result |= here | in_c(controller, os.path.join(options.out, "c"), options.episodes, options.seed, optima)
    result["seconds"] = time.perf_counter() - begun
    if options.json:
        print(json.dumps(result))
        return
    if options.bench:
        numbers = " ".join(f"{float(v):g} {k}" for k, v in result.items() if isinstance(v, (int, float)))
        print(f"BenchmarkPythonSystem/{system.name}/{result['method']} 1 {numbers}")
        return
    print(controller)
    for key, value in result.items():
        print(f"  {key:<20} {value}")


def driven(controller: gpc.Controller, episodes: int, seed: int) -> tuple[dict[str, object], list[float | None]]:
    """Closed loops from unseen starts, and the optima from these."""
    with tempfile.TemporaryDirectory() as folder:
        trace = os.path.join(folder, "trace.jsonl")
        r = controller.evaluate(episodes=episodes, seed=seed, trace=trace, progress=False)
        optima = [end["oracle_cost"] for end in traces.read(trace).ends]
    return {
        "episodes": r["episodes"], "unsafe": r["episodes"] - round(r["safe"] * r["episodes"]), "regret_pct": r["regret_pct"], "regret_n": r["regret_n"],
        "decision_p50_us": r["latency_us"]["p50"], "decision_p99_us": r["latency_us"]["p99"],
    }, optima


def in_c(controller: gpc.Controller, folder: str, episodes: int, seed: int, optima: list[float | None]) -> dict[str, object]:
    """The whole controller as C99, compiled and driven there in the same episodes.

    c_regret_pct is what all of them cost above the sum of their optima: the C program prints its mean cost alone.
    """
    compiler = shutil.which(os.environ.get("CC", "cc"))
    if compiler is None:
        return {"c": "no C compiler: cc is not on PATH, and CC names none"}
    shutil.rmtree(folder, ignore_errors=True)
    exported = controller.export_c(folder, episodes=episodes, seed=seed)
    sources = sorted(f for f in os.listdir(folder) if f.endswith(".c"))
    subprocess.run([compiler, "-std=c99", "-O3", "-ffp-contract=off", "-o", "main_test", *sources, "-lm"], cwd=folder, check=True)
    run = subprocess.run([os.path.join(os.path.abspath(folder), "main_test")], stdout=subprocess.PIPE, text=True)
    said = dict(line.rsplit(" ", 1) for line in run.stdout.splitlines() if line.count(" ") == 1)
    known = [v for v in optima if v is not None]
    cost = float(said["mean_cost"]) * episodes
    return {
        "c_method": exported["method"], "c_episodes": int(said["episodes"]), "c_unsafe": int(said["unsafe"]), "c_unsafe_gpc": int(said["unsafe_gpc"]),
        "c_regret_pct": 100 * (cost / sum(known) - 1) if len(known) == episodes else None, "c_agrees": run.returncode == 0,
        "c_constant_bytes": exported["constant_bytes"], "c_operations": exported["operations"],
    }
