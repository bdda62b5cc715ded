"""Steps a second of the environments, beside the same plants in NumPy and pandapower.

    python -m gpc.envs.bench [--seconds 5] [--json]

Every row takes random actions, float64, as fast as it can; times are CPU seconds of the
process (all threads) and of the clock. The NumPy plant is Case 1's step with objectives,
priority, margins and reset, written over arrays of all environments at once. pandapower
runs `runpp` on case30 with numba where it is installed, from the results before, as its
documentation recommends for time series.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import time
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gpc.envs.fleet import Fleet


class NumpyIntegrator:
    """Case 1 (convex) for n environments in NumPy, with the constants of docs/explain/integrator.md."""

    dt, horizon, u_max, r_max, beta = 0.2, 20, 1.5, 0.4, 0.1
    axes, centre, rho = np.array([1.2, 0.8]), np.array([0.0, -0.95]), np.array([0.0, 1.6])
    goal, safe = np.array([3.2, 0.0]), np.array([0.5, 1.2])
    q: NDArray[Any]
    v: NDArray[Any]
    before: NDArray[Any]
    p: NDArray[Any]
    low, high = np.array([-4, -1, 0, -0.3, 0, 0.06]), np.array([-3, 1, 0.5, 0.3, 0.3, 0.14])

    def __init__(self, n: int, seed: int) -> None:
        self.rng = np.random.default_rng(seed)
        self.q, self.v, self.before = np.empty((n, 2)), np.empty((n, 2)), np.zeros((n, 2))
        self.p, self.rate, self.t = np.empty(n), np.empty(n), np.zeros(n, np.int64)
        self.reset(np.arange(n))

    def reset(self, at: NDArray[Any]) -> None:
        x = self.rng.uniform(self.low, self.high, (len(at), 6))
        self.q[at], self.v[at], self.p[at], self.rate[at] = x[:, :2], x[:, 2:4], x[:, 4], x[:, 5]
        self.before[at], self.t[at] = 0, 0

    def observe(self) -> NDArray[Any]:
        return np.column_stack((self.q, self.v, self.before, self.p, self.rate, self.t / self.horizon))

    def step(self, a: NDArray[Any]) -> tuple[NDArray[Any], ...]:
        """a in [−1, 1], as the environments take it; observation, reward, objectives, margins, priority, truncated."""
        u = self.u_max * np.clip(a, -1, 1)
        centre = self.centre + self.rho * self.p[:, None]
        psi = (((self.q - centre) / self.axes) ** 2).sum(1)
        d2 = ((self.q - self.goal) ** 2).sum(1)
        first = 1 / (1 + np.exp(2 * d2 / (d2 + 4) - 8 / (1 + np.exp((psi - 1) / 0.6))))
        sigma = np.column_stack((first, 1 - first))
        q = self.q + self.dt * self.v + 0.5 * self.dt**2 * u
        safe = self.safe + self.rho * self.p[:, None]
        objectives = np.column_stack((((q - safe) ** 2).sum(1), ((q - self.goal) ** 2).sum(1) + self.beta * (u**2).sum(1)))
        margins = np.column_stack((
            (((q - centre) / self.axes) ** 2).sum(1) - 1, self.u_max - np.hypot(u[:, 0], u[:, 1]),
            self.r_max - np.hypot(u[:, 0] - self.before[:, 0], u[:, 1] - self.before[:, 1]),
        ))
        self.q, self.v, self.before = q, self.v + self.dt * u, u
        self.p = self.p + self.rate * self.dt
        self.t += 1
        ended = self.t >= self.horizon
        if ended.any():
            self.reset(np.flatnonzero(ended))
        return self.observe(), -(sigma * objectives).sum(1), objectives, margins, sigma, ended


def measure(name: str, count: int, step: Callable[[], object], seconds: float) -> dict[str, Any]:
    """Calls step, which takes count steps, for about some seconds."""
    step()
    clock, cpu, calls = time.perf_counter(), time.process_time(), 0
    while time.perf_counter() - clock < seconds:
        step()
        calls += 1
    clock, cpu = time.perf_counter() - clock, time.process_time() - cpu
    steps = calls * count
    return {"name": name, "steps": steps, "steps_per_second": steps / clock, "cpu_microseconds_per_step": 1e6 * cpu / steps}


def fleet(case: str, n: int, threads: int, cycle: int, seconds: float, spread: float = 1.0) -> dict[str, Any]:
    """Random actions; with spread < 1 about the middle of the box."""
    with Fleet(case, n, seed=991, threads=threads, cycle=cycle, dtype=np.float64, autoreset="same-step", failure_cost=1) as f:
        f.reset()
        actions = [np.asarray(np.random.default_rng(k).uniform(-spread, spread, f.action.shape)) for k in range(8)]
        if cycle:  # every episode that follows is drawn before the clock runs
            for number in range(0, cycle, n):
                f.reset(episodes=(np.arange(n) + number) % cycle)
        at = iter(range(10**12))
        return measure(f"{case}, {n} environments, {f.threads} threads", n, lambda: f.step(actions[next(at) % 8]), seconds)


def pandapower(seconds: float) -> dict[str, Any]:
    """One power flow a step, half of what a dispatch of the environment solves."""
    import pandapower as pp
    import pandapower.networks as networks

    net = networks.case30()
    numba = importlib.util.find_spec("numba") is not None
    rng = np.random.default_rng(0)
    p, q = net.load.p_mw.to_numpy(copy=True), net.load.q_mvar.to_numpy(copy=True)
    pp.runpp(net, numba=numba)

    def step() -> None:
        factor = rng.uniform(0.98, 1.02, len(p))
        net.load["p_mw"], net.load["q_mvar"] = p * factor, q * factor
        pp.runpp(net, numba=numba, init="results", calculate_voltage_angles=False)

    return measure(f"pandapower runpp, case30, {'with' if numba else 'without'} numba, one power flow", 1, step, seconds)


def main() -> None:
    arguments = argparse.ArgumentParser(prog="python -m gpc.envs.bench", description="Steps a second of the environments.")
    arguments.add_argument("--seconds", type=float, default=5.0, help="of each row")
    arguments.add_argument("--threads", type=int, default=0, help="0: as many as processors")
    arguments.add_argument("--json", action="store_true")
    o = arguments.parse_args()
    rows = []
    for n in (64, 4096):
        rows.append(fleet("integrator-convex", n, o.threads, 0, o.seconds))
    plant = NumpyIntegrator(4096, 0)
    actions = np.random.default_rng(0).uniform(-1, 1, (4096, 2))
    rows.append(measure("integrator-convex in NumPy, 4096 environments", 4096, lambda: plant.step(actions), o.seconds))
    for case in ("opf30", "opf30-uncertain"):
        for spread in (1.0, 0.1):
            rows.append(fleet(case, 256, o.threads, 64, o.seconds, spread))
            rows[-1]["name"] += f", actions in ±{spread}"
    if importlib.util.find_spec("pandapower") is not None:
        rows.append(pandapower(o.seconds))
    for case in ("multiagent-static", "multiagent-moving"):
        rows.append(fleet(case, 256, o.threads, 64, o.seconds))
    if o.json:
        print(json.dumps(rows))
        return
    print(f"{'':72} {'steps/s':>12} {'CPU µs/step':>12}")
    for r in rows:
        print(f"{r['name']:72} {r['steps_per_second']:12.0f} {r['cpu_microseconds_per_step']:12.3f}")


if __name__ == "__main__":
    main()
