"""Plants of users of other programs (plants.py) driven, compiled and exported, with IPOPT as the judge of optima:

    compare.py [--budget 2m] [--episodes 20] [--judged 3] [--seed 5] [--only NAME] [--out out/plants]

Every plant is checked as its user would meet it; of one that is refused the table says so. The exact controller `nmpc` drives from the starts, IPOPT solves
the first of them, from rest and from our plan, and the better of its two is taken. The plant is compiled to a map, which drives the same starts, and leaves
as C, which is compiled with all warnings. Costs are above the best known of a start: of reference, controllers and IPOPT. Of a plant that runs on IPOPT has
decisions beyond the last, and the costs are those of the episode. The budget is of CPU time, so that the machine may do other work.

Prints a line of a benchmark for each plant, as lab/record keeps them. A plant that is done is kept in the folder, and the same command goes on.
"""

import argparse
import json
import math
import subprocess
import sys
import tempfile
import warnings
from pathlib import Path

import numpy as np
import plants
from judge import Judge

import gpc
from gpc import traces

TAIL = 80  # decisions of a plant that runs on beyond the last, for IPOPT
TARGET = 0.5  # %, of a compilation


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--budget", default="2m", help="CPU time of a compilation")
    parser.add_argument("--episodes", type=int, default=20, help="starts")
    parser.add_argument("--judged", type=int, default=3, help="of them, those that IPOPT solves")
    parser.add_argument("--seed", type=int, default=5, help="of the starts")
    parser.add_argument("--only", default="", help="one of the plants, by name")
    parser.add_argument("--out", default="out/plants", help="folder of maps, C and results")
    options = parser.parse_args()
    folder = Path(options.out)
    folder.mkdir(parents=True, exist_ok=True)
    warnings.simplefilter("ignore")
    for name in plants.ALL:
        file = folder / f"{name}.json"
        if not file.exists() and options.only in ("", name):
            if options.only:
                file.write_text(json.dumps(figures(plants.ALL[name], name, options)), encoding="utf-8")
            else:  # in a process of its own, as none of these may end the others
                subprocess.run([sys.executable, "-W", "ignore", __file__, *sys.argv[1:], "--only", name], stdout=sys.stderr, check=True)
        if not options.only:
            print(line(name, json.loads(file.read_text(encoding="utf-8"))), flush=True)


def line(name, of):
    """A plant's line of a benchmark."""
    method = of.pop("method")
    return f"BenchmarkPlants/{name}/{method} 1 " + " ".join(f"{v:.6g} {k}" for k, v in of.items() if v is not None and math.isfinite(v))


def figures(make, name, options):
    """All that is said of a plant."""
    p = make()
    try:
        refused = bool(p.system.check().errors)
    except gpc.InputError:
        refused = True
    if refused:
        return {"method": "refused", "refused": 1, **p.before}
    out = {"method": "", **p.before, "episodes": options.episodes}
    with gpc.nmpc(p.system, threads=1) as exact:
        ours = driven(exact, "nmpc", p, options)
    out |= {"safe": ours["safe"], "no_reference": sum(cost is None for cost in ours["optima"])}
    best = [min(v for v in (cost, optimum, math.inf) if v is not None) if safe else optimum or math.inf for cost, optimum, safe in zip(ours["costs"], ours["optima"], ours["kept"])]
    if p.judged and options.judged:
        out |= judged(p, ours, best, options)
    out |= compiled(p, name, best, options)
    out["above_%"], out["above_worst_%"] = above(ours["costs"], best)
    return out


def driven(controller, method, p, options):
    """Closed loops from the starts: costs, which are safe, references, and the trace."""
    with tempfile.TemporaryDirectory() as folder:
        file = str(Path(folder) / "trace.jsonl")
        controller.evaluate(method, episodes=options.episodes, seed=options.seed, preference=p.weights, trace=file, progress=False, **p.options)
        trace = traces.read(file)
    kept = [end["safe"] for end in trace.ends]
    return {"costs": [end["cost"] for end in trace.ends], "kept": kept, "safe": sum(kept), "optima": [end["oracle_cost"] for end in trace.ends], "trace": trace}


def judged(p, ours, best, options):
    """Our optima beside those of IPOPT, which are among the best known from here on."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "system.json"
        p.system.save(file)
        judge, trace = Judge(file, p.weights), ours["trace"]
        if judge.lasting:
            with gpc.nmpc(p.system, threads=1) as exact:
                long = str(Path(folder) / "long.jsonl")
                exact.evaluate("nmpc", episodes=options.judged, seed=options.seed, steps=judge.steps + TAIL, preference=p.weights, trace=long, progress=False)
                trace = traces.read(long)
        differences = []
        for k in range(options.judged):
            scene, plan = trace.scenes[k], trace["u"][trace["episode"] == trace.episodes[k]]
            cost = judge.solve(np.array(scene["s"]), np.array(scene["c"])[: judge.contexts], plan, judge.steps)
            optimum = ours["costs"][k] if judge.lasting else ours["optima"][k]
            if cost is None or optimum is None:
                continue
            differences.append(100 * (optimum - cost) / abs(cost))
            best[k] = min(best[k], cost)
    return {"judged": len(differences), **({"optimum_%": np.mean(differences), "optimum_worst_%": max(differences)} if differences else {})}


def compiled(p, name, best, options):
    """The map of a plant in the same loops, and its C."""
    folder = Path(options.out)
    try:
        controller = gpc.compile(p.system, str(folder / f"{name}.safetensors"), target=TARGET, budget=options.budget, budget_cpu=True, threads=1, progress=False)
    except gpc.Error as error:
        print(name, error, file=sys.stderr)
        return {"method": "none"}
    with controller:
        report = controller.report
        method = report["test"]["method"]
        loops = driven(controller, method, p, options)
        for k, cost in enumerate(loops["costs"]):
            if loops["kept"][k]:
                best[k] = min(best[k], cost)
        mean, most = above(loops["costs"], best)
        out = {"method": method, "map_safe": loops["safe"], "map_%": mean, "map_worst_%": most, "test_%": report["test"]["mean_pct"], "test_unsafe": report["test"]["unsafe"], "test_n": report["test"]["episodes"], "met": float(report["met"]), "compile_s": report["seconds"]}
        with tempfile.TemporaryDirectory() as c:
            code = Path(c) / "c"
            try:
                controller.export_c(str(code), episodes=options.episodes, seed=options.seed)
            except gpc.Error as error:
                print(name, error, file=sys.stderr)
                return out
            sources = [f.name for f in code.glob("*.c")]
            built = subprocess.run(["cc", "-std=c99", "-Wall", "-Wextra", "-O2", "-ffp-contract=off", "-o", "main_test", *sources, "-lm"], cwd=code, capture_output=True, text=True, check=False)
            warned = built.stderr.count("warning:")
            tested = built.returncode == 0 and subprocess.run(["./main_test"], cwd=code, capture_output=True, check=False).returncode == 0
        return out | {"c_warnings": warned, "c_tested": float(tested)}


def above(costs, best):
    """Mean and largest cost above the best known, %."""
    of = [100 * (cost - least) / abs(least) for cost, least in zip(costs, best) if math.isfinite(least) and least != 0]
    return (np.mean(of), max(of)) if of else (None, None)


if __name__ == "__main__":
    main()
