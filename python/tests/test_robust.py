"""The comparison with do-mpc's robust MPC (lab/peers/robust): both have one problem, and the same episodes (lab/run test-casadi)."""

import sys
from pathlib import Path

import numpy as np
import pytest

import gpc
from gpc import traces

pytest.importorskip("casadi")
pytest.importorskip("do_mpc")
sys.path.insert(0, str(Path(__file__).parents[2] / "lab/peers/robust"))

import compare  # noqa: E402
import peers  # noqa: E402
import reactor  # noqa: E402


def test_derivatives_are_equal():
    ours, theirs, rng = reactor.system().function("ode"), reactor.derivative(), np.random.default_rng(3)
    for _ in range(100):
        of = reactor.episode(3, int(rng.integers(1 << 30)))
        u = np.array([rng.uniform(*box) for box in reactor.ACTION_BOX.values()])
        want = theirs(of.start, u, of.parameters).full().ravel()
        np.testing.assert_allclose(ours(of.start, [*reactor.BEFORE, *of.parameters], u), want, rtol=1e-10, atol=1e-10 * np.abs(want).max())


def test_optima_of_one_plan_are_equal(tmp_path):
    """do-mpc's nominal plan of 20 decisions, and ours of an episode that ends after as many: one transcription, Radau IIA of order 3."""
    file = tmp_path / "trace.jsonl"
    with gpc.nmpc(reactor.system(known=True, steps=reactor.HORIZON, horizon=0, solver={"tolerance": 1e-8}), threads=1) as exact:
        exact.evaluate(episodes=3, seed=4, trace=str(file), progress=False)
    trace = traces.read(str(file))
    mpc = peers.controller(False, **{"ipopt.tol": 1e-10, "ipopt.bound_relax_factor": 0.0})
    assert len(trace.ends) == 3
    for scene, end in zip(trace.scenes, trace.ends):
        start = np.array(scene["s"])
        mpc.parameters["_p", 0] = scene["c"][2:4]
        mpc.reset_history()
        mpc.x0, mpc.u0 = start, reactor.BEFORE
        mpc.set_initial_guess()
        mpc.make_step(start.reshape(-1, 1))
        assert mpc.solver_stats["success"]
        # A stage of do-mpc's has the state before the action: the first is not in our sum.
        want = mpc.solver_stats["iterations"]["obj"][-1] - (start[1] - reactor.REFERENCE) ** 2
        print(f"optimum {end['oracle_cost']:.12g}, do-mpc {want:.12g}")
        assert abs(end["oracle_cost"] - want) <= 1e-6 * want


def test_two_episodes_of_every_controller(monkeypatch, tmp_path):
    """Those that know the plant cost the same, the others more; none breaks a limit, and ours is the same again to the bit."""
    monkeypatch.setattr(reactor, "STEPS", 8)
    monkeypatch.setattr(peers, "WINDOW", 4)

    class Options:
        out, budget = str(tmp_path), ""

    plant, of = reactor.Plant(), [reactor.episode(8, k) for k in range(2)]

    def driven(make):
        controller = make()
        return [compare.drive(controller, plant, e) for e in of]

    makes = compare.controllers(Options)
    del makes["gpc-map-filter"]  # which takes a compilation
    runs = {name: driven(make) for name, make in makes.items()}
    costs = {name: sum(r.cost for r in of) for name, of in runs.items()}
    print(costs)
    least = costs.pop(compare.REFERENCE)
    assert abs(costs.pop("gpc-nmpc-known") - least) <= 0.01 * least
    for name, cost in costs.items():
        assert least < cost, name
    for name, two in runs.items():
        assert not any(r.violated or r.unsolved for r in two), name
        assert all(len(r.times) == 8 and np.isfinite(r.worst) and r.worst <= r.between for r in two), name
    again = driven(makes["gpc-nmpc-filter"])
    assert [(r.cost, r.worst) for r in again] == [(r.cost, r.worst) for r in runs["gpc-nmpc-filter"]]


def test_limits_and_costs_are_those_of_the_example():
    run, path = reactor.Driven(), np.tile([1.0, 0.6, 139.0, 130.0], (3, 1))
    path[1, 2] = 140.5
    reactor.judge(run, np.array([100.0, -2000.0]), np.zeros(2), path)
    assert run.cost == pytest.approx(0.1 + 1e-3) and not run.violated and (run.worst, run.between) == (-1.0, 0.5)
    path[2] = [1.0, 0.7, 140.25, 130.0]
    reactor.judge(run, np.array([100.0, -2000.0]), np.array([100.0, -2000.0]), path)
    assert run.cost == pytest.approx(0.1 + 1e-3 + 0.01) and run.violated and run.worst == 0.25
    path[2] = [0.05, 0.6, 139.0, 130.0]
    run = reactor.Driven()
    reactor.judge(run, np.zeros(2), np.zeros(2), path)
    assert run.violated and run.worst == -1.0
