"""The comparison with do-mpc's robust MPC (bench/peers/robust): both have one problem, and the same episodes (make test-casadi)."""

import sys
from pathlib import Path

import numpy as np
import pytest

import gpc
from gpc import traces

pytest.importorskip("casadi")
pytest.importorskip("do_mpc")
sys.path.insert(0, str(Path(__file__).parents[2] / "bench/peers/robust"))

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
        exact.evaluate(episodes=3, seed=4, preference=reactor.PREFERENCE, trace=str(file), progress=False)
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
        want = (float(mpc.opt_f_num) if hasattr(mpc, "opt_f_num") else float(mpc.solver_stats["iterations"]["obj"][-1])) - (start[1] - reactor.REFERENCE) ** 2
        print(f"optimum {2 * end['oracle_cost']:.12g}, do-mpc {want:.12g}")
        assert abs(2 * end["oracle_cost"] - want) <= 1e-6 * want


def test_episodes_are_the_same_for_all():
    """Two episodes of every controller that needs no map: the same again to the bit, and costs above the one that knows the plant."""
    class options:
        out, budget = "", ""

    plant, of = reactor.Plant(), [reactor.episode(8, k) for k in range(2)]
    for name, make in compare.controllers(options).items():
        if name == "gpc-map-estimate":
            continue
        runs = [compare.drive(c, plant, e) for c in [make()] for e in of]
        print(name, [(r.cost, r.worst, r.unsolved) for r in runs])
