"""Sums the records of crowd.py and gcbf.py up to one record, the rows of docs/results/robots.md.

    python table.py --out out/swarm.json NAME=RECORD.jsonl …

NAME is what the row is called, two parts with a slash: the scenes and who drives. Times of gcbf.py are CPU times of all robots' actions, over their number.
"""

import argparse
import json
from pathlib import Path

import numpy as np


def metrics(rows: list) -> dict:
    robots = sum(r["robots"] for r in rows)
    mean = lambda key: float(np.mean([r[key] for r in rows if r.get(key) is not None]))
    if "robot_us" in rows[0]:
        p50, p99 = np.median([r["robot_us"]["p50"] for r in rows]), np.median([r["robot_us"]["p99"] for r in rows])
        gap = min(r["smallest_gap_m"] for r in rows) / 0.35  # radii of GCBF+'s robots; others' are 0.25 to 0.35
    else:
        p50, p99 = (np.median([1e3 * r["act_cpu_ms"][k] / r["robots"] for r in rows]) for k in ("median", "p99"))
        gap = (min(r["smallest_distance_m"] for r in rows) - 0.1) / 0.05
    return {
        "robots": rows[0]["robots"], "scenes": len(rows), "steps": rows[0]["steps"], "obstacles": mean("obstacles"), "touched": sum(r["collided"] for r in rows),
        "clean": sum(r["collision_free"] for r in rows), "arrived_%": 100 * sum(r["arrived"] for r in rows) / robots,
        "all_arrived": sum(r["all_arrived"] for r in rows), "ratio": mean("ratio_to_goal"), "gap_radii": float(gap), "p50_us": float(p50), "p99_us": float(p99),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", required=True)
    parser.add_argument("--command", default="python lab/peers/swarm/table.py")
    parser.add_argument("records", nargs="+", metavar="NAME=RECORD")
    o = parser.parse_args()
    benchmarks, header = [], {}
    for name, file in (record.split("=", 1) for record in o.records):
        first, *rows = [json.loads(line) for line in open(file)]
        header = first if "isa" in first else header
        benchmarks.append({"name": f"BenchmarkSwarm/{name}", "metrics": metrics([r for r in rows if "failed" not in r])})
    record = {"device": header["device"], "commit": header["commit"], "command": o.command, "benchmarks": benchmarks}
    temporary = Path(o.out).with_suffix(".part")
    temporary.write_text(json.dumps(record, indent=1) + "\n")
    temporary.replace(o.out)


if __name__ == "__main__":
    main()
