"""Loops with a goal beside the exact front: `python lab/scripts/goals.py [--states 100] CASE …` prints a JSON array.

From the start of each test episode one objective is bounded at 30 % of the exact front's range (100 weightings), or comes first; `direct` drives the
plant to the end of the episode. Beyond: its sum above the bound, or above the front's least, as a share of the range; kept is at most a thousandth. Above:
the other objective's sum above the exact front's at the same sum of this one, between its points by a straight line, as a share of that. States without an
exact front, or whose front is a point, do not count. Unsafe is a margin below −1e-6: actions of an environment are rounded to float32.
"""

import argparse
import json
import statistics

import numpy as np

import gpc
import gpc.envs


def drive(env, spec, loop, episode: int, seed: int, goal) -> tuple[np.ndarray, bool]:
    n, low, high = len(spec.state), *(np.array([getattr(v, k) for v in spec.action]) for k in ("lo", "hi"))
    observation, _ = env.reset(seed=seed, options={"episode": episode})
    sums, safe, ended, fresh = 0.0, True, False, True
    while not ended:
        o = np.asarray(observation, np.float64)
        u = loop.decide(o[:n], o[n:], goal, fresh=fresh).u
        observation, _, terminated, truncated, info = env.step(2 * (u - low) / (high - low) - 1)
        sums, safe, ended, fresh = sums + np.array(info["objectives"]), safe and min(info["margins"]) > -1e-6, terminated or truncated, False
    return sums, safe


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--states", type=int, default=100)
    parser.add_argument("--seed", type=int, default=2029)
    parser.add_argument("cases", nargs="+", metavar="CASE")
    o = parser.parse_args()
    rows = []
    for case in o.cases:
        env = gpc.envs.make(case)
        with gpc.open(case) as s, s.loop("direct") as loop:
            names = [v.name for v in s.spec.objectives]
            found: dict[str, list] = {f"{kind} {name}": [] for kind in ("bound", "first") for name in names}
            for e in range(o.states):
                exact = s.front(*s.observe(e, seed=o.seed), exact=True, points=100)
                best = exact.j[exact.feasible & ~exact.dominated] if len(exact["points"]) else np.zeros((0, 2))
                if len(best) < 2:
                    continue
                reach = best.max(axis=0) - best.min(axis=0)
                for k, name in enumerate(names):
                    along = best[np.argsort(best[:, k])]
                    for kind in ("bound", "first"):
                        bound = along[0, k] + (0.3 if kind == "bound" else 0) * reach[k]
                        sums, safe = drive(env, s.spec, loop, e, o.seed, {name: f"<= {float(bound)!r}"} if kind == "bound" else [name, names[1 - k]])
                        other = np.interp(max(bound, sums[k]), along[:, k], along[:, 1 - k])
                        found[f"{kind} {name}"].append((safe, (sums[k] - bound) / reach[k], sums[1 - k] / other - 1))
        for goal, loops in found.items():
            safe, beyond, above = (np.array(column) for column in zip(*loops))
            rows.append({
                "name": f"BenchmarkGoal/{case}/{goal}", "states": len(loops), "unsafe": int((~safe).sum()), "kept": int((beyond <= 1e-3).sum()),
                "beyond_%": 100 * float(beyond.mean()), "beyond_most_%": 100 * float(beyond.max()), "above_%": 100 * float(above.mean()), "above_median_%": 100 * statistics.median(above),
            })
    print(json.dumps(rows))


if __name__ == "__main__":
    main()
