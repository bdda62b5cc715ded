"""Trains the methods of morl-baselines beside our fronts: `python lab/peers/morl/compare.py [--steps 100000 | --minutes 3] CASE …` prints a JSON array.

CAPQL, PGMORL and GPI-LS (continuous) have their defaults and the environment gpc/mo-CASE-v0, whose reward is minus the objectives. CAPQL and GPI-LS
have --steps decisions for each of --seeds, PGMORL --onpolicy times as many: its defaults are five million. Fewer are less of its two phases in the
same proportion. With --minutes each training has so much CPU time instead. It ends in the middle of an episode, and PGMORL's phases are laid out by the time of
one iteration. Each then drives the plant from the starts of the same test episodes under each weighting of a lattice, as `direct` does with our map.
CAPQL and GPI-LS take the weighting; of PGMORL's archive the policy decides whose own evaluation is best under it. All act by the mean of their policy.

Hypervolume is that of the loops that keep every limit to the end, as a share of the exact front's of the same weightings, in its box; no such loop has
none. Unsafe is a margin below −1e-6 or a lost state. A decision is one call of the policy, with what it needs of its weighting, on one thread. All times are of the CPU.
Each training is kept in --out and not made again; one that was interrupted begins anew.
"""

import argparse
import contextlib
import json
import random
import statistics
import sys
import time
import types
from pathlib import Path

sys.modules["wandb"] = types.ModuleType("wandb")  # where nothing is logged it is closed all the same
sys.modules["wandb"].finish = lambda: None

import gymnasium
import mo_gymnasium
import numpy as np
import torch

import gpc
import gpc.envs
import gpc.envs.gym
from morl_baselines.multi_policy.capql.capql import CAPQL
from morl_baselines.multi_policy.gpi_pd.gpi_pd_continuous_action import GPILSContinuousAction
from morl_baselines.multi_policy.pgmorl.pgmorl import PGMORL, make_env

METHODS = ["capql", "gpi-ls", "pgmorl"]
# PGMORL's defaults: decisions of all policies in one iteration, and iterations of its phases.
ITERATION, WARMUP, EVOLUTION = 2048 * 4 * 6, 80, 20
MOST = 10**9  # decisions of a training that its time ends


class Spent(Exception):
    """The CPU time of a training is spent."""


class Limited(gpc.envs.gym.Env):
    """An environment that ends its training when the time is spent."""

    until, decisions = float("inf"), 0

    def step(self, action):
        Limited.decisions += 1
        if time.process_time() > Limited.until:
            raise Spent
        return super().step(action)


def train(case: str, method: str, steps: int, seconds: float, seed: int):
    """A policy, a function of an observation and weights, and how many decisions it was trained by."""
    name = f"gpc/mo-{case}-v0"
    if name not in gymnasium.registry:
        gymnasium.register(name, entry_point=Limited, disable_env_checker=True, kwargs={"case": case, "mo": True})
    random.seed(seed), np.random.seed(seed), torch.manual_seed(seed)
    start = time.process_time()
    Limited.until = start + seconds
    env, test = mo_gymnasium.make(name, seed=seed), mo_gymnasium.make(name, seed=10_000 + seed)
    worst = -100 * np.ones(env.unwrapped.reward_dim)  # the reference of what is logged alone
    if method == "capql":
        agent = CAPQL(env, seed=seed, log=False, device="cpu")
        with contextlib.suppress(Spent):
            agent.train(steps, test, worst)
        return agent.eval, agent.global_step
    if method == "gpi-ls":
        agent = GPILSContinuousAction(env, seed=seed, log=False, device="cpu")
        with contextlib.suppress(Spent):
            agent.train(steps, test, worst, timesteps_per_iter=min(10_000, steps), checkpoints=False)
        return agent.eval, agent.global_step
    def run(iterations: int) -> PGMORL:
        evolution = max(1, iterations * EVOLUTION // (WARMUP + EVOLUTION))
        agent = PGMORL(name, origin=-worst, warmup_iterations=iterations - evolution, evolutionary_iterations=evolution, seed=seed, log=False, device="cpu")
        with contextlib.suppress(Spent):
            agent.train(iterations * ITERATION, make_env(name, 10_000 + seed, 1, "", 0.995)(), worst)
        return agent

    iterations = steps // ITERATION
    if seconds < float("inf"):  # a tenth of the time says how many fit
        Limited.until, Limited.decisions = start + seconds / 10, 0
        run(WARMUP)
        iterations = int(0.85 * 9 * Limited.decisions / ITERATION)
        Limited.until = start + seconds
    agent = run(max(2, min(WARMUP + EVOLUTION, iterations)))
    wrapper = agent.env.envs[0]
    while not isinstance(wrapper, gymnasium.wrappers.NormalizeObservation):
        wrapper = wrapper.env
    mean, scale = wrapper.obs_rms.mean, np.sqrt(wrapper.obs_rms.var + wrapper.epsilon)
    evaluations = np.array(agent.archive.evaluations)

    def act(observation: np.ndarray, w: np.ndarray) -> np.ndarray:
        network = agent.archive.individuals[int(np.argmax(evaluations @ w))].networks
        x = torch.as_tensor(np.clip((observation - mean) / scale, -10, 10)).float()
        return np.clip(network.actor_mean(x).numpy(), -1, 1)

    return act, agent.global_step


def drive(env, act, episode: int, seed: int, w: np.ndarray) -> tuple[list[float], bool, list[float]]:
    """Sums of the objectives, whether every limit was kept to the end, and the CPU times of the decisions, µs."""
    observation, _ = env.reset(seed=seed, options={"episode": episode})
    sums, safe, times, ended = np.zeros(len(w)), True, [], False
    while not ended:
        start = time.process_time_ns()
        u = act(observation, w)
        times.append((time.process_time_ns() - start) / 1e3)
        observation, _, terminated, truncated, info = env.step(u)
        sums, safe, ended = sums + info["objectives"], safe and bool(np.all(np.asarray(info["margins"]) > -1e-6)), terminated or truncated
    return sums.tolist(), safe and bool(np.isfinite(sums).all()), times


def evaluate(case: str, act, o) -> dict:
    env, weights = gpc.envs.make(case, dtype=np.float64), lattice(o.weightings)
    loops, times = [], []
    for e in range(o.episodes):
        for w in weights:
            sums, safe, took = drive(env, act, e, o.seed, w)
            loops.append([e, sums, safe])
            times += took
    return {"loops": loops, "decision_us": statistics.median(times)}


def lattice(n: int) -> np.ndarray:
    """That of `gpc front --exact`, of two objectives."""
    w = 0.01 + 0.98 * np.linspace(1, 0, n)
    return np.stack([w, 1 - w], axis=1)


def hypervolume(points: np.ndarray, low: np.ndarray, high: np.ndarray) -> float:
    """Of two objectives, in a box that reaches a tenth beyond its largest."""
    volume, last = 0.0, 1.1
    for x, y in sorted(map(tuple, (points - low) / np.where(high > low, high - low, 1))):
        if x < 1.1 and y < last:
            volume, last = volume + (1.1 - x) * (last - y), y
    return volume


def row(name: str, records: list[dict], fronts: dict[int, np.ndarray]) -> dict:
    shares = []
    for r in records:
        each = []
        for e, exact in fronts.items():
            low, high = exact.min(axis=0), exact.max(axis=0)
            kept = np.array([sums for episode, sums, safe in r["loops"] if episode == e and safe]).reshape(-1, 2)
            each.append(hypervolume(kept, low, high) / hypervolume(exact, low, high))
        shares.append(statistics.fmean(each))
    unsafe = [100 * statistics.fmean(not safe for _, _, safe in r["loops"]) for r in records]
    return {
        "name": name, "seeds": len(records), "loops": len(records[0]["loops"]), "hypervolume": statistics.fmean(shares), "hypervolume_worst": min(shares),
        "unsafe_%": statistics.fmean(unsafe), "unsafe_most_%": max(unsafe), "decision_us": statistics.median(r["decision_us"] for r in records),
    } | ({k: statistics.median(r[k] for r in records) for k in ("steps", "training_s")} if "steps" in records[0] else {})


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=100_000)
    parser.add_argument("--onpolicy", type=int, default=50)
    parser.add_argument("--minutes", type=float, help="of CPU time for each training, in place of --steps")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--episodes", type=int, default=20)
    parser.add_argument("--weightings", type=int, default=21)
    parser.add_argument("--seed", type=int, default=2029, help="of the test episodes")
    parser.add_argument("--methods", nargs="+", choices=METHODS, default=METHODS)
    parser.add_argument("--out", type=Path, default=Path("out/morl"))
    parser.add_argument("cases", nargs="+", metavar="CASE")
    o = parser.parse_args()
    torch.set_num_threads(1)
    o.out.mkdir(parents=True, exist_ok=True)
    rows = []
    for case in o.cases:
        tests = f"{o.episodes}x{o.weightings}-{o.seed}"
        fronts = {}
        with gpc.open(case) as s, s.loop("direct") as loop:
            n, box = len(s.spec.state), np.array([[v.lo, v.hi] for v in s.spec.action])
            for e in range(o.episodes):
                exact = s.front(*s.observe(e, seed=o.seed), exact=True, weights=lattice(o.weightings))
                kept = exact.j[exact.feasible & ~exact.dominated] if len(exact["points"]) else np.zeros((0, 2))
                if len(kept) > 1:
                    fronts[e] = kept
            act = lambda x, w: 2 * (loop.decide(x[:n], x[n:], w, fresh=True).u - box[:, 0]) / (box[:, 1] - box[:, 0]) - 1
            rows.append(row(f"BenchmarkMORL/{case}/direct", [evaluate(case, act, o)], fronts))
        for method in o.methods:
            steps, seconds, records = o.steps * (o.onpolicy if method == "pgmorl" else 1), 60 * (o.minutes or float("inf")), []
            if o.minutes:
                steps = MOST
            for seed in range(1, o.seeds + 1):
                file = o.out / f"{case}-{method}-{f'{o.minutes:g}min' if o.minutes else steps}-{seed}-{tests}.json"
                if not file.exists():
                    start = time.process_time()
                    with contextlib.redirect_stdout(sys.stderr):
                        policy, made = train(case, method, steps, seconds, seed)
                    record = {"steps": made, "training_s": time.process_time() - start}
                    with torch.no_grad():
                        record |= evaluate(case, lambda x, w: policy(x.astype(np.float32), w), o)
                    part = file.with_suffix(".part")
                    part.write_text(json.dumps(record))
                    part.replace(file)
                records.append(json.loads(file.read_text()))
            rows.append(row(f"BenchmarkMORL/{case}/{method}", records, fronts))
    print(json.dumps(rows))


if __name__ == "__main__":
    main()
