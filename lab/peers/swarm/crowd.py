"""Drives gpc's planners of many robots and judges every step by arithmetic of its own.

    python crowd.py --gpc bin/gpc --case multiagent-moving --robots 128 --episodes 20 --seed 7 --method distributed-1 --out FILE.jsonl
    python crowd.py --gpc bin/gpc --robots 128 --area 8 --steps 512 --episodes 100 --seed 7 --method distributed-1 --out FILE.jsonl
    python crowd.py --gpc bin/gpc --scenes SCENES.jsonl --area 4 --steps 256 --method distributed --out FILE.jsonl
    python crowd.py --gpc bin/gpc --dynamics DoubleIntegrator --robots 32 --area 4 --steps 256 --method distributed-1 --out FILE.jsonl

With --area alone it draws scenes as GCBF+ does: starts and goals uniform, four radii from each other and from --discs obstacles. With --enter every second robot enters within so many seconds, wherever its place is, and all leave on arrival. With --scenes it takes the scenes that gcbf.py has written for GCBF+'s Dubins car or double integrator. The world is the same in other units: lengths times 7 and times
times 20/3, so that a robot of 0.05 m has 0.35 m and a period of 0.03 s is 0.2 s. Limits are those of the Dubins car but for the turn rate, which
gpc bounds by 2.5 rad/s (16.7 rad/s there, where 60 are allowed), or those of the double integrator: 0.5 m/s and 10 m/s² along each axis. A robot has arrived within 0.1 m of its goal, which is 0.7 m here. Each of the two
programs integrates the same equations by its own step: GCBF+ by Euler, gpc along the mean heading at the mean speed.

The record has a header and a line for each episode, in gpc's units. A run that was interrupted goes on after its last episode. Every step is checked from the states of the trace, without gpc: bodies that touch
(radii alone, no safety distance), the limits of actions, speeds, the step of the dynamics, who is there, and the obstacles' own motion. A path ends at the arrival, so its ratio to the
straight line may be below one; `ratio_to_goal` adds the distance that is left. `robot_us` are the times of decisions over the number of robots.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

LENGTH, TIME = 7.0, 0.2 / 0.03


# By GCBF+'s names: the largest speed, m/s, and acceleration, m/s², of the Dubins car, and of the double integrator (a force of 1 N on 0.1 kg) along
# each axis.
LIMITS = {"DubinsCar": (0.8, 3.0), "DoubleIntegrator": (0.5, 10.0)}
DOUBLE = "double integrator"  # params.dynamics


def converted(scene: dict, dynamics: str, area: float, steps: int, rays: int) -> dict:
    """A scene of gcbf.py as a scene file."""
    fast, hard, side = LIMITS[dynamics][0] * LENGTH / TIME, LIMITS[dynamics][1] * LENGTH / TIME**2, area * LENGTH
    double = dynamics == "DoubleIntegrator"
    second = hard if double else 2.5
    beyond = 2 * LENGTH  # obstacles reach beyond the area, and nothing keeps robots inside
    scaled = lambda p: [LENGTH * v for v in p]
    params = {
        "d_safe": 0.0, "goal_radius": 0.1 * LENGTH, "workspace": [-beyond, side + beyond] * 2, "steps": steps,
        "limits": {"v_min": -fast, "v_max": fast, "a_min": -hard, "a_max": hard, "omega_max": second, "du_max": [2 * hard, 2 * second]},
    }
    if double:
        params["dynamics"] = DOUBLE
    if rays:
        params["sensing"] = {"rays": rays, "range": 0.5 * LENGTH, "least_radius": 0.05 * LENGTH}
    if len(scene["agents"]) > 6:
        params["robots"] = len(scene["agents"])
    if len(scene["obstacles"]) > 15:
        params["obstacles"] = len(scene["obstacles"])
    agents = [{"p": scaled(a["p"]), "theta": a["theta"], "v": 0, "r": LENGTH * a["r"], "goal": scaled(a["goal"])}
              | {k: a[k] for k in ("enters", "leaves", "leaves_at_goal") if a.get(k)} for a in scene["agents"]]
    obstacles = [{"c": scaled(o["c"]), "v": [0, 0], "r": LENGTH * o["r"]} for o in scene["obstacles"]]
    return {"gpc_scene": 1, "case": "multiagent-static", "params": params, "scene": {"agents": agents, "obstacles": obstacles}}


def drawn(rng: np.random.Generator, robots: int, area: float, discs: int, enter: float) -> dict:
    """A scene in GCBF+'s units, as its environments draw them; but times of entry are gpc's, s."""
    radius, obstacles = 0.05, [{"c": rng.uniform(0, area, 2).tolist(), "r": rng.uniform(0.05, 0.25)} for _ in range(discs)]

    def places() -> np.ndarray:
        out = np.zeros((0, 2))
        while len(out) < robots:
            p = rng.uniform(0, area, 2)
            free = all(np.hypot(*(p - o["c"])) > o["r"] + 4 * radius for o in obstacles)
            if free and (np.hypot(*(out - p).T) > 4 * radius).all():
                out = np.vstack([out, p])
        return out

    starts, goals = places(), places()
    agents = [{"p": p.tolist(), "theta": rng.uniform(-np.pi, np.pi), "r": radius, "goal": g.tolist()} for p, g in zip(starts, goals)]
    for k, a in enumerate(agents if enter else []):
        a["leaves_at_goal"] = True
        if k % 2:  # where another one starts or goes to
            a |= {"p": (starts if k % 4 == 1 else goals)[k - 1].tolist(), "enters": rng.uniform(0, enter)}
    return {"agents": agents, "obstacles": obstacles}


def presence(scene: dict, params: dict, actions: np.ndarray, home: np.ndarray) -> tuple:
    """Who is there at the end and at the beginning of each step, [step][robot], and before its action: 1, or −1 outside where it may enter."""
    enters, leaves = (np.array([a.get(k, 0) for a in scene["agents"]], float) for k in ("enters", "leaves"))
    departs = np.array([a.get("leaves_at_goal", False) for a in scene["agents"]])
    acts = np.vstack([(actions != 0).any(axis=-1), np.zeros((1, len(enters)), bool)])
    inside, gone, ends, begins, before = enters == 0, np.zeros(len(enters), bool), [], [], []
    for k, acting in enumerate(acts):
        now = k * params["dt"] + 1e-9
        ends.append(inside)
        gone = gone | ((leaves > 0) & (now >= leaves)) | (departs & inside & home[k])
        waiting, inside = ~inside & ~gone & (now >= enters), inside & ~gone
        before.append(inside * 1 - waiting)
        inside = inside | (waiting & acting)
        begins.append(inside)
    return np.array(ends), np.array(begins), np.array(before)


def obstacle_paths(scene: dict, params: dict, steps: int) -> np.ndarray:
    """Centres [step][obstacle][axis]: straight, mirrored at the workspace's edge inset by the radius."""
    c = np.array([o["c"] for o in scene["obstacles"]]).reshape(-1, 2)
    v = np.array([o["v"] for o in scene["obstacles"]]).reshape(-1, 2)
    r = np.array([o["r"] for o in scene["obstacles"]])
    w, out = params["workspace"], [c.copy()]
    for _ in range(steps):
        c = c + params["dt"] * v
        for k in range(2):
            lo, hi = w[2 * k] + r, w[2 * k + 1] - r
            above, below = c[:, k] > hi, c[:, k] < lo
            c[:, k] = np.where(above, 2 * hi - c[:, k], np.where(below, 2 * lo - c[:, k], c[:, k]))
            v[:, k] = np.where(above | below, -v[:, k], v[:, k])
        out.append(c.copy())
    return np.array(out)


def judged(header: dict, scene: dict, lines: list, end: dict) -> dict:
    """One episode of a trace."""
    params, n = header["params"], len(scene["agents"])
    start = [v for a in scene["agents"] for v in (*a["p"], a["theta"], a["v"])]
    double = params.get("dynamics") == DOUBLE
    if double:  # the velocity's direction and size
        start = [v for a in scene["agents"] for v in (*a["p"], a["v"] * np.cos(a["theta"]), a["v"] * np.sin(a["theta"]))]
    states = np.array([start] + [line["s"][: 4 * n] for line in lines]).reshape(-1, n, 4)
    actions = np.array([line["u"][: 2 * n] for line in lines]).reshape(-1, n, 2)
    steps, robots = len(actions), np.arange(n)
    radius = np.array([a["r"] for a in scene["agents"]])
    goal = np.array([a["goal"] for a in scene["agents"]])
    limits = params["limits"]
    if double:
        velocity = np.clip(states[:-1, :, 2:] + params["dt"] * actions, limits["v_min"], limits["v_max"])
        predicted = np.concatenate([states[:-1, :, :2] + params["dt"] * (states[:-1, :, 2:] + velocity) / 2, velocity], axis=-1)
    else:
        speed = np.clip(states[:-1, :, 3] + params["dt"] * actions[..., 0], limits["v_min"], limits["v_max"])
        heading = states[:-1, :, 2] + params["dt"] * actions[..., 1] / 2
        way = params["dt"] * (states[:-1, :, 3] + speed) / 2
        predicted = np.stack([states[:-1, :, 0] + way * np.cos(heading), states[:-1, :, 1] + way * np.sin(heading),
                              states[:-1, :, 2] + params["dt"] * actions[..., 1], speed], axis=-1)
    place = states[..., :2]
    distance = np.linalg.norm(place - goal, axis=-1)
    ends, begins, before = presence(scene, params, actions, distance <= params["goal_radius"])
    room = params.get("robots", 6)
    said = np.sign([line["c"][4 * room : 4 * room + n] for line in lines])  # radii, of who waits negative
    off = float(np.abs(np.where(begins[:-1, :, None], predicted, states[:-1]) - states[1:]).max())
    idle = np.where(begins[:-1, :, None], 0, actions)
    previous = np.array([a.get("u_prev", [0, 0]) for a in scene["agents"]])[None]
    change = actions - np.where(np.vstack([np.zeros((1, n), bool), begins[:-2]])[..., None], np.vstack([previous, actions[:-1]]), previous)
    change = np.where(begins[:-1, :, None], change, 0)
    beyond = max(float((actions[..., 0] - limits["a_max"]).max()), float((limits["a_min"] - actions[..., 0]).max()),
                 float((np.abs(actions[..., 1]) - limits["omega_max"]).max()), float((np.abs(change) - limits["du_max"]).max()))
    centres = obstacle_paths(scene, params, steps)
    around = np.array([o["r"] for o in scene["obstacles"]])
    touching, pair, body = np.zeros(n, bool), np.inf, np.inf
    for k in range(steps + 1):
        gap = np.linalg.norm(place[k][:, None] - place[k][None], axis=-1) - radius[:, None] - radius[None]
        gap[~(ends[k][:, None] & ends[k] | begins[k][:, None] & begins[k])] = np.inf
        np.fill_diagonal(gap, np.inf)
        touching |= (gap < 0).any(axis=1)
        pair = min(pair, float(gap.min()))
        if len(around):
            gap = np.linalg.norm(place[k][:, None] - centres[k][None], axis=-1) - radius[:, None] - around[None]
            gap[~(ends[k] | begins[k])] = np.inf
            touching |= (gap < 0).any(axis=1)
            body = min(body, float(gap.min()))
    there = (distance <= params["goal_radius"]) & (ends | begins)
    arrived, arrival = there.any(axis=0), there.argmax(axis=0)
    length = np.concatenate([np.zeros((1, n)), np.linalg.norm(np.diff(place, axis=0), axis=-1).cumsum(axis=0)])
    moved = arrived & (arrival > 0)
    path, left = length[arrival, robots][moved], distance[arrival, robots][moved]
    straight = distance[0][moved]
    each = np.array([line["latency_us"] for line in lines]) / n
    return {
        "robots": n, "entered": int((begins.any(axis=0) & ~begins[0]).sum()), "waited": int(((before < 0) & ~begins)[:-1].sum()), "left": int((ends.any(axis=0) & ~begins[-1]).sum()),
        "obstacles": len(around), "steps": steps, "collided": int(touching.sum()), "arrived": int(arrived.sum()),
        "collision_free": not bool(touching.any()), "all_arrived": bool(arrived.all()), "last_arrival": int(arrival[arrived].max()) if arrived.any() else None,
        "smallest_gap_m": pair, "smallest_gap_obstacle_m": body if np.isfinite(body) else None,
        "ratio": float((path / straight).mean()), "ratio_to_goal": float(((path + left) / straight).mean()), "ratio_all": float(path.sum() / straight.sum()),
        "robot_us": {"p50": float(np.median(each)), "p99": float(np.quantile(each, 0.99)), "first": float(each[0])}, "dynamics_off": off, "limits_off": beyond,
        "presence_off": int((said != before[:-1]).sum() + (idle != 0).sum()),
        "said": {k: end.get(k) for k in ("safe", "reached", "collision_free")},
    }


def episodes(path: Path):
    """(header, scene, decisions, end) of every episode of a trace."""
    header = scene = None
    lines = []
    with path.open() as file:
        for text in file:
            line = json.loads(text)
            if header is None:
                header = line
            elif "scene" in line and "u" not in line:
                scene, lines = line["scene"], []
            elif "u" in line:
                lines.append(line)
            elif "end" in line:
                yield header, scene, lines, line["end"]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--gpc", default="bin/gpc")
    parser.add_argument("--method", default="distributed")
    parser.add_argument("--case", default="multiagent-moving")
    parser.add_argument("--robots", type=int)
    parser.add_argument("--episodes", type=int, default=20)
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--noise", type=float, default=0)
    parser.add_argument("--scenes")
    parser.add_argument("--dynamics", choices=LIMITS, default="DubinsCar", help="of scenes with --area")
    parser.add_argument("--area", type=float)
    parser.add_argument("--discs", type=int, default=0)
    parser.add_argument("--enter", type=float, default=0)
    parser.add_argument("--rays", type=int, default=0, help="of 0.5 m, by which alone robots know of obstacles; GCBF+ has 32")
    parser.add_argument("--steps", type=int)
    parser.add_argument("--out", required=True)
    o = parser.parse_args()
    if (o.scenes is None) == (o.robots is None) or (o.area is None) != (o.steps is None) or o.scenes and not o.area:
        parser.error("want --robots, --robots with --area and --steps, or --scenes with these two")
    scenes = []
    if o.scenes:
        scenes = [json.loads(line) for line in open(o.scenes)][: o.episodes]
    elif o.area:
        rng = np.random.default_rng(o.seed)
        scenes = [drawn(rng, o.robots, o.area, o.discs, o.enter) for _ in range(o.episodes)]
    part, total = Path(o.out).with_suffix(".part"), len(scenes) or o.episodes
    first, *rows = [json.loads(line) for line in part.open()] if part.exists() else [None]
    for n in range(len(rows), total):
        with tempfile.TemporaryDirectory() as folder:
            trace = Path(folder) / "trace.jsonl"
            command = [o.gpc, "eval", "multiagent-static" if scenes else o.case, "--method", o.method, "--trace", str(trace), "--seed", str(o.seed), "--json"]
            if o.noise:
                command += ["--noise", str(o.noise)]
            if scenes:
                file = Path(folder) / "scene.json"
                file.write_text(json.dumps(converted(scenes[n], o.dynamics, o.area, o.steps, o.rays)))
                command += ["--scene", str(file)]
            else:  # one episode a run, so that no trace is larger than that
                command += ["--robots", str(o.robots), "--episodes", str(o.episodes), "--shard", f"{n}/{o.episodes}"]
            subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
            for header, scene, lines, end in episodes(trace):
                row = {"scene": n, **judged(header, scene, lines, end), "load": os.getloadavg()[0]}
                if first is None:
                    first = {"benchmark": "peers-swarm", "method": o.method, "commit": header["commit"], "case": header["case"], "device": header["device"],
                             "isa": header["isa"], "seed": o.seed, "noise": o.noise, "dynamics": o.dynamics, "area": o.area, "rays": o.rays}
                    part.write_text(json.dumps(first) + "\n")
                rows.append(row)
                with part.open("a") as file:
                    file.write(json.dumps(row) + "\n")
                print(f"scene {n}: {row['collided']} collided, {row['arrived']} of {row['robots']} arrived, ratio {row['ratio']:.3f}, "
                      f"robot p50 {row['robot_us']['p50']:.0f} µs, p99 {row['robot_us']['p99']:.0f}", file=sys.stderr, flush=True)
    part.write_text("".join(json.dumps(row) + "\n" for row in [first | {"load": max(row["load"] for row in rows)}, *rows]))
    part.replace(o.out)


if __name__ == "__main__":
    main()
