"""What a decision costs from Python beside what it takes in Go: medians of one run, µs, as a JSON array.

The time in Go is what the library measures of the decision itself (Decision.seconds); the rest
is the call: ctypes, the crossing into Go, checking and copying.
"""

import argparse
import json
import statistics
import time

import numpy as np

import gpc


def one(s: gpc.Session, method: str, calls: int) -> dict:
    state, context = s.observe()
    inside, outside = [], []
    with s.loop(method) as loop:
        for i in range(calls + 100):
            start = time.perf_counter()
            d = loop.decide(state, context)
            took = time.perf_counter() - start
            if i >= 100:
                outside.append(1e6 * took)
                inside.append(1e6 * float(d.seconds.sum()))
    return row(s, method, 1, inside, outside)


def many(s: gpc.Session, method: str, n: int, calls: int) -> dict:
    state, context = (np.tile(v, (n, 1)) for v in s.observe())
    u = np.empty((n, len(s.spec.action)))
    inside, outside = [], []
    with s.loops(n, method) as loops:
        record = np.empty((n, len(s.spec.objectives) + len(s.spec.margins) + 8))
        for i in range(calls + 5):
            start = time.perf_counter()
            d = loops.decide(state, context, out=u, record=record)
            took = time.perf_counter() - start
            if i >= 5:
                outside.append(1e6 * took)
                inside.append(1e6 * float(d.seconds[0].sum()))
    return row(s, method, n, inside, outside)


def row(s: gpc.Session, method: str, n: int, inside: list[float], outside: list[float]) -> dict:
    a, b = statistics.median(inside), statistics.median(outside)
    return {"name": f"{s.spec.name} {method} {n}", "calls": len(inside), "go_us": round(a, 2), "python_us": round(b, 2),
            "ratio": round(b / a, 3), "overhead_us": round(statistics.median(y - x for x, y in zip(inside, outside)), 2)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--calls", type=int, default=20_000)
    options = parser.parse_args()
    rows = []
    for case in ("integrator-convex", "opf30"):
        with gpc.open(case, threads=1) as s:
            for method in ("direct", "gpc"):
                rows += [one(s, method, options.calls), many(s, method, 1000, max(5, options.calls // 1000))]
    print(json.dumps(rows, indent=1))


if __name__ == "__main__":
    main()
