"""Systems with switched inputs beside solvers of mixed-integer problems: bonmin (of CasADi's wheel) and, where all limits are linear and the cost is
at most quadratic, HiGHS and SCIP.

    measure.py --out out/peers-switched.json [CASE or FILE.json …] [--episodes 5] [--seed 9001] [--method search-4096] [--mixed relaxed-512-polish]
    measure.py --out FILE --scaling [--inputs 1,2,4,8] [--periods 10,30,100,300] [--limits]
    measure.py --out FILE CASE --state 0.5,0.7,0 --context 0 [--steps 30]

Without a name, all cases of the gallery that have switches. Every solver has the whole episode from the start that `gpc eval` draws, in the same
discretization, and SECONDS (peers.py) of one CPU. Each plan is driven by NumPy, with its switches at whole numbers, by the program of the system's
file: this makes its cost, its smallest margin and the decisions that break a rule of a switch. The actions of our closed loop are driven the same
way and must give the cost that their trace says. `reference` is the oracle of the episode in that trace, and regret the cost above the least of all
plans that keep the limits. With --scaling the systems are those of rooms.py. CPU seconds are those of a machine that others may use: indicative.

Nothing is timed out of the process: a solver that does not end by itself says so in `status`. `ended` says that its search ended, and `proven` that
this is a proof: bonmin's is one for convex problems alone.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile

import numpy as np
import peers
import program

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "../../../python"))

TOLERANCE = 1e-9  # of our cost driven here, relative to that of the trace


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("systems", nargs="*", help="cases, or files of systems")
    parser.add_argument("--out", required=True, help="file for the record; results in it stay")
    parser.add_argument("--gpc", default="bin/gpc", help="the gpc program")
    parser.add_argument("--method", default="search-4096", help="that drives our episodes")
    parser.add_argument("--mixed", default="relaxed-512-polish", help="that drives them where there are other actions beside the switches")
    parser.add_argument("--episodes", type=int, default=5, help="starts of each system")
    parser.add_argument("--seed", type=int, default=9001, help="of the starts")
    parser.add_argument("--weights", type=numbers, help="of the objectives; equal ones")
    parser.add_argument("--seconds", type=int, default=peers.SECONDS, help="CPU time of a solver for a start")
    parser.add_argument("--state", type=numbers, help="one start, without episodes of ours")
    parser.add_argument("--context", type=numbers, default=[], help="of that start; what it ends with of switches may be left out")
    parser.add_argument("--scaling", action="store_true", help="rooms with heaters, of all inputs and periods")
    parser.add_argument("--inputs", type=numbers, default=[1, 2, 4, 8], help="switched inputs of --scaling")
    parser.add_argument("--periods", type=numbers, default=[10, 30, 100, 300], help="periods of --scaling")
    parser.add_argument("--limits", action="store_true", help="in --scaling: comfort is a limit, and the cost linear")
    options = parser.parse_args()
    peers.SECONDS = options.seconds
    record = Record(options)
    with tempfile.TemporaryDirectory() as folder:
        for name, file in files(options, folder):
            record.add(name, lambda: measured(file, name, options, folder))
            summarise(name, record.record["systems"][name])


class Record:
    """The record so far: the same command goes on behind the last system that is in it."""

    def __init__(self, options):
        self.file = options.out
        of = {k: v for k, v in vars(options).items() if k not in ("out", "gpc", "systems", "inputs", "periods")}
        self.record = {"benchmark": "peers-switched", "options": of, "margin_tolerance": program.MARGIN, "versions": peers.versions(), "systems": {}}
        if os.path.exists(self.file):
            with open(self.file, encoding="utf-8") as f:
                before = json.load(f)
            if before["options"] != of:
                sys.exit(f"{self.file} is a record of {before['options']}: remove it or name another")
            self.record = before

    def add(self, name, measure):
        systems = self.record["systems"]
        if name not in systems:
            systems[name] = measure()
            os.makedirs(os.path.dirname(self.file) or ".", exist_ok=True)
            with open(self.file + ".new", "w", encoding="utf-8") as f:
                json.dump(self.record, f, indent=1, allow_nan=False)
            os.replace(self.file + ".new", self.file)
        say(name, systems[name])


def numbers(text):
    return [float(v) if not v.strip().lstrip("-").isdigit() else int(v) for v in text.split(",") if v.strip()]


def run(*command):
    p = subprocess.run(command, check=False, capture_output=True, text=True)
    if p.returncode:
        sys.exit(f"{' '.join(command)}: {p.stderr.strip()}")
    return p.stdout


def files(options, folder):
    """The names of the systems with their files."""
    if options.scaling:
        import rooms

        for periods in options.periods:
            for inputs in options.inputs:
                y = rooms.system(inputs, periods, options.limits)
                y.save(os.path.join(folder, f"{y.name}.json"))
                yield y.name, os.path.join(folder, f"{y.name}.json")
        return
    for name in options.systems or switched(options):
        file = name if name.endswith(".json") else os.path.join(folder, f"{name}.json")
        if file != name:
            run(options.gpc, "system", name, "--out", file)
        yield name, file


def switched(options):
    """The cases that have switches."""
    cases = json.loads(run(options.gpc, "cases", "--json"))["cases"]
    return [c["name"] for c in cases if "sum-up" in c["methods"]]


def measured(file, name, options, folder):
    """All results of one system."""
    try:
        y = program.System(file)
    except NotImplementedError as e:
        return {"left_out": str(e)}
    weights = options.weights or [1 / len(y.objectives)] * len(y.objectives)
    method = options.mixed if y.free else options.method
    if options.state:
        if len(options.context) < y.contexts:
            sys.exit(f"{name}: --context has {len(options.context)} entries, want {y.contexts}, the clock last, and then what was before of each switch or nothing")
        starts = [{"state": options.state, "context": options.context}]
    else:
        starts = episodes(y, file if name.endswith(".json") or options.scaling else name, method, weights, options, folder)
    result = {"periods": y.steps, "method": method, "inputs": len(y.switches), "weights": weights, "starts": starts}
    for start in starts:
        try:
            problem = peers.Problem(y, start["state"], start["context"], weights)
        except NotImplementedError as e:
            return result | {"left_out": str(e)}
        start["solvers"] = {}
        for solver in ["bonmin", *(peers.LINEAR if problem.is_quadratic() else [])]:
            start["solvers"][solver] = answer = peers.solve(solver, problem)
            print(f"# {name}: {solver}: {answer.get('left_out') or answer['status']}", file=sys.stderr, flush=True)
        compare(start)
    return result


def episodes(y, case, method, weights, options, folder):
    """Our episodes with their starts, held to what NumPy makes of their actions."""
    from gpc import traces

    file = os.path.join(folder, f"{y.name}.jsonl")
    run(options.gpc, "eval", case, "--method", method, "--episodes", str(options.episodes), "--seed", str(options.seed),
        "--preference", ",".join(map(repr, weights)), "--threads", "1", "--trace", file)
    trace, starts = traces.read(file), []
    for episode, scene, end in zip(trace.episodes, trace.scenes, trace.ends):
        rows = trace["episode"] == episode
        driven, _ = y.drive(scene["s"], scene["c"], trace["u"][rows], weights)
        if end["completed"] and not abs((driven["cost"] or np.inf) - end["cost"]) <= TOLERANCE * max(1, abs(end["cost"])):
            sys.exit(f"{y.name}, episode {episode}: the cost is {end['cost']} in the trace and {driven['cost']} by its actions")
        latency = trace["latency_us"][rows]
        ours = driven | {"kept": end["completed"] and driven["kept"], "safe": end["safe"], "cpu_s": float(latency.sum()) * 1e-6, "first_decision_s": float(latency[0]) * 1e-6}
        starts.append({"episode": episode, "state": scene["s"], "context": scene["c"], method: ours, "reference": end["oracle_cost"]})
    return starts


def compare(start):
    """Adds the regret of every cost of a start against the least."""
    costs = {k: v["cost"] for k, v in [*start.items(), *start["solvers"].items()] if isinstance(v, dict) and v.get("kept")}
    if start.get("reference") is not None:
        costs["reference"] = start["reference"]
    if costs:
        start["best"] = best = min(costs.values())
        start["regret_pct"] = {k: 100 * (v - best) / best if best > 0 else None for k, v in costs.items()}


def summarise(name, result):
    """Prints a line for each method as a benchmark does: of what starts it has a plan that keeps the limits, and its cost above the best."""
    starts = result.get("starts", [])
    for method in ["reference", result.get("method"), "bonmin", *peers.LINEAR]:
        answers = [start.get("solvers", {}).get(method) or start.get(method) for start in starts]
        answers = [a for a in answers if a is not None and not (isinstance(a, dict) and "left_out" in a)]
        if not answers:
            continue
        regret = [start["regret_pct"][method] for start in starts if start.get("regret_pct", {}).get(method) is not None]
        cpu = [a["cpu_s"] for a in answers if isinstance(a, dict) and "cpu_s" in a]
        ended = sum(bool(a.get("ended")) for a in answers if isinstance(a, dict))
        metrics = {"starts": len(answers), "kept": len(regret), "ended": ended, "periods": result["periods"], "inputs": result["inputs"]}
        metrics |= {"above_%": np.mean(regret), "worst_%": max(regret)} if regret else {}
        metrics |= {"cpu_s": np.mean(cpu)} if cpu else {}
        kind = "Scaling" if name.startswith("rooms") else "Peers"
        print(f"BenchmarkSwitched{kind}/{name}/{method}-1 1 " + " ".join(f"{v:.6g} {k}" for k, v in metrics.items()), flush=True)


def say(name, result):
    """Prints a line for each start."""
    if "left_out" in result:
        print(f"{name}: left out: {result['left_out']}")
    for start in result.get("starts", []):
        rows = {k: v for k, v in [*start.items(), *start.get("solvers", {}).items()] if isinstance(v, dict) and ("kept" in v or "status" in v)}
        parts = [f"reference {start['reference']:.6g}"] if start.get("reference") is not None else []
        for k, v in rows.items():
            cost = f"{v['cost']:.6g}{'' if v['kept'] else ' (breaks a limit)'}" if v.get("cost") is not None else "no plan"
            parts.append(f"{k} {cost}" + (f" {v['status']} {v.get('cpu_s', 0):.1f} s" if "status" in v else ""))
        print(f"{name}, start {start.get('episode', 0)}: " + ", ".join(parts), flush=True)


if __name__ == "__main__":
    np.seterr(all="ignore")  # an episode that leaves the domain of its equations is one of NaN
    main()
