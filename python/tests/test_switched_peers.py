"""The comparison of systems with switched inputs (lab/peers/switched): its reading of a system's file is gpc's, and its problem is the same."""

import itertools
import sys
from pathlib import Path

import numpy as np
import pytest

import gpc
from gpc import traces

sys.path.insert(0, str(Path(__file__).parents[2] / "lab/peers/switched"))

import program  # noqa: E402
import rooms  # noqa: E402


def everything(steps=8):
    """A system with every operation of the reference, and switches with all that they may have."""
    y = gpc.System(
        "everything", "every operation", state={"x": ("1", -1, 1), "y": ("1", -1, 1)}, context={"k": "1"}, scenario={"x": (-0.9, 0.9), "y": (-0.9, 0.9), "k": (0.2, 0.8)},
        action={"gear": gpc.one_of(-1, 0, 2, least=[1, 2, 3], before=0), "push": ("1", -1, 1), "pump": gpc.on_off("1", least_on=2, most=(2, 5), cost=(0.3, "effort"), before=1)},
        steps=steps, period=0.2,
    )

    @y.ode(span=0.2, substeps=2)
    def _(s, c, u):
        x, z = s.x, s.y
        a = np.sin(x) + np.cos(z) * np.tan(0.5 * x) + np.arcsin(0.4 * np.tanh(z)) - np.arccos(0.4 * np.tanh(x)) + np.arctan(z) + np.sinh(0.3 * x) - np.cosh(0.3 * z)
        b = np.exp(-x * x) + np.log(2 + z * z) + np.sqrt(1 + x * x) + (2 + np.tanh(x)) ** (0.5 + c.k) + np.arctan2(x, 2 + z * z) + np.hypot(x, z) + abs(z) + np.floor(c.k * 7)
        low = np.where(x < z, np.minimum(x, 0.5), np.maximum(z, -0.5)) + np.where(x <= c.k, 0.1, -0.2) / (1 + x * x)
        return 0.2 * a - x + 0.3 * u.gear - low, 0.1 * b - z + u.push * u.pump - 0.4 * c.clock

    y.objectives(distance="1", effort="1")(lambda s, u, n: ((n.x - 0.3) ** 2 + s.y * n.y, u.pump + 0.1 * u.push**2))
    y.margins(right="1", up="1")(lambda n: (9 - n.x, 9 - n.y))
    return y


def stiff():
    """Stages of an implicit integrator."""
    y = gpc.System("stiff", "a fast state", state={"x": ("1", -1, 1), "y": ("1", -1, 1)}, scenario={"x": (-0.9, 0.9), "y": (-0.9, 0.9)}, action={"push": gpc.integer(-1, 1)}, steps=8, period=0.2)
    y.ode(substeps=2, stiff=True)(lambda s, u: (300 * (np.cos(s.y) * u.push - s.x), s.x - s.y**3))
    y.objectives(distance="1")(lambda n: (n.y - 0.3) ** 2)
    return y


@pytest.mark.parametrize("make", [everything, stiff, lambda: rooms.system(3, 8), lambda: rooms.system(2, 8, limits=True)], ids=["everything", "stiff", "rooms", "limits"])
def test_a_file_is_read_as_gpc_reads_it(make, tmp_path):
    """States, objectives, margins and costs of driven episodes are those of gpc's Go to rounding, functions at random points those of its Python."""
    system, file, trace = make(), tmp_path / "system.json", tmp_path / "trace.jsonl"
    system.save(file)
    y, rng = program.System(file), np.random.default_rng(1)
    weights = [1 / len(y.objectives)] * len(y.objectives)
    with gpc.open(str(file), method="search-64", threads=1) as session:
        session.evaluate("search-64", episodes=2, seed=9002, preference=weights, trace=str(trace), progress=False)
    t = traces.read(str(trace))
    for episode, scene, end in zip(t.episodes, t.scenes, t.ends):
        rows = np.flatnonzero(t["episode"] == episode)
        driven, path = y.drive(scene["s"], scene["c"], t["u"][rows], weights)
        np.testing.assert_allclose(path[1:], t["s"][rows], rtol=1e-11, atol=1e-11)
        assert abs(driven["cost"] - end["cost"]) <= 1e-11 * max(1, abs(end["cost"])) and driven["broken"] == 0
        for i in rows:
            n = y.step(t["x"][i], t["c"][i][: y.contexts], [(1.0, t["u"][i])])
            np.testing.assert_allclose(n, t["s"][i], rtol=1e-12, atol=1e-12)
        own = len(end["margins"]) - sum(1 + (max(w.least) > 1) + (w.most > 0) for w in y.switches)
        assert own == 0 or abs(driven["margin"] - min(end["margins"][:own])) <= 1e-11
    sizes = {"s": t["x"].shape[1], "c": y.contexts, "u": len(y.boxes)}
    points = [rng.uniform(-1, 1, (size, 50)) for size in sizes.values()]
    got, ode = np.array(y.call("ode", *points)), system.function("ode")
    for k in range(50):
        np.testing.assert_allclose(got[:, k], ode(*(p[:, k] for p in points)), rtol=1e-12, atol=1e-12)


def test_rules_are_linear_constraints(tmp_path):
    """Plans from contexts within least times and windows: those that the constraints of other solvers allow are those that break no rule, at the same cost."""
    ca = pytest.importorskip("casadi")
    import peers

    everything(6).save(tmp_path / "system.json")
    y, allowed = program.System(tmp_path / "system.json"), 0
    for rules in ([0, 3, 1, 5, 5], [0, 1, 0, 1, 3], [2, 1, 1, 1, 4]):
        p = peers.Problem(y, [0.2, -0.3], [0.5, 0.0, *rules], [0.4, 0.6])
        f, cost, rng = ca.Function("g", [p.w], [p.g]), ca.Function("f", [p.w], [p.f]), np.random.default_rng(2)
        for _ in range(150):
            gear, pump, u = rules[0], rules[2], []
            for change, other in zip(rng.random((6, 2)) < 0.3, rng.integers([3, 2], size=(6, 2))):
                gear, pump = [-1, 0, 2][other[0]] if change[0] else gear, int(other[1]) if change[1] else pump
                u.append([gear, 0.5, pump])
            driven, path = y.drive(p.s, p.c, u, p.weights)
            x = point(p, y, u, path)
            g = np.array(f(x)).ravel()
            holds = (g >= np.array(p.lowest) - 1e-9).all() and (g <= np.array(p.highest) + 1e-9).all()
            assert holds == (driven["broken"] == 0), (rules, u)
            if holds:
                assert abs(float(cost(x)) - driven["cost"]) < 1e-9
                np.testing.assert_array_equal(p.plan(x), u)
                allowed += 1
    assert 50 < allowed < 400
    assert not p.is_quadratic()


def point(p, y, u, path):
    """The variables of a plan: those of each action and its state, then the changes of each switch that has a price or a bound of them."""
    w = []
    for a, n in zip(u, path[1:]):
        w += [a[i] for i in y.free]
        for s in y.switches:
            place = s.place(a[s.action])
            w += [place] if len(s.values) == 2 else [float(i == place) for i in range(len(s.values))]
        w += list(n)
    for s, (place, _) in zip(y.switches, y.started(p.c)):
        if s.cost or s.most:
            places = [place, *(s.place(a[s.action]) for a in u)]
            w += [float(a != b) for a, b in itertools.pairwise(places)]
    return w


@pytest.mark.parametrize("limits, method", [(False, "rk4"), (True, "rk4"), (False, "radau")])
def test_solvers_find_the_optimum_of_a_house(limits, method, tmp_path):
    """One heater, eight periods: the least cost of all plans that the rules allow."""
    pytest.importorskip("casadi")
    import peers

    rooms.system(1, 8, limits).save(tmp_path / "system.json")
    y = program.System(tmp_path / "system.json")
    y.integrator["method"] = method
    weights = [1 / len(y.objectives)] * len(y.objectives)
    p = peers.Problem(y, [20.6], [4.0, 0.0], weights)
    assert p.is_quadratic()
    driven = [y.drive(p.s, p.c, np.array(plan)[:, None], weights)[0] for plan in itertools.product([0, 1], repeat=8)]
    best = min(d["cost"] for d in driven if d["kept"])
    for solver in ("bonmin", *peers.LINEAR):
        answer = peers.solve(solver, p)
        if "left_out" not in answer:
            assert answer["proven"] and answer["kept"] and abs(answer["cost"] - best) < 1e-9, (solver, answer, best)


@pytest.mark.parametrize("name", ["tanks", "navigation"])
def test_benchmarks_of_learning_to_optimize(name, tmp_path):
    """A system's cost of a plan that keeps the limits is that of the benchmark's formula, and SCIP's bound is above the cost of none of our plans."""
    l2o = pytest.importorskip("l2o", reason="no CasADi")
    pytest.importorskip("pyscipopt")
    module, method = {"tanks": (l2o.tanks, "relaxed-512"), "navigation": (l2o.navigation, "nmpc-from-8")}[name]
    module.system().save(tmp_path / "system.json")
    linear = y = program.System(tmp_path / "system.json")
    if name == "navigation":
        module.system(boxes=False).save(tmp_path / "linear.json")
        linear = program.System(tmp_path / "linear.json")
    rng = np.random.default_rng(9001)
    with gpc.open(module.system(), method=method, threads=1) as session:
        for k in range(2):
            scene = module.draw(rng) if name == "navigation" else None
            s, c = (np.array(scene["s"], float), np.array(scene["c"], float)) if scene else session.observe(k, seed=9001)
            ours = l2o.driven(y, session, s, c)
            assert ours["kept"]
            cost, beyond = module.cost(s, c, ours["plan"])
            assert abs(cost - ours["cost"]) <= l2o.ALIKE * cost and beyond < 1
            p = l2o.peers.Problem(linear, s, c, [1.0], module.binaries if scene else None)
            p.system = y
            answer = l2o.peers.solve("scip", p)
            assert answer["proven"] and answer["kept"]
            assert abs(module.cost(s, c, answer["plan"])[0] - answer["cost"]) <= l2o.ALIKE * cost
            assert answer["bound"] <= ours["cost"] + l2o.ALIKE * cost and answer["cost"] <= 1.5 * ours["cost"]
