"""Loops with a goal beside the exact solver's: `python lab/scripts/goals.py [--states 100] [--only GOAL] CASE …` prints a JSON array.

From the start of each test episode one objective is bounded at 30 % of the exact front's range (100 weightings), or comes first: its bound is then its
least and a hundredth of that range. The least is of a solve in which the other counts a thousandth, each as a share of its range. `direct` and
`polish` have the goal, `nmpc` the weights of the cheapest exact point within the bound, from the start on. Beyond: the sum above the bound, as a share of
the range; kept is at most a thousandth. Above: the other objective's sum above the exact one's at the same sum of this one, between its points by a
straight line, as a share of that; below a stated bound at the bound. States without an exact front, or whose front is a point, do not count. Unsafe is a margin below the case's
tolerance, by observations and actions of double precision. Times are of a decision, mean and the first of an episode, with Python's part.
"""

import argparse
import json
import statistics
import time

import numpy as np

import gpc
import gpc.envs


def drive(env, spec, loop, episode: int, seed: int, preference) -> tuple[np.ndarray, bool, list[float]]:
    n, low, high = len(spec.state), *(np.array([getattr(v, k) for v in spec.action]) for k in ("lo", "hi"))
    observation, _ = env.reset(seed=seed, options={"episode": episode})
    sums, safe, ended, times = 0.0, True, False, []
    while not ended:
        o = np.asarray(observation, np.float64)
        start = time.perf_counter()
        u = loop.decide(o[:n], o[n:], preference, fresh=not times).u
        times.append(1e3 * (time.perf_counter() - start))
        observation, _, terminated, truncated, info = env.step(2 * (u - low) / (high - low) - 1)
        sums, safe, ended = sums + np.array(info["objectives"]), safe and not info["violated"], terminated or truncated
    return sums, safe, times


def exact(s, observation, weights) -> tuple[np.ndarray, np.ndarray]:
    """Weights and objectives of the exact points that no other dominates."""
    front = s.front(*observation, exact=True, weights=weights)
    kept = front.feasible & ~front.dominated if len(front["points"]) else np.zeros(0, bool)
    return (front.w[kept], front.j[kept]) if kept.any() else (np.zeros((0, 2)), np.zeros((0, 2)))


def ratios(k: int, values) -> np.ndarray:
    """Weights in which objective k has these many times the other's."""
    w = np.empty((len(values), 2))
    w[:, k], w[:, 1 - k] = values / (1 + values), 1 / (1 + values)
    return w


def goal(s, observation, k: int, first: bool, best: np.ndarray, w: np.ndarray):
    """The bound of objective k, the exact points in the order of it, and the weights of the cheapest one within the bound."""
    reach = np.ptp(best, axis=0)
    least, corner = best[:, k].min(), 1e3 * reach[1 - k] / reach[k]
    if first and corner > 99:
        more = exact(s, observation, ratios(k, np.geomspace(99, corner, 24)))
        beyond = exact(s, observation, ratios(k, np.geomspace(corner, 10 * corner, 8)[1:]))
        least = min(least, more[1][:, k].min(initial=np.inf))
        w, best = np.vstack((w, more[0], beyond[0])), np.vstack((best, more[1], beyond[1]))
    bound = least + (0.01 if first else 0.3) * reach[k]
    for _ in range(2):  # more points where the bound is crossed
        order = np.argsort(best[:, k])
        w, best = w[order], best[order]
        i = int(np.searchsorted(best[:, k], bound, side="right")) - 1
        r = [v[k] / v[1 - k] for v in w[i : i + 2]]
        if len(r) == 2 and r[0] != r[1]:
            more = exact(s, observation, ratios(k, np.geomspace(r[0], r[1], 7)[1:-1]))
            w, best = np.vstack((w, more[0])), np.vstack((best, more[1]))
    order = np.argsort(best[:, k])
    w, best = w[order], best[order]
    stands = best[:, 1 - k] <= np.minimum.accumulate(best[:, 1 - k])
    w, best = w[stands], best[stands]
    within = best[:, k] <= bound
    return bound, best, w[within][np.argmin(best[within, 1 - k])]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--states", type=int, default=100)
    parser.add_argument("--seed", type=int, default=2029)
    parser.add_argument("--untimed", action="store_true")
    parser.add_argument("--only", metavar="GOAL", help="such as \"first energy\"")
    parser.add_argument("cases", nargs="+", metavar="CASE")
    o = parser.parse_args()
    rows = []
    for case in o.cases:
        env, found = gpc.envs.make(case, dtype=np.float64), {}
        with gpc.open(case) as s:
            names, loops = [v.name for v in s.spec.objectives], {method: s.loop(method) for method in ("direct", "polish", "nmpc")}
            for e in range(o.states):
                observation = s.observe(e, seed=o.seed)
                w, best = exact(s, observation, [[v, 1 - v] for v in np.linspace(0.01, 0.99, 100)])
                if len(best) < 2:
                    continue
                for k, name in enumerate(names):
                    for kind in ("bound", "first"):
                        if o.only not in (None, f"{kind} {name}"):
                            continue
                        bound, along, weights = goal(s, observation, k, kind == "first", best, w)
                        asked = {name: f"<= {float(bound)!r}"} if kind == "bound" else [name, names[1 - k]]
                        for method, loop in loops.items():
                            sums, safe, times = drive(env, s.spec, loop, e, o.seed, weights if method == "nmpc" else asked)
                            other = np.interp(sums[k] if kind == "first" else max(bound, sums[k]), along[:, k], along[:, 1 - k])
                            row = safe, (sums[k] - bound) / np.ptp(best[:, k]), sums[1 - k] / other - 1, statistics.fmean(times), times[0]
                            found.setdefault(f"{kind} {name}", {m: [] for m in loops})[method].append(row)
        for asked, by in found.items():
            row = {"name": f"BenchmarkGoal/{case}/{asked}", "states": len(by["nmpc"])}
            for method, driven in by.items():
                safe, beyond, above, mean, start = (np.array(column) for column in zip(*driven))
                figures = {
                    "unsafe": int((~safe).sum()), "kept": int((beyond <= 1e-3).sum()), "beyond_%": 100 * float(beyond.mean()), "beyond_most_%": 100 * float(beyond.max()),
                    "above_%": 100 * float(above.mean()), "above_median_%": 100 * statistics.median(above), "decision_ms": float(mean.mean()), "first_ms": float(start.mean()),
                }
                row |= {f"{method}_{figure}": v for figure, v in figures.items() if not (o.untimed and figure.endswith("_ms"))}
            rows.append(row)
    print(json.dumps(rows))


if __name__ == "__main__":
    main()
