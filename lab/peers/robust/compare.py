"""do-mpc's uncertain CSTR by do-mpc's robust multi-stage MPC with its moving-horizon estimator, and by gpc:

    compare.py [--episodes 100] [--seed 2026] [--budget 30m] [--only NAME] [--out out/robust]

The temperatures alone are measured, with noise; alpha and beta, within the ranges of do-mpc's example, are not known. Every controller has the
same episodes: starts, parameters and noise. The plant is CVODES at do-mpc's tolerances. The limits are those of the example, looked at in
the true state; the cost is its objective, without the penalty of the soft limit. It is compared with that of do-mpc's nominal MPC that knows
state and parameters. Times are of decisions with their estimates, on one thread, by the clock.

Prints a line of a benchmark for each controller, as lab/record keeps them.
"""

import argparse
import os

os.environ.setdefault("OMP_NUM_THREADS", "1")  # MUMPS' products; before NumPy and CasADi load

import time  # noqa: E402

import numpy as np  # noqa: E402
import peers  # noqa: E402
import reactor  # noqa: E402

import gpc  # noqa: E402

KEPT_OFF = 3  # standard deviations, of every limit
REFERENCE = "dompc-nominal-known"


class Ours:
    """A loop of ours. known gives it state and parameters of the plant; window is of the moving horizon, 0 for a Kalman filter."""

    def __init__(self, session, *, known=False, window=0):
        self.known = known
        self.loop = session.loop(estimate=False) if known else session.loop(keep_off=KEPT_OFF, estimate_window=window or None)
        self.solved = True

    def begin(self, of):
        self.of = of
        self.loop.reset()

    def decide(self, y, x, before):
        context = np.array([*before, *(self.of.parameters if self.known else (1.0, 1.0))])  # the last two are not read where they are estimated
        d = self.loop.decide(x if self.known else y, context)
        self.solved = "solver" not in d.fallbacks
        return d.u


def controllers(options):
    """Every controller by its name, made where it is asked for."""
    def exact(known=False, window=0):
        return lambda: Ours(gpc.nmpc(reactor.system(known=known), threads=1), known=known, window=window)

    def compiled():
        file = os.path.join(options.out, "cstr-uncertain.safetensors")
        gpc.compile(reactor.system(), file, budget=options.budget, keep_off=KEPT_OFF).close()
        return Ours(gpc.open(reactor.system(), file, threads=1))

    return {
        REFERENCE: lambda: peers.Peer(False, known=True), "dompc-multistage-mhe": lambda: peers.Peer(True),
        "dompc-multistage-known-state": lambda: peers.Peer(True, known=True), "dompc-nominal-mhe": lambda: peers.Peer(False),
        "gpc-nmpc-known": exact(known=True), "gpc-nmpc-window": exact(window=peers.WINDOW), "gpc-nmpc-filter": exact(), "gpc-map-filter": compiled,
    }


def drive(controller, plant, of):
    """One episode."""
    controller.begin(of)
    run, x, before = reactor.Driven(), of.start, reactor.BEFORE
    for t in range(reactor.STEPS):
        y = x[list(reactor.MEASURED)] + of.noise[t]
        began = time.perf_counter()
        u = controller.decide(y, x, before)
        run.times.append(time.perf_counter() - began)
        run.unsolved += not controller.solved
        path = plant.step(x, u, of.parameters)
        reactor.judge(run, u, before, path)
        x, before = path[-1], u
    return run


def say(name, runs, references):
    """The line of a controller; the interval is that of a mean, of twice its standard error."""
    costs, best = (np.array([r.cost for r in of]) for of in (runs, references))
    above = 100 * (costs - best) / best.mean()
    p50, p99 = np.percentile(1e6 * np.concatenate([r.times for r in runs]), [50, 99])
    print(
        f"BenchmarkRobust/{name} 1 {len(runs)} episodes {sum(r.violated for r in runs)} violated {max(r.worst for r in runs):.4g} worst_K "
        f"{max(r.between for r in runs):.4g} between_K {costs.mean():.9g} mean_cost {above.mean():.6g} above_% {2 * above.std(ddof=1) / np.sqrt(len(runs)):.4g} interval_% "
        f"{p50:.4g} p50_us {p99:.4g} p99_us {sum(r.unsolved for r in runs)} unsolved", flush=True,
    )


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--episodes", type=int, default=100, help="of each controller, at least 2")
    parser.add_argument("--seed", type=int, default=2026, help="of the episodes")
    parser.add_argument("--budget", default="30m", help="time of the compilation")
    parser.add_argument("--only", default="", help="names of controllers, by commas; the first that it is compared with is driven too")
    parser.add_argument("--out", default="out/robust", help="folder of the map; the same command goes on with one that is there")
    options = parser.parse_args()
    os.makedirs(options.out, exist_ok=True)
    plant, references = reactor.Plant(), None
    episodes = [reactor.episode(options.seed, k) for k in range(options.episodes)]
    for name, make in controllers(options).items():
        if options.only and name not in (REFERENCE, *options.only.split(",")):
            continue
        controller = make()
        runs = [drive(controller, plant, of) for of in episodes]
        references = references or runs
        say(name, runs, references)


if __name__ == "__main__":
    main()
