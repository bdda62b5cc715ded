"""Sums the records of crowd.py and gcbf.py up to one record, the rows of docs/results/robots.md.

    python table.py --out out/swarm.json NAME=RECORD.jsonl[,TIMED.jsonl] …

NAME is what the row is called, two parts with a slash: the scenes and who drives. Times are left out where the machine had other work, a load above 1.6
(crowd.py notes it), or are those of a further record of the same scenes. Times of gcbf.py are CPU times of all robots' actions, over their number.
"""

import argparse
import json
from pathlib import Path

import numpy as np


def times(first: dict, rows: list) -> dict:
    if "robot_us" in rows[0]:
        if first["load"] > 1.6:
            return {}
        return {f"{k}_us": float(np.median([r["robot_us"][k] for r in rows])) for k in ("p50", "p99")}
    return {f"{k}_us": float(np.median([1e3 * r["act_cpu_ms"][m] / r["robots"] for r in rows])) for k, m in (("p50", "median"), ("p99", "p99"))}


def metrics(rows: list) -> dict:
    robots = sum(r["robots"] for r in rows)
    if any(r.get("dynamics_off", 0) > 1e-6 or r.get("limits_off", 0) > 1e-9 or r.get("presence_off", 0) for r in rows):
        raise SystemExit("a step is not one of the dynamics, beyond its limits, or of a robot that is not there")
    mean = lambda key: float(np.mean([r[key] for r in rows if r.get(key) is not None]))
    safe = {"safe": sum(r["said"]["safe"] for r in rows)} if "said" in rows[0] else {}
    return safe | {
        "robots": rows[0]["robots"], "scenes": len(rows), "steps": rows[0]["steps"], "obstacles": mean("obstacles"), "touched": sum(r["collided"] for r in rows),
        "clean": sum(r["collision_free"] for r in rows), "arrived_%": 100 * sum(r["arrived"] for r in rows) / robots,
        "all_arrived": sum(r["all_arrived"] for r in rows), "ratio": mean("ratio_to_goal"),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", required=True)
    parser.add_argument("--of", default="Swarm", help="the table: Swarm, or Crowd of a hundred scenes each")
    parser.add_argument("--command", default="python lab/peers/swarm/table.py")
    parser.add_argument("records", nargs="+", metavar="NAME=RECORD")
    o = parser.parse_args()
    benchmarks, header = [], {}
    for name, files in (record.split("=", 1) for record in o.records):
        records = [[json.loads(line) for line in open(file)] for file in files.split(",")]
        (first, *rows), (timed, *measured) = records[0], records[-1]
        header = first if "isa" in first else header
        benchmarks.append({"name": f"Benchmark{o.of}/{name}", "metrics": metrics(rows) | (times(timed, measured) if len(records) > 1 or "load" in first else {})})
    record = {"device": header["device"], "commit": header["commit"], "command": o.command, "benchmarks": benchmarks}
    temporary = Path(o.out).with_suffix(".part")
    temporary.write_text(json.dumps(record, indent=1) + "\n")
    temporary.replace(o.out)


if __name__ == "__main__":
    main()
