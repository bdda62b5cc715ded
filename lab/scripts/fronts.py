"""Fronts of the bundled maps beside those of the exact solver: `python3 lab/scripts/fronts.py [--states 100] CASE …` prints a JSON array.

Each state is the start of a test episode. The exact front has the 50 weightings of `gpc front --exact 50`, the map the same ones. Regret is what
the map's decision and its roll-out cost above the optimum under one weighting of two objectives, as a mean over states. A second row of the
cases of --alone has the map without any polish, one of the cases of --polished the map with it. Times are of the first ten states, one thread, the
map's of a fifth front, the exact solver's of a second. What was compared is kept in --cache and not computed again.
"""

import argparse
import json
import statistics
import subprocess
from pathlib import Path


def front(case: str, episode: int, seed: int, *more: str) -> dict:
    run = ["bin/gpc", "front", case, "--episode", str(episode), "--seed", str(seed), "--threads", "1", "--json", *more]
    done = subprocess.run(run, capture_output=True, text=True)
    if not done.stdout:
        raise SystemExit(f"{' '.join(run)}: {done.stderr}")
    return json.loads(done.stdout)  # exit code 1: no point keeps every limit


def compare(case: str, episode: int, seed: int, polish: list[str]) -> dict:
    exact = front(case, episode, seed, "--points", "51", "--exact", "50", *polish)
    rounded = lambda p: tuple(round(w, 6) for w in p["w"])
    own = {rounded(p): p for p in exact["same"]["points"]}
    regret = {}
    for p in exact["exact"]["points"]:
        if len(p["w"]) == 2 and (q := own.get(rounded(p))) and q["feasible"]:
            optimum, cost = (sum(w * j for w, j in zip(p["w"], x["j"])) for x in (p, q))
            regret[f"{p['w'][0]:.2f}"] = 100 * (cost / optimum - 1)
    return {"ratio": exact["hypervolume_ratio"], "solved": len(exact["exact"]["points"]), "unsafe": sum(not q["feasible"] for q in own.values()), "regret": regret}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--states", type=int, default=100)
    parser.add_argument("--seed", type=int, default=2029)
    parser.add_argument("--cache", type=Path, default=Path("out/fronts"))
    parser.add_argument("--alone", nargs="*", default=[], metavar="CASE")
    parser.add_argument("--polished", nargs="*", default=[], metavar="CASE")
    parser.add_argument("--untimed", action="store_true")
    parser.add_argument("cases", nargs="+", metavar="CASE")
    o = parser.parse_args()
    o.cache.mkdir(parents=True, exist_ok=True)
    rows = []
    ways = {"": (o.cases, []), ", the map alone": (o.alone, ["--polish", "0"]), ", polished": (o.polished, ["--polish", "10"])}
    for case, way in [(case, way) for case in dict.fromkeys((*o.cases, *o.alone, *o.polished)) for way in ways if case in ways[way][0]]:
        kept, polish = o.cache / f"{case}-{o.seed}{way.replace(', ', '-').replace(' ', '-')}.jsonl", ways[way][1]
        states = [json.loads(line) for line in kept.open()] if kept.exists() else []
        with kept.open("a") as file:
            for e in range(len(states), o.states):
                states.append(compare(case, e, o.seed, polish))
                file.write(json.dumps(states[-1]) + "\n")
                file.flush()
        states = states[: o.states]
        ratios = sorted(s["ratio"] for s in states if s["ratio"] is not None)
        mean = lambda w: statistics.fmean(s["regret"][w] for s in states if w in s["regret"])
        row = {
            "name": f"BenchmarkFront/{case}{way}", "states": len(states), "compared": len(ratios), "unsolved": sum(50 - s["solved"] for s in states),
            "unsafe": sum(s["unsafe"] for s in states), "ratio": statistics.fmean(ratios), "ratio_p5": ratios[len(ratios) // 20], "ratio_worst": ratios[0],
        } | {f"regret_{w}": mean(w) for w in ("0.01", "0.25", "0.75", "0.99") if any(w in s["regret"] for s in states)}
        if not o.untimed:
            many = [front(case, e, o.seed, "--repeat", "5", *polish)["time_us"] / 1e3 for e in range(10)]
            exact = [front(case, e, o.seed, "--points", "51", "--exact", "50", "--repeat", "2")["exact_time_us"] / 1e3 for e in range(10)]
            row |= {"map_ms": statistics.median(many), "map_most_ms": max(many), "exact_ms": statistics.median(exact), "exact_most_ms": max(exact)}
        rows.append(row)
    print(json.dumps(rows))


if __name__ == "__main__":
    main()
