"""What the examples here do with a system: compile it, drive it from unseen starts, export it, and say how good it is."""

from __future__ import annotations

import argparse
import json
import os
import time

import gpc


def main(system: gpc.System, episodes: int = 100) -> None:
    """The command line of an example."""
    parser = argparse.ArgumentParser(description=f"{system.name}: {system.description}")
    parser.add_argument("--budget", default="4m", help="time of the compilation, such as 90s or 4m")
    parser.add_argument("--out", default=f"out/{system.name}", help="folder to write; the same command goes on where it was interrupted")
    parser.add_argument("--target", type=float, default=0.5, help="mean cost above the optimum, %%")
    parser.add_argument("--episodes", type=int, default=episodes, help="unseen episodes to drive")
    parser.add_argument("--seed", type=int, default=2026, help="of these episodes")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    options = parser.parse_args()
    os.makedirs(options.out, exist_ok=True)
    system.save(os.path.join(options.out, f"{system.name}.json"))

    begun = time.perf_counter()
    controller = gpc.compile(system, os.path.join(options.out, f"{system.name}.safetensors"), target=options.target, budget=options.budget)
    result = {"system": system.name, "method": controller.report["test"]["method"], "compile_s": time.perf_counter() - begun}
    result |= driven(controller, options.episodes, options.seed)
    result |= exported(controller, os.path.join(options.out, "c"))
    if options.json:
        print(json.dumps(result))
        return
    print(controller)
    for key, value in result.items():
        print(f"  {key:<20} {value}")


def driven(controller: gpc.Controller, episodes: int, seed: int) -> dict[str, object]:
    """Closed loops from unseen starts."""
    r = controller.evaluate(episodes=episodes, seed=seed, progress=False)
    return {
        "episodes": r["episodes"], "unsafe": r["episodes"] - round(r["safe"] * r["episodes"]), "regret_pct": r["regret_pct"], "regret_n": r["regret_n"],
        "decision_p50_us": r["latency_us"]["p50"], "decision_p99_us": r["latency_us"]["p99"],
    }


def exported(controller: gpc.Controller, folder: str) -> dict[str, object]:
    """The map as C: what the method direct decides before its projection (docs/export.md)."""
    if os.path.exists(os.path.join(folder, "Makefile")) or os.path.isdir(folder) and os.listdir(folder):
        return {"c_folder": folder}  # of an earlier call
    r = controller.export_c(folder)
    return {"c_folder": folder, "c_constant_bytes": r["constant_bytes"], "c_mul_adds": r["mul_adds"]}
