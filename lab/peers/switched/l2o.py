"""The two benchmarks of learning to optimize of Le, Xie and Mangharam (L4DC 2026), tanks.py and navigation.py, by SCIP, bonmin and our methods.

    l2o.py --out out/l2o.json [tanks navigation] [--episodes 100] [--seed 9001] [--map tanks.safetensors]

Each instance is 20 periods from a start of its own with a forecast or goal of its own. SCIP has it whole with 60 s of CPU, and ends where its plan is
within 1e-6 of its bound; bonmin has the tanks. A method of ours decides 20 times, each time to the same end, and what it executed is a plan of the same
problem: every plan is driven by NumPy, and its cost is that of the benchmark's own formula. With --map its methods drive the tanks too. `reference` is the oracle of `gpc eval`, whose plan is not to be had: its cost is its own, and its CPU time that of the evaluation.

A gap is relative to SCIP's plan where that is proven. CPU times are those of the process: of SCIP without what builds its model, of ours within the call.
SCIP's by ours is of the first decision, which plans as far as SCIP does, in the median of instances. Other programs may stretch them: indicative."""

import argparse
import json
import os
import sys
import tempfile
import time

import numpy as np
import peers
import program

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "../../../python"))

import gpc  # noqa: E402
import navigation  # noqa: E402
import tanks  # noqa: E402
from gpc import traces  # noqa: E402

ALIKE = 1e-6  # between the formula's cost and that of the system's file, relative: the formula has a price of a hard limit that is missed by rounding
METHODS = {
    "tanks": ["sum-up", "search-512", "search-4096", "search-512-polish", "search-4096-polish", "relaxed-512"],
    "navigation": ["nmpc", "nmpc-from-8", "nmpc-from-32", "nmpc-from-128"],
}
MAPPED = ["direct", "refine-512", "refine-4096", "refine-512-polish"]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("problems", nargs="*", default=list(METHODS))
    parser.add_argument("--out", required=True, help="file for the record")
    parser.add_argument("--episodes", type=int, default=100, help="instances of each problem")
    parser.add_argument("--seed", type=int, default=9001, help="of the instances")
    parser.add_argument("--map", help="of the tanks")
    options = parser.parse_args()
    peers.GAP = 1e-6
    record = {"benchmark": "peers-l2o", "options": vars(options), "margin_tolerance": program.MARGIN, "versions": peers.versions(), "problems": {}}
    with tempfile.TemporaryDirectory() as folder:
        for name in options.problems:
            record["problems"][name] = instances = measured(name, options, folder)
            summarise(name, instances)
            os.makedirs(os.path.dirname(options.out) or ".", exist_ok=True)
            with open(options.out, "w", encoding="utf-8") as f:
                json.dump(record, f, indent=1, allow_nan=False)


def measured(name, options, folder):
    """The instances of a problem with what every method makes of them."""
    module = {"tanks": tanks, "navigation": navigation}[name]
    plain, scenes, methods, drawn = module.system(), None, METHODS[name], {"episodes": options.episodes, "seed": options.seed}
    if name == "navigation":  # starts and goals that are off the boxes
        rng, scenes, drawn = np.random.default_rng(options.seed), os.path.join(folder, "scenes"), {}
        os.makedirs(scenes)
        for k in range(options.episodes):
            with open(os.path.join(scenes, f"{k:04}.json"), "w", encoding="utf-8") as f:
                json.dump({"gpc_scene": 1, "case": name, "scene": navigation.draw(rng)}, f)
    plain.save(os.path.join(folder, f"{name}.json"))
    system = linear = program.System(os.path.join(folder, f"{name}.json"))
    if name == "navigation":
        navigation.system(boxes=False).save(os.path.join(folder, "linear.json"))
        linear = program.System(os.path.join(folder, "linear.json"))
    sessions = {method: gpc.open(plain, method=method, threads=1, scene=scenes) for method in methods}
    if name == "tanks" and options.map:
        sessions |= {method: gpc.open(plain, options.map, method=method, threads=1) for method in MAPPED}
    instances = []
    for k in range(options.episodes):
        s, c = next(iter(sessions.values())).observe(k, **({} if scenes else {"seed": options.seed}))
        problem = peers.Problem(linear, s, c, [1.0], navigation.binaries if name == "navigation" else None)
        problem.system = system
        answers = {solver: peers.solve(solver, problem) for solver in (["scip", "bonmin"] if name == "tanks" else ["scip"])}
        answers |= {method: driven(system, session, s, c) for method, session in sessions.items()}
        for answer in answers.values():
            judge(module, s, c, answer)
        instances.append({"state": list(s), "context": list(c), "answers": answers})
        print(f"# {name} {k}: " + ", ".join(f"{method} {a.get('cost') or np.nan:.6g}" for method, a in answers.items()), file=sys.stderr, flush=True)
    file, start = os.path.join(folder, f"{name}.jsonl"), time.process_time()
    next(iter(sessions.values())).evaluate(trace=file, progress=False, **drawn)
    cpu = (time.process_time() - start) / len(instances)
    for instance, end in zip(instances, traces.read(file).ends, strict=True):
        instance["answers"]["reference"] = {"cost": end["oracle_cost"], "kept": True, "cpu_s": cpu, "first_s": cpu}
    return instances


def driven(system, session, s, c):
    """A plan as a method executes it, the plant being the system's file."""
    plan, cpu, start_of = [], [], s
    with session.loop() as loop:
        loop.decide(s, c, [1.0], fresh=True)  # memory is taken once
        before, now = system.started(c), np.array(c, float)
        for k in range(system.steps):
            start = time.process_time()
            u = loop.decide(s, now, [1.0], fresh=k == 0).u
            cpu.append(time.process_time() - start)
            n = system.step(s, now[: system.contexts], [(1.0, u)])
            ahead = system.context(s, now[: system.contexts], u, n)
            before = [w.take(state, w.place(u[w.action])) for w, state in zip(system.switches, before)]
            s, now = np.array(n), np.array([*ahead, *(v for w, (place, ages) in zip(system.switches, before) for v in (w.values[place], *ages))], float)
            plan.append(u.tolist())
    return {"plan": plan, "cpu_s": sum(cpu), "first_s": cpu[0]} | system.drive(start_of, c, plan, [1.0])[0]


def judge(module, s, c, answer):
    """Makes the cost of a plan that of the benchmark's own formula, and adds how far a state or an input leaves its limits at most."""
    if answer.get("plan") is None:
        return
    before = answer["cost"]
    answer["cost"], answer["excess"] = map(float, module.cost(s, c, answer["plan"]))
    if answer["kept"] and not abs(answer["cost"] - before) <= ALIKE * max(1, abs(before)):
        sys.exit(f"the cost is {before} by the system's file and {answer['cost']} by the formula")


def summarise(name, instances):
    """Prints a line for each method as a benchmark does."""
    proven = [i["answers"] for i in instances if i["answers"]["scip"].get("proven") and i["answers"]["scip"].get("kept")]
    for method in instances[0]["answers"]:
        all_of = [i["answers"][method] for i in instances]
        pairs = [(a[method], a["scip"]) for a in proven if a[method].get("kept")]
        gaps = [100 * (a["cost"] / best["cost"] - 1) for a, best in pairs]
        whole, first = ([a[key] for a in all_of if key in a] for key in ("cpu_s", "first_s"))
        metrics = {"instances": len(all_of), "compared": len(gaps), "broken": sum(not a.get("kept") for a in all_of)}
        if name == "tanks" and method != "reference":
            metrics |= {"beyond": sum(a.get("excess", np.inf) > program.MARGIN for a in all_of)}
        if gaps:
            metrics |= {"gap_%": np.mean(gaps), "gap_median_%": np.median(gaps), "gap_worst_%": max(gaps), "optimal": sum(gap < 0.01 for gap in gaps)}
        if method in peers.SOLVERS:
            metrics |= {"proven": sum(a["proven"] for a in all_of), "solve_ms": 1e3 * np.mean(whole), "solve_median_ms": 1e3 * np.median(whole)}
        elif method == "reference":
            metrics |= {"solve_ms": 1e3 * np.mean(whole)}
        else:
            ratio = [i["answers"]["scip"]["cpu_s"] / i["answers"][method]["first_s"] for i in instances]
            metrics |= {"first_ms": 1e3 * np.mean(first), "episode_ms": 1e3 * np.mean(whole), "times": np.median(ratio)}
        print(f"BenchmarkL2O/{name}/{method}-1 1 " + " ".join(f"{v:.6g} {k}" for k, v in metrics.items()), flush=True)


if __name__ == "__main__":
    np.seterr(all="ignore")
    main()
