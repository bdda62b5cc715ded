"""What users of do-mpc, acados, CasADi, GEKKO and JuMP look for: algebraic states, costs and limits of the end, a free end time."""

import json
import re
import warnings
from pathlib import Path

import numpy as np
import pytest

import gpc
from gpc import _expression as expression
from gpc import traces
from gpc._implicit import Equations


def battery(substeps=2, stiff=True, **more):
    """A lithium-ion cell charged by a power. Current and overpotential are those of Butler and Volmer; a branch of 2 s stands beside periods of 60 s."""
    y = gpc.System(
        "battery", state={"soc": "1", "v": "V", "T": ("K", 290, 320)}, action={"power": ("W", -30, 0)},
        **{"scenario": {"soc": (0.2, 0.6), "v": (-0.01, 0), "T": (295, 303)}, "steps": 12, "period": 60, **more},
    )

    @y.algebraic(current="A", over="V", guess=lambda s, u: (u.power / (3.3 + 0.9 * s.soc), 0))
    def _(s, u, z):
        return z.current - 2.4 * np.sinh(96485 * z.over / (2 * 8.314 * s.T)), u.power - z.current * (3.3 + 0.9 * s.soc - 0.02 * z.current - z.over - s.v)

    @y.ode(substeps, stiff=stiff)
    def _(s, z):
        return -z.current / 8280, (0.01 * z.current - s.v) / 2, (z.current * (0.02 * z.current + z.over + s.v) - 0.1 * (s.T - 298)) / 40

    @y.objectives(charge="1", heat="W")
    def _(n, z):
        return (n.soc - 0.9) ** 2, 1e-3 * z.current * (0.02 * z.current + z.over)

    @y.margins(voltage="V", warmth="K")
    def _(n, zn):
        return 4.25 - (3.3 + 0.9 * n.soc - 0.02 * zn.current - zn.over - n.v), 311 - n.T

    return y


def slopes(code, results, inputs):
    """First and second derivatives [results, inputs], [results, inputs, inputs] of results, by the rules of a program: through a detach there are none."""
    first, second = expression.Code(inputs), []
    jacobian = Equations(code, results, inputs).values([expression.Expression(first, i) for i in range(inputs)], True)[1]
    for row in jacobian:
        nodes = [expression.Expression(first, first.value(v)) for v in row]
        second.append(Equations(first, nodes, inputs))
    return lambda x: (np.array([s.values(x)[0] for s in second], float), np.array([s.values(x, True)[1] for s in second], float))


RESIDUALS = [
    lambda z, p: [z[0] ** 3 + z[0] - p[0], z[1] - np.exp(-z[0]) * p[1] - 0.1 * z[1] ** 2],
    lambda z, p: [z[0] + np.tanh(z[1]) - p[0] * p[1], np.sin(z[0]) + 2 * z[1] - p[1] ** 2],
    lambda z, p: [z[0] * np.sqrt(1 + z[1] ** 2) - p[0] - 1, z[1] / (2 + np.cos(z[0])) + np.arctan(z[1]) - p[1]],
]


def test_every_operation_s_derivatives_are_right():
    """Of the tangents that Newton's iterations go by, against central differences."""
    operations = {
        "sub": lambda x, y: x - 2 * y, "div": lambda x, y: x / y, "neg": lambda x, y: -x * y, "abs": lambda x, y: abs(x) * abs(y - 9), "sqrt": lambda x, y: np.sqrt(x * y),
        "trigonometric": lambda x, y: np.sin(x) + np.cos(y) * np.tan(x / 3), "arcs": lambda x, y: np.arcsin(x / 4) + np.arccos(y / 4) * np.arctan(x),
        "hyperbolic": lambda x, y: np.sinh(x) + np.cosh(y) * np.tanh(x), "exp": lambda x, y: np.exp(x) * np.log(y), "floor": lambda x, y: np.floor(x) * y,
        "pow": lambda x, y: x**y + x**1.7, "atan2": lambda x, y: np.arctan2(x, y), "hypot": lambda x, y: np.hypot(x, y),
        "min": lambda x, y: np.minimum(x, y) + np.minimum(y, x), "max": lambda x, y: np.maximum(x, y) * np.maximum(y, x),
        "select": lambda x, y: np.where(x < y, x**2, 3 * y) + np.where(x >= y, x, np.log(y)) + (x == y),
    }
    for name, f in operations.items():
        for x in (np.array([1.3, 2.1]), np.array([2.6, 0.7])):
            code = expression.Code(2)
            e = Equations(code, [f(*(expression.Expression(code, i) for i in range(2)))], 2)
            h = 1e-6 * np.eye(2)
            want = [(f(*(x + d)) - f(*(x - d))) / 2e-6 for d in h]
            values, got = e.values(list(x), True)
            np.testing.assert_allclose([values[0], *got[0]], [f(*x), *want], rtol=1e-8, atol=1e-8, err_msg=name)


@pytest.mark.parametrize("residual", RESIDUALS)
def test_algebraic_states_and_their_derivatives_are_casadi_s(residual):
    """Values, first and second derivatives are those of CasADi's root finder."""
    ca = pytest.importorskip("casadi")
    z, p = ca.MX.sym("z", 2), ca.MX.sym("p", 2)
    root = ca.rootfinder("root", "newton", ca.Function("g", [z, p], [ca.vertcat(*residual(z, p))]), {"abstol": 1e-14})(ca.DM([0.4, 0.3]), p)
    want = [ca.Function("f", [p], [root]), ca.Function("J", [p], [ca.jacobian(root, p)]), ca.Function("H", [p], [ca.jacobian(ca.jacobian(root, p), p)])]

    code = expression.Code(4)
    inputs = [expression.Expression(code, i) for i in range(4)]
    equations = Equations(code, residual(inputs[2:], inputs[:2]), 2)
    outer = expression.Code(2)
    known = [expression.Expression(outer, i) for i in range(2)]
    solved = equations.solve(known, [0.4, 0.3], 8, "f", ["a", "b"])
    nodes, at, _ = outer.needed([x._value for x in solved])
    of = slopes(outer, solved, 2)
    rng = np.random.default_rng(1)
    for point in rng.uniform(0.2, 0.9, (5, 2)):
        values = expression.evaluate(nodes, point[:, None])
        np.testing.assert_allclose([values[v][0] for v in at], want[0](point).full()[:, 0], rtol=1e-12)
        first, second = of(list(point))
        np.testing.assert_allclose(first, want[1](point).full(), rtol=1e-9, atol=1e-11)
        np.testing.assert_allclose(second.transpose(1, 0, 2).reshape(4, 2), want[2](point).full(), rtol=1e-7, atol=1e-9)


def test_a_stiff_dae_drives():
    y = battery()
    z = y.function("algebraic")([0.5, 0, 298], [0], [-20])
    assert z[0] == pytest.approx(2.4 * np.sinh(96485 * z[1] / (2 * 8.314 * 298))) and z[0] * (3.75 - 0.02 * z[0] - z[1]) == pytest.approx(-20)
    with gpc.nmpc(y, threads=1) as exact:
        r = exact.evaluate("nmpc", episodes=3, seed=1, progress=False)
    assert r["safe"] == 1 and r["regret"]["n"] == 3 and abs(r["regret"]["max_pct"]) < 0.05


def test_optima_of_a_dae_are_ipopt_s(tmp_path):
    """The battery by RK4 without its fast branch, with the algebraic states as variables of IPOPT's at each stage."""
    ca = pytest.importorskip("casadi")
    steps, period, weights, file = 6, 60.0, [0.5, 0.5], tmp_path / "trace.jsonl"
    y = battery(substeps=1, stiff=False, steps=steps, scenario={"soc": (0.2, 0.6), "T": (295, 303)}, solver={"tolerance": 1e-9})
    y.ode(1)(lambda s, z: (-z.current / 8280, 0 * s.v, (z.current * (0.02 * z.current + z.over) - 0.1 * (s.T - 298)) / 40))
    with gpc.nmpc(y, threads=1) as exact:
        exact.evaluate("nmpc", episodes=2, seed=2, preference=weights, trace=str(file), progress=False)
    trace = traces.read(str(file))
    for scene, end in zip(trace.scenes, trace.ends):
        w, g, lo, hi, first = [], [], [], [], []

        def algebraic(s, u):
            z = ca.SX.sym("z", 2)
            w.append(z)
            first.extend([float(-15 / 3.7), -0.05])
            g.append(ca.vertcat(z[0] - 2.4 * ca.sinh(96485 * z[1] / (2 * 8.314 * s[1])), u - z[0] * (3.3 + 0.9 * s[0] - 0.02 * z[0] - z[1])))
            lo.extend([0, 0])
            hi.extend([0, 0])
            return z

        def rate(s, u, z):
            return ca.vertcat(-z[0] / 8280, (z[0] * (0.02 * z[0] + z[1]) - 0.1 * (s[1] - 298)) / 40)

        s, cost = ca.DM([scene["s"][0], scene["s"][2]]), 0
        bounds = []
        for _ in range(steps):
            u = ca.SX.sym("u")
            w.append(u)
            first.append(-15.0)
            bounds.append(u)
            z = algebraic(s, u)
            k1 = rate(s, u, z)
            k2 = rate(a := s + period / 2 * k1, u, algebraic(a, u))
            k3 = rate(a := s + period / 2 * k2, u, algebraic(a, u))
            k4 = rate(a := s + period * k3, u, algebraic(a, u))
            s = s + period / 6 * (k1 + 2 * k2 + 2 * k3 + k4)
            zn = algebraic(s, u)
            cost += weights[0] * (s[0] - 0.9) ** 2 + weights[1] * 1e-3 * z[0] * (0.02 * z[0] + z[1])
            g += [4.25 - (3.3 + 0.9 * s[0] - 0.02 * zn[0] - zn[1]), 311 - s[1], u]
            lo += [0, 0, -30]
            hi += [ca.inf, ca.inf, 0]
        solver = ca.nlpsol("S", "ipopt", {"x": ca.vertcat(*w), "f": cost, "g": ca.vertcat(*g)}, {"print_time": False, "ipopt": {"print_level": 0, "tol": 1e-10, "sb": "yes"}})
        solution = solver(x0=first, lbg=lo, ubg=hi)
        assert solver.stats()["success"]
        assert end["oracle_cost"] == pytest.approx(float(solution["f"]), rel=1e-6)


def diode(**options):
    y = gpc.System("rectifier", state={"q": "V"}, action={"u": ("V", -1, 5)}, scenario={"q": (0, 1)}, steps=10, period=0.1)
    y.algebraic(v="V", **options)(lambda s, u, z: 1e-6 * (np.exp(z.v / 0.026) - 1) - (u.u - s.q - z.v) / 100)
    y.ode()(lambda s, u, z: ((u.u - s.q - z.v) / 10 - 0.1 * s.q,))
    y.objectives(q="V²")(lambda n, u: (n.q - 2) ** 2 + 1e-3 * u.u**2)
    return y


def test_what_newton_does_not_reach_is_refused():
    diode(guess={"v": 0.3}, iterations=14).text()
    with pytest.raises(gpc.InputError, match=r"test_mpc.py:\d+: algebraic: after 3 iterations residual 0 is .*, want 0, where 'v' is .*take more iterations or a guess that is closer"):
        diode(guess={"v": 0.3}, iterations=3).text()
    with pytest.raises(gpc.InputError, match="after 8 iterations .*a guess that is closer"):
        diode().text()
    y = diode(guess={"v": 0.3}, iterations=14)
    y.algebraic(v="V")(lambda s, z: z.v**2 - s.q - 1)  # from 0, where its derivative is 0
    with pytest.raises(gpc.InputError, match=r"test_mpc.py:\d+: algebraic: the guess leads to a division by 0: .*unknowns are not singular"):
        y.text()


@pytest.mark.parametrize("unit", [1e6, 1.0, 1e-6, 1e-13, 1e-200])
def test_unknowns_of_any_unit_are_reached_or_refused(unit):
    def solved(iterations):
        y = gpc.System("u", state={"x": "m"}, action={"a": ("m/s", -2, 2)}, scenario={"x": (0.1, 1)}, steps=10, period=0.1)
        y.algebraic({"z": "A", "none": "A"}, guess={"z": 5 * unit}, iterations=iterations)(lambda s, z: (np.exp(z.z / unit) - 2 - s.x, z.none))
        y.ode()(lambda s, u, z: (u.a - 0.1 * z.z / unit,))
        y.objectives(p="1")(lambda n, u: n.x**2 + 0.1 * u.a**2)
        y.text()
        return y.function("algebraic")([0.5], [0], [0])

    np.testing.assert_allclose(solved(9), [unit * np.log(2.5), 0], rtol=1e-9)
    with pytest.raises(gpc.InputError, match="after 2 iterations residual 0"):
        solved(2)


def test_unknowns_are_checked_along_plans():
    """Newton's iterations are enough where episodes begin, and not where plans lead."""

    def swollen(iterations, **more):
        y = gpc.System("swollen", state={"q": "1"}, action={"u": ("1", -1, 1)}, scenario={"q": (0, 0.02)}, steps=60, period=0.05, **more)
        y.algebraic(v="1", iterations=iterations)(lambda s, z: z.v + z.v**3 - 40 * s.q)
        y.ode()(lambda s, u, z: (u.u - 0.1 * z.v,))
        y.objectives(q="1")(lambda n, u: (n.q - 3) ** 2 + 1e-3 * u.u**2)
        return y

    late = ["swollen: along plans, .*algebraic: after 8 iterations residual 0 is .* where 'v' is"]
    # A rate puts the action before into the context.
    for iterations, says, more in ((8, late, {}), (18, [], {}), (8, late, {"rates": {"u": 1}}), (18, [], {"rates": {"u": 1}})):
        with gpc.nmpc(swollen(iterations, **more), threads=1) as exact, warnings.catch_warnings(record=True) as seen:
            warnings.simplefilter("always")
            exact.evaluate(episodes=2, progress=False)
            exact.evaluate(episodes=2, progress=False)  # says it no more
        assert len(seen) == len(says) and all(re.search(s, str(w.message)) for s, w in zip(says, seen)), [str(w.message) for w in seen]


@pytest.mark.parametrize("change, error", [
    (lambda y: y.algebraic(v="V", guess=3), "guess is 3, want numbers by name, or a function"), (lambda y: y.algebraic(v="V", guess={"w": 3}), r"guess\['w'\] is none of v"), (lambda y: y.algebraic(v="V", guess={"v": lambda s: s.q}), r"guess\['v'\] is <function .*, want a number"),
    (lambda y: y.algebraic(v="V", iterations=0), "iterations is 0, want a number"), (lambda y: y.algebraic(v="V", iterations=10**6), "iterations is 1000000, want a number of Newton's iterations, 1 to 100"),
    (lambda y: y.algebraic(v="V")(lambda s, z: z.v**2), "the guess leads to a division by 0: take more iterations or a guess"), (lambda y: y.algebraic(lambda s, z: z.v), "with the brackets"),
    (lambda y: y.algebraic(v="V")(lambda s, z: (z.v, s.q)), "returns 2 numbers, want 1 residuals: v"), (lambda y: y.algebraic(v="V")(lambda s: s.q), "none of the residuals .* depends on z.v"),
    (lambda y: y.algebraic(v="V")(lambda s, u, z: z.v - np.where(u.u > 2, 1.0, s.q)), "compare the action 'u', and jump where it turns"),
    (lambda y: y.failed(lambda s, z: z.v > 9), "failed asks for z, which depends on the action"), (lambda y: y.failed(lambda s, zn: zn.v > 9), "has a parameter 'zn'"),
    (lambda y: y.objectives(q="V")(lambda n, y: n.q), "has a parameter 'y'; it may ask for .*n \\(the state after the action\\)"),
])
def test_algebraic_states_are_refused_by_name(change, error):
    y = diode(guess={"v": 0.3}, iterations=14)
    with pytest.raises(gpc.InputError, match=error):
        change(y)
        y.text()


@pytest.mark.parametrize("kind", ["newton", "fast_newton", "kinsol"])
def test_root_finders_of_casadi_are_imported(kind):
    """Wherever the unknowns stand among the arguments, with the other results, of expressions and of numbers."""
    ca = pytest.importorskip("casadi")
    z, p = ca.MX.sym("z", 2), ca.MX.sym("p", 2)
    g = ca.Function("g", [p, z], [2 * z[0] * p[1], ca.vertcat(z[0] ** 3 + z[0] - p[0], z[1] - ca.exp(-z[0]) * p[1])])
    root = ca.rootfinder("root", kind, g, {"implicit_input": 1, "implicit_output": 1})
    f = ca.Function("f", [p], [*root(p, ca.vertcat(0.5, 0.5))])
    imported, code = gpc.from_casadi(f), expression.Code(2)
    other, unknowns = imported(expression.Vector([expression.Expression(code, i) for i in range(2)]))
    nodes, at, _ = code.needed([code.value(v) for v in (other, *unknowns)])
    for point in np.random.default_rng(4).uniform(0.2, 0.9, (5, 2)):
        values = expression.evaluate(nodes, point[:, None])
        want = np.concatenate([v.full().reshape(-1) for v in f(point)])
        np.testing.assert_allclose([values[v][0] for v in at], want, rtol=1e-6)
        np.testing.assert_allclose(np.concatenate([np.reshape(v, -1) for v in map(expression._objects, imported(point))]).astype(float), want, rtol=1e-6)
    with pytest.raises(gpc.InputError, match=r"root of CasADi: after 2 iterations residual 0 is .*'i1\[[01]\]'"):
        gpc.from_casadi(f, iterations=2)([30.0, 1.0])


def oscillator(**more):
    """CasADi's Van der Pol oscillator, brought to rest."""
    y = gpc.System("vdp", state={"x1": "1", "x2": "1"}, action={"u": ("1", -1, 1)}, scenario={"x1": (-0.2, 0.5), "x2": (0.5, 1)}, **{"steps": 20, "period": 0.25, **more})
    y.ode(2)(lambda s, u: ((1 - s.x2**2) * s.x1 - s.x2 + u.u, s.x1))
    y.objectives(cost="1")(lambda s, u: 0.25 * (s.x1**2 + s.x2**2 + u.u**2))
    return y


def test_costs_and_limits_of_the_end():
    y = oscillator()
    y.terminal_objectives(cost="1", end="1")(lambda n: (5 * n.x1**2, n.x2**2))
    y.terminal_margins(near="1")(lambda n: 0.01 - n.x1**2 - n.x2**2)
    y.margins(x1="1")(lambda n: n.x1 + 0.5)
    for k in range(20):
        j, m = (y.function(f)([0.1, 0.2], [k / 20], [0], [0.3, 0.4]) for f in ("objectives", "margins"))
        assert j == pytest.approx([0.0125 + (0.45 if k == 19 else 0), 0.16 if k == 19 else 0]) and m[0] == 0.8
        assert m[1] == pytest.approx(-0.24) if k == 19 else m[1] > 100
    assert not [f for f in y.check() if f["of"] == "margin near"], "that random actions do not end there is no hint"
    with gpc.nmpc(y, threads=1) as exact:
        assert [v.name for v in exact.spec.objectives] == ["cost", "end"] and [v.name for v in exact.spec.margins] == ["x1", "near"]
        r = exact.evaluate("nmpc", episodes=3, seed=1, progress=False)
    assert r["safe"] == 1 and r["regret"]["n"] == 3 and r["margin_min"] < 0.01 and abs(r["regret"]["max_pct"]) < 0.05


def test_a_system_of_the_end_alone():
    y = oscillator()
    y._functions.pop("objectives")
    y._objectives = {}
    y.terminal_objectives(end="1")(lambda n: n.x1**2 + n.x2**2)
    assert json.loads(y.text())["objectives"] == [{"name": "end", "unit": "1"}]


def test_the_end_is_refused_where_there_is_none():
    y = oscillator(horizon=10)
    for decorator in (y.terminal_objectives, y.terminal_margins):
        with pytest.raises(gpc.InputError, match="a system with horizon=10: it runs on, and has no last decision"):
            decorator(end="1")
    y = oscillator()
    y.margins(near="1")(lambda n: n.x1 + 9)
    y.terminal_margins(near="1")(lambda n: n.x1)
    with pytest.raises(gpc.InputError, match=r"test_mpc.py:\d+: terminal_margins has 'near', which margins have too, give it another name"):
        y.text()
    y = oscillator()
    y.terminal_objectives(cost="m")(lambda n: n.x1)
    with pytest.raises(gpc.InputError, match="terminal_objectives has 'cost', which objectives have too, in 1: want the same unit, or another name"):
        y.text()


def test_a_soft_limit_of_the_end():
    """It is exceeded where it costs less than to keep it, and needs a range, by which its excess is smoothed."""
    reached = {}
    for price in (0.01, 1e3):
        y = oscillator(soft={"near": price})
        y.terminal_margins(near=("1", 0, 1))(lambda n: 0.001 - n.x1**2 - n.x2**2)
        with gpc.nmpc(y, threads=1) as exact:
            reached[price] = exact.evaluate("nmpc", episodes=2, seed=1, progress=False)["soft"][0]["largest"]
    assert reached[0.01] > 1e-3 > 1e-5 > reached[1e3]
    y.terminal_margins(near="1")(lambda n: 0.001 - n.x1**2 - n.x2**2)
    with pytest.raises(gpc.InputError, match=r"soft\['near'\] is a limit of the end, .*give it a range"):
        y.text()


def sprint(**more):
    y = gpc.System("sprint", state={"x": "m", "v": "m/s"}, scenario={"x": (-2, -0.5)}, steps=10, **{"action": {"a": ("m/s²", -2, 2)}, "time": gpc.free_time(0.01, 0.5), **more})
    y.ode()(lambda s, u: (s.v, u.a))
    y.objectives(time="s")(lambda u: u.duration + 0.01 * u.duration**2)
    y.terminal_margins({k: "" for k in "abcd"})(lambda n: (1e-3 - n.x, 1e-3 + n.x, 1e-3 - n.v, 1e-3 + n.v))
    return y


def test_a_free_end_time(tmp_path):
    """From rest to rest over a distance d within an acceleration a takes 2√(d/a)."""
    file = tmp_path / "trace.jsonl"
    with gpc.nmpc(sprint(), threads=1) as exact:
        r = exact.evaluate("nmpc", episodes=3, seed=1, trace=str(file), progress=False)
    assert r["safe"] == 1 and r["regret"]["n"] == 3
    trace = traces.read(str(file))
    for episode, scene in zip(trace.episodes, trace.scenes):
        taken = trace["u"][trace["episode"] == episode][:, 1].sum()
        assert taken == pytest.approx(2 * np.sqrt(-scene["s"][0] / 2), rel=0.01)


def test_a_rest_of_the_users_own_actions_needs_no_duration():
    assert json.loads(sprint(rest=[0.5]).text())["rest"] == json.loads(sprint(rest=[0.5, 0.255]).text())["rest"] == [0.5, 0.255]


def wrong(change):
    y = sprint()
    change(y)
    return y.text()


@pytest.mark.parametrize("build, error", [
    (lambda: sprint(period=0.1), "period is given too"), (lambda: sprint(horizon=4), "horizon says that the plant runs on"), (lambda: sprint(delay=1), "delay counts periods"), (lambda: sprint(forecast={"price": (3, 1)}), "forecast has points"),
    (lambda: sprint(rates={"duration": 0.1}), r"rates\['duration'\]"), (lambda: sprint(action={"duration": ("s", 0, 1)}), r"action\['duration'\] is added by itself"),
    (lambda: sprint(time=3), r"time is 3, want gpc.free_time"), (lambda: gpc.free_time(0, 1), r"free_time\(0, 1\): want the shortest"),
    (lambda: sprint(time=None), "period is None, want the time between two decisions"), (lambda: gpc.free_time("a", 1), "free_time: lo is 'a'"),
    (lambda: wrong(lambda y: (y._functions.pop("ode"), y.step(lambda s, u: (s.x, s.v)))), "sprint.step is the state after a whole period"),
])
def test_a_free_end_time_is_refused_by_name(build, error):
    with pytest.raises(gpc.InputError, match=error):
        build()


def test_a_plan_that_ends_where_it_began():
    """The start stands in the context, so that a limit of the end can be about it."""
    y = gpc.System(
        "cycle", state={"x": "m"}, context={"x0": "m"}, action={"u": ("m/s", -1, 1)}, scenario={"x": (-1, 1)}, steps=10, period=0.2,
        margin_tolerance=1e-5,
    )
    y.initial(lambda p: {"x0": p.x})
    y.ode()(lambda u: (u.u,))
    y.objectives(effort="1")(lambda c, n, u: (n.x - np.sin(6 * c.clock)) ** 2 + 0.01 * u.u**2)
    y.terminal_margins(back="m", forth="m")(lambda c, n: (0.01 - (n.x - c.x0), 0.01 + (n.x - c.x0)))
    with gpc.nmpc(y, threads=1) as exact:
        r = exact.evaluate("nmpc", episodes=10, seed=1, progress=False)
    assert r["safe"] == 1 and r["margin_min"] < 0.011 and r["regret"]["n"] == 10


PAGE = (Path(__file__).parents[2] / "docs/how-to/from-mpc.md").read_text()
SECTIONS = dict(re.findall(r"^## (.*?)\n(.*?)(?=^## |\Z)", PAGE, re.M | re.S))


def of_the_page(section):
    """The system of a section of docs/how-to/from-mpc.md, and its text."""
    (text,) = re.findall(r"```python\n(.*?)```", SECTIONS[section], re.S)
    known = {}
    exec(compile(text, section, "exec"), known)
    return next(v for v in known.values() if isinstance(v, gpc.System)), text


@pytest.mark.parametrize("section", SECTIONS)
def test_systems_of_the_page_are_decided(section):
    """Each is safe and has its optima, and what its table says of it stands in it."""
    y, text = of_the_page(section)
    named = [code for line in SECTIONS[section].splitlines() if line.startswith("|") for code in re.findall(r"`(.*?)`", line.split(" | ")[-1]) if f"{y.name}." in code or '":' in code]
    general = ("gpc.", 'soft={"name": (')
    assert named and all(code in text or code.startswith(general) for code in named), [c for c in named if c not in text]
    with gpc.nmpc(y, threads=1) as exact:
        r = exact.evaluate("nmpc", episodes=2, seed=1, progress=False)
    assert r["safe"] == 1 and r["regret"]["n"] == 2


def test_the_race_is_opti_s(tmp_path):
    """The time of the lap is within 1 % that of Opti's with as many even periods."""
    ca = pytest.importorskip("casadi")
    y, file = of_the_page("CasADi, Opti")[0], tmp_path / "trace.jsonl"
    with gpc.nmpc(y, threads=1) as exact:
        exact.evaluate("nmpc", episodes=2, seed=3, trace=str(file), progress=False)
    trace = traces.read(str(file))
    for episode, scene in zip(trace.episodes, trace.scenes):
        opti, N = ca.Opti(), 30
        X, U, T = opti.variable(2, N + 1), opti.variable(1, N), opti.variable()
        opti.minimize(T)
        for k in range(N):
            h, rate = T / N, lambda x, u=U[:, k]: ca.vertcat(x[1], u - x[1])
            a = rate(X[:, k])
            b = rate(X[:, k] + h / 2 * a)
            c = rate(X[:, k] + h / 2 * b)
            opti.subject_to(X[:, k + 1] == X[:, k] + h / 6 * (a + 2 * b + 2 * c + rate(X[:, k] + h * c)))
        opti.subject_to(X[1, 1:] <= 1 - ca.sin(2 * ca.pi * X[0, 1:]) / 2)
        opti.subject_to(opti.bounded(0, U, 1))
        opti.subject_to(X[:, 0] == ca.DM(scene["s"]))
        opti.subject_to(X[0, N] == 1)
        opti.subject_to(T >= 0)
        opti.set_initial(X[1, :], 1)
        opti.set_initial(T, 1)
        opti.solver("ipopt", {"print_time": False}, {"print_level": 0, "sb": "yes"})
        assert trace["u"][trace["episode"] == episode][:, 1].sum() == pytest.approx(opti.solve().value(T), rel=0.01)


def test_references_of_a_plant_that_runs_on_leave_as_much_behind():
    """A store at a price that swings never comes to rest. Its reference sold what it held at the end, 0.4 % below the exact controller."""
    turn = np.exp(2j * np.pi / 24)
    y = gpc.System("tides", "a store at a price that swings", state={"e": ("MWh", 0, 10), "re": ("€/kWh", -1, 1), "im": ("€/kWh", -1, 1)}, action={"buy": ("MW", 0, 4)},
                   scenario={"e": (2, 8), "size": (0.1, 0.3), "phase": (0, 6.28)}, steps=72, period=3600, horizon=48, rest=[1.0])
    y.initial(lambda p: {"e": p.e, "re": p.size * np.cos(p.phase), "im": p.size * np.sin(p.phase)})
    y.step(lambda s, u: (0.99 * s.e + u.buy - 1, turn.real * s.re - turn.imag * s.im, turn.imag * s.re + turn.real * s.im))
    y.objectives(cost="€")(lambda s, u: 2 + (0.4 + s.re) * u.buy + 0.02 * u.buy**2)
    y.margins(full="MWh", empty="MWh")(lambda n: (9.5 - n.e, n.e - 0.5))
    with gpc.nmpc(y, threads=1) as session:
        of = {m: session.evaluate(m, episodes=2, seed=5, progress=False) for m in ("mpc-8", "nmpc", "oracle")}
    assert abs(of["nmpc"]["regret"]["mean_pct"]) < 1e-3 and abs(of["oracle"]["regret"]["mean_pct"]) < 1e-3
    # The last spends what it had to leave, which is no better optimum.
    assert of["mpc-8"]["regret"]["mean_pct"] < of["mpc-8"]["regret"]["max_pct"] and "best_known" not in of["mpc-8"]
