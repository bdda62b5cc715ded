"""Functions of CasADi as equations: the values are CasADi's, what does not map is refused by name, and optima of do-mpc's and
acados' own example models are IPOPT's (lab/run test-casadi)."""

import math
import sys
from pathlib import Path

import numpy as np
import pytest

import gpc
from gpc import _expression as expression
from gpc import traces

ca = pytest.importorskip("casadi")
pytest.importorskip("do_mpc")
sys.path.insert(0, str(Path(__file__).parents[2] / "lab/peers/imported"))

import models  # noqa: E402

A, b = ca.MX.sym("A", 3, 3), ca.MX.sym("b", 3)
s, n, x2 = ca.MX.sym("s"), ca.MX.sym("n"), ca.MX.sym("x", 2)


def both(f, rng):
    """The outputs of f by CasADi, by numbers, and as it is written down."""
    imported = gpc.from_casadi(f)
    given = [rng.uniform(-1.5, 1.5, f.size_in(i)) for i in range(f.n_in())]
    want = f(*given)
    want = np.concatenate([np.array(ca.densify(w)).reshape(-1, order="F") for w in (want if isinstance(want, (tuple, list)) else [want])])

    def flat(outputs):
        return np.concatenate([expression._objects(o).reshape(-1, order="F") for o in (outputs if isinstance(outputs, tuple) else (outputs,))])

    code, at, vectors = expression.Code(sum(g.size for g in given)), 0, []
    for g in given:
        vectors.append(expression.Vector(np.array([expression.Expression(code, at + i) for i in range(g.size)], object).reshape(g.shape, order="F")))
        at += g.size
    nodes, results, _ = code.needed([code.value(v) for v in flat(imported(*vectors))])
    values = expression.evaluate(nodes, np.concatenate([g.reshape(-1, order="F") for g in given])[:, None])
    return want, flat(imported(*given)).astype(float), np.array([values[v][0] for v in results])


@pytest.mark.parametrize("f", [
    ca.Function("f", [A, b], [ca.mtimes(A, b), ca.if_else(b[0] > 0, b[1], b[2]), ca.norm_2(b), ca.fmax(b[0], b[1]), ca.fmin(b[1], b[2]), ca.atan2(b[0], b[1])]),
    ca.Function("f", [b], [ca.fmod(b[0], b[1]), ca.sign(b[2]), ca.copysign(b[0], b[1]), ca.floor(b[0]), ca.ceil(b[1]), b[0] ** 3, ca.fabs(b[0]) ** b[1]]),
    ca.Function("f", [b], [ca.log1p(ca.fabs(b[0])), ca.expm1(b[1]), ca.asinh(b[2]), ca.atanh(b[0] / 2), ca.acosh(1 + b[1] ** 2), ca.tanh(b[0]), ca.sinh(b[1]), ca.cosh(b[2])]),
    ca.Function("f", [b], [ca.logic_and(b[0] > 0, b[1] > 0), ca.logic_or(b[0] > 0, b[1] > 0), ca.logic_not(b[0] > 0), b[0] != b[1], b[0] == b[0], 1 / b[2], 2 * b[1]]),
    ca.Function("f", [A, b], [ca.solve(A, b, "symbolicqr")]), ca.Function("f", [b], [ca.diag(b), ca.dot(b, b), ca.sum1(b), b[::2], ca.mmax(b)]),
    ca.Function("f", [A], [ca.det(A), A.T, ca.reshape(A, 9, 1), ca.trace(A)]), ca.Function("f", [b], [ca.Function("g", [s], [ca.sin(s) + s]).map(3)(b.T)]),
])
def test_values_are_casadi_s(f):
    rng = np.random.default_rng(2)
    for _ in range(20):
        want, got, written = both(f, rng)
        np.testing.assert_allclose(got, want, rtol=1e-13, atol=1e-14)
        np.testing.assert_allclose(written, want, rtol=1e-13, atol=1e-14)


@pytest.mark.parametrize("f, mark", [
    (ca.Function("f", [A, b], [ca.solve(A, b)]), "is SOLVE, a linear solve"), (ca.Function("f", [s], [ca.erf(s)]), "is ERF"), (ca.Function("f", [b], [ca.logsumexp(b)]), "is LOGSUMEXP"),
    (ca.Function("f", [s, n], [ca.interpolant("k", "linear", [[0, 1.0]], 1)(s, ca.vertcat(n, n))]), "of a table that is an argument"),
    (ca.Function("f", [s], [ca.bspline(s, ca.DM([1, 2, 3, 4.0]), [[0, 0, 0, 0, 4, 4, 4, 4.0]], [3], 1, {})]), 'is BSPLINE, .*ca.interpolant'),
    (ca.Function("f", [x2], [ca.integrator("I", "cvodes", {"x": x2, "ode": ca.vertcat(x2[1], -ca.sin(x2[0]))}, 0, 0.1)(x0=x2)["xf"]]), "is CALL"),
    (ca.SX.sym("x"), "takes a casadi.Function, not a SX"),
])
def test_what_does_not_map_is_refused_by_name(f, mark):
    with pytest.raises(gpc.InputError, match=mark):
        gpc.from_casadi(f)


@pytest.mark.parametrize("kind, options", [("linear", {}), ("bspline", {}), ("bspline", {"degree": [2, 4]}), ("bspline", {"algorithm": "smooth_linear"})])
@pytest.mark.parametrize("dimensions", [1, 2])
@pytest.mark.parametrize("results", [1, 2])
def test_interpolants_are_casadi_s(kind, options, dimensions, results):
    """Values and derivatives, within the grid, at its points and outside of it."""
    rng = np.random.default_rng(3)
    grids = [np.sort(rng.uniform(-2, 2, 7 - k)) for k in range(dimensions)]
    table = rng.normal(size=results * math.prod(len(g) for g in grids))
    options = {k: v[:dimensions] if k == "degree" else v for k, v in options.items()}
    x = ca.MX.sym("x", dimensions)
    k = ca.interpolant("k", kind, [g.tolist() for g in grids], table.tolist(), options)
    slope = ca.Function("slope", [x], [ca.jacobian(k(x), x)])
    f = ca.Function("f", [x], [ca.Function("inner", [x], [ca.sin(k(x))])(x), 2 * k(x)])  # found in functions that call each other
    points = np.concatenate([rng.uniform(-1, 1, (dimensions, 60)), rng.uniform(-4, 4, (dimensions, 60)), np.array([g[:5] for g in grids])], axis=1)
    imported, code = gpc.from_casadi(f), expression.Code(dimensions)
    outputs = imported(expression.Vector([expression.Expression(code, i) for i in range(dimensions)]))
    nodes, at, _ = code.needed([code.value(v) for o in outputs for v in expression._objects(o).reshape(-1)])

    def values(points):
        all = expression.evaluate(nodes, points)
        return np.array([all[v] for v in at])

    np.testing.assert_allclose(values(points), np.concatenate([v.full() for v in f.map(points.shape[1])(points)]), rtol=1e-9, atol=1e-9)
    h, smooth = 1e-6, points[:, :120]
    for i in range(dimensions):
        step = h * np.eye(dimensions)[:, [i]]
        by_differences = (values(smooth + step) - values(smooth - step))[results:] / (4 * h)
        want = np.array([np.array(slope(p))[:, i] for p in smooth.T]).T
        np.testing.assert_allclose(by_differences, want, rtol=1e-5, atol=1e-5 * np.abs(want).max())


def test_a_table_of_an_action_drives():
    x, u = ca.MX.sym("x", 2), ca.MX.sym("u")
    motor = ca.interpolant("motor", "bspline", [np.linspace(-6, 6, 9).tolist()], (3 * np.tanh(np.linspace(-2, 2, 9))).tolist())
    f = gpc.from_casadi(ca.Function("f", [x, u], [ca.vertcat(x[1], motor(u))]))
    y = gpc.System("cart", state={"x": "m", "v": "m/s"}, action={"force": ("N", -5, 5)}, scenario={"x": (-1, 1), "v": (-0.5, 0.5)}, steps=20, period=0.1)
    y.ode()(lambda s, u: f(s, u))
    y.objectives(a="1", b="1")(lambda n, u: (n.x**2 + 0.1 * n.v**2, 0.01 * u.force**2))
    with gpc.nmpc(y, threads=1) as exact:
        assert exact.evaluate("nmpc", episodes=3, seed=1, progress=False)["regret"]["n"] == 3


def test_discrete_is_nlpsol_s():
    x, u = ca.SX.sym("x"), ca.SX.sym("u", 2)
    flow = gpc.from_casadi(ca.Function("flow", [x, u], [ca.if_else(u[0] > 0.5, 1, -0.1 * x) + u[1]]))

    def system(discrete):
        y = gpc.System("tank", state={"x": "m"}, action={"pump": ("1", 0, 1), "valve": ("1", -1, 0)}, scenario={"x": (0, 1)}, steps=10, period=1, discrete=discrete)
        y.ode()(lambda s, u: flow(s, u))
        y.objectives(a="m²")(lambda n: n.x**2)
        return y

    assert '"switches":[{"action":"pump","values":[0,1]}]' in system([True, False]).text()
    with pytest.raises(gpc.InputError, match="the dynamics compare the action 'pump'"):
        system([False, False]).text()


@pytest.mark.parametrize("model", [models.cstr, models.pendulum, models.chain])
def test_optima_are_ipopt_s(model, tmp_path):
    case, weights, file = model(), [0.6, 0.4], tmp_path / "trace.jsonl"
    with gpc.nmpc(case.system, threads=1) as exact:
        r = exact.evaluate(episodes=3, seed=4, preference=weights, trace=str(file), progress=False)
    assert r["safe"] == 1
    trace = traces.read(str(file))
    assert len(trace.ends) == 3
    for scene, end in zip(trace.scenes, trace.ends):
        want = case.ipopt(scene["s"], weights)
        print(f"{case.system.name}: optimum {end['oracle_cost']:.12g}, IPOPT {want:.12g}, relative {abs(end['oracle_cost'] - want) / want:.1e}")
        assert abs(end["oracle_cost"] - want) <= 1e-6 * abs(want)
