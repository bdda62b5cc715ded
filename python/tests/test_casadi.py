"""Functions of CasADi as equations: the values are CasADi's, what does not map is refused by name, and optima of do-mpc's and
acados' own example models are IPOPT's (make test-casadi)."""

import numpy as np
import pytest

import gpc
from gpc import _expression as expression
from gpc import traces

ca = pytest.importorskip("casadi")

A, b = ca.MX.sym("A", 3, 3), ca.MX.sym("b", 3)
s, n, x2 = ca.MX.sym("s"), ca.MX.sym("n"), ca.MX.sym("x", 2)
grid = [list(np.linspace(0, 10, 30))]


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
    (ca.Function("f", [s], [ca.interpolant("k", "bspline", grid, list(np.sin(grid[0])))(s)]), "is CALL"),
    (ca.Function("f", [s], [ca.interpolant("k", "linear", grid, list(np.sin(grid[0])))(s)]), "is CALL"),
    (ca.Function("f", [x2], [ca.integrator("I", "cvodes", {"x": x2, "ode": ca.vertcat(x2[1], -ca.sin(x2[0]))}, 0, 0.1)(x0=x2)["xf"]]), "is CALL"),
    (ca.Function("f", [n], [ca.rootfinder("R", "newton", {"x": s, "p": n, "g": s * s - n})(1, n)]), "is CALL"), (ca.SX.sym("x"), "takes a casadi.Function, not a SX"),
])
def test_what_does_not_map_is_refused_by_name(f, mark):
    with pytest.raises(gpc.InputError, match=mark):
        gpc.from_casadi(f)


def cstr():
    """do-mpc's example CSTR: its Model, as its template_model has it."""
    do_mpc = pytest.importorskip("do_mpc")
    model = do_mpc.model.Model("continuous", "SX")
    C_a, C_b, T_R, T_K = (model.set_variable("_x", name, shape=(1, 1)) for name in ("C_a", "C_b", "T_R", "T_K"))
    F, Q_dot = model.set_variable("_u", "F"), model.set_variable("_u", "Q_dot")
    alpha, beta = model.set_variable("_p", "alpha"), model.set_variable("_p", "beta")
    K0_ab, K0_bc, K0_ad, E_A_ab, E_A_bc, E_A_ad = 1.287e12, 1.287e12, 9.043e9, 9758.3, 9758.3, 8560.0
    H_R_ab, H_R_bc, H_R_ad, Rou, Cp, Cp_k, A_R, V_R, m_k, T_in, K_w, C_A0 = 4.2, -11.0, -41.85, 0.9342, 3.01, 2.0, 0.215, 10.01, 5.0, 130.0, 4032.0, (5.7 + 4.5) / 2.0
    K_1, K_2, K_3 = beta * K0_ab * ca.exp(-E_A_ab / (T_R + 273.15)), K0_bc * ca.exp(-E_A_bc / (T_R + 273.15)), K0_ad * ca.exp(-alpha * E_A_ad / (T_R + 273.15))
    T_dif = model.set_expression(expr_name="T_dif", expr=T_R - T_K)
    model.set_rhs("C_a", F * (C_A0 - C_a) - K_1 * C_a - K_3 * (C_a**2))
    model.set_rhs("C_b", -F * C_b + K_1 * C_a - K_2 * C_b)
    model.set_rhs("T_R", ((K_1 * C_a * H_R_ab + K_2 * C_b * H_R_bc + K_3 * (C_a**2) * H_R_ad) / (-Rou * Cp)) + F * (T_in - T_R) + ((K_w * A_R) * (-T_dif)) / (Rou * Cp * V_R))
    model.set_rhs("T_K", (Q_dot + K_w * A_R * T_dif) / (m_k * Cp_k))
    model.setup()
    f = ca.Function("cstr", [model.x, model.u, model.p], [model._rhs])
    return Case(
        "cstr-do-mpc", lambda x, u: f(x, u, [1.0, 1.0]), dict(
            state={"C_a": "mol/L", "C_b": "mol/L", "T_R": "°C", "T_K": "°C"}, action={"F": ("1/h", 5, 100), "Q_dot": ("kW", -8500, 0)},
            scenario={"C_a": (0.6, 1.0), "C_b": (0.4, 0.6), "T_R": (125, 135), "T_K": (125, 132)}, steps=15, period=0.005 * 3600, rest=[20, -2000], state_scale=[0.3, 0.2, 5, 5],
        ), span=0.005, substeps=4, objectives=lambda x, u, y: ((y[1] - 0.6) ** 2, 1e-3 * (u[0] / 50) ** 2 + 1e-3 * (u[1] / 4000) ** 2), margins=lambda y: [140 - y[2]],
    )


def pendulum():
    """acados' example pendulum_on_cart: export_pendulum_ode_model."""
    M, m, g, length = 1.0, 0.1, 9.81, 0.8
    x, F = ca.SX.sym("x", 4), ca.SX.sym("F")
    cos, sin = ca.cos(x[1]), ca.sin(x[1])
    denominator = M + m - m * cos * cos
    rhs = ca.vertcat(
        x[2], x[3], (-m * length * sin * x[3] * x[3] + m * g * cos * sin + F) / denominator,
        (-m * length * cos * sin * x[3] * x[3] + F * cos + (M + m) * g * sin) / (length * denominator),
    )
    f = ca.Function("pendulum_ode", [x, F], [rhs])
    return Case(
        "pendulum-acados", f, dict(
            state={"x1": "m", "theta": "rad", "v1": "m/s", "dtheta": "rad/s"}, action={"F": ("N", -80, 80)},
            scenario={"x1": (-1, 1), "theta": (-0.5, 0.5), "v1": (-0.5, 0.5), "dtheta": (-0.5, 0.5)}, steps=20, period=0.05, state_scale=[1, 0.3, 2, 2],
        ), span=0.05, substeps=2, objectives=lambda x, u, y: (y[0] ** 2 + 10 * y[1] ** 2, 0.01 * (y[2] ** 2 + y[3] ** 2) + 1e-3 * u[0] ** 2), margins=lambda y: [4 - y[2], y[2] + 4],
    )


def chain():
    """acados' example chain_mass with two masses between the ends, as export_chain_mass_model has its springs."""
    M, mass, spring, rest = 2, 0.033, 1.0, 0.033
    x, u = ca.SX.sym("x", 6 * M + 3), ca.SX.sym("u", 3)
    forces = []
    for i in range(M + 1):
        dist = x[3 * i : 3 * i + 3] - (x[3 * i - 3 : 3 * i] if i else 0)
        forces.append(spring / mass * (1 - rest / ca.norm_2(dist)) * dist)
    rhs = ca.vertcat(x[3 * M + 3 :], u, *(forces[i + 1] - forces[i] + ca.DM([0, 0, -9.81]) for i in range(M)))
    f = ca.Function("chain_mass", [x, u], [rhs])
    names = [f"p{i}{k}" for i in range(M + 1) for k in "xyz"] + [f"v{i}{k}" for i in range(M) for k in "xyz"]
    placed = {f"p{i}{k}": v for i in range(M + 1) for k, v in zip("xyz", (0.3 * (i + 1), 0.0, -0.4 if i < M else 0.0))}
    return Case(
        "chain-acados", f, dict(
            state=dict.fromkeys(names, "m"), action={f"u{k}": ("m/s", -1, 1) for k in "xyz"}, scenario={"y": ("m", 0.05, 0.3)}, steps=10, period=0.2,
        ), span=0.2, substeps=4, objectives=lambda x, u, y: (sum((y[3 * M + k] - (1.0, 0, 0)[k]) ** 2 for k in range(3)) + 0.1 * sum(y[3 * M + 3 + k] ** 2 for k in range(3 * M)),
                                                             0.01 * (u[0] ** 2 + u[1] ** 2 + u[2] ** 2)), margins=lambda y: [y[3 * i + 1] + 0.05 for i in range(M + 1)],
        initial=lambda p: {**placed, **{f"p{i}y": p.y * (i + 1) / (M + 1) for i in range(M + 1)}},
    )


class Case:
    """A model with an optimal control problem that is stated once, for both."""

    def __init__(self, name, f, options, *, span, substeps, objectives, margins, initial=None):
        self.f, self.options, self.span, self.substeps, self.objectives, self.margins = f, options, span, substeps, objectives, margins
        self.system = gpc.System(name, solver={"tolerance": 1e-8}, **options)
        ode = gpc.from_casadi(f if isinstance(f, ca.Function) else self.function())
        self.system.ode(substeps, span=span)(lambda s, u: ode(s, u))
        self.system.objectives(first="1", second="1")(lambda s, u, n: objectives(s, u, n))
        count = len(margins(ca.DM.zeros(len(options["state"]))))
        self.system.margins({f"limit {i}": "" for i in range(count)})(lambda n: margins(n))
        if initial:
            self.system.initial(initial)

    def function(self):
        x, u = ca.SX.sym("x", len(self.options["state"])), ca.SX.sym("u", len(self.options["action"]))
        return ca.Function("f", [x, u], [self.f(x, u)])

    def step(self):
        """RK4 with the system's substeps."""
        f = self.function()
        x, u = ca.SX.sym("x", f.size1_in(0)), ca.SX.sym("u", f.size1_in(1))
        y, h = x, self.span / self.substeps
        for _ in range(self.substeps):
            k1 = f(y, u)
            k2 = f(y + h / 2 * k1, u)
            k3 = f(y + h / 2 * k2, u)
            y = y + h / 6 * (k1 + 2 * k2 + 2 * k3 + f(y + h * k3, u))
        return ca.Function("F", [x, u], [y])

    def ipopt(self, start, weights):
        """The least cost from a start, by multiple shooting."""
        F, steps = self.step(), self.options["steps"]
        bounds = [(v[-2], v[-1]) for v in self.options["action"].values()]
        x, cost, g, least, w, lo, hi, w0 = ca.DM(start), 0, [], [], [], [], [], []
        rest = self.options.get("rest", [0] * len(bounds))
        for t in range(steps):
            u, y = ca.SX.sym(f"u{t}", len(bounds)), ca.SX.sym(f"x{t + 1}", len(start))
            w += [u, y]
            lo += [v for v, _ in bounds] + [-ca.inf] * len(start)
            hi += [v for _, v in bounds] + [ca.inf] * len(start)
            w0 += [*rest, *start]
            limits = self.margins(y)
            g += [F(x, u) - y, *limits]
            least += [0] * len(start) + [0] * len(limits)
            j = self.objectives(x, u, y)
            cost, x = cost + weights[0] * j[0] + weights[1] * j[1], y
        most = [0] * len(start) + [ca.inf] * len(self.margins(ca.DM.zeros(len(start))))
        solver = ca.nlpsol("S", "ipopt", {"x": ca.vertcat(*w), "f": cost, "g": ca.vertcat(*g)},
                           {"print_time": False, "ipopt": {"print_level": 0, "sb": "yes", "tol": 1e-10, "bound_relax_factor": 0, "max_iter": 1000}})
        r = solver(x0=w0, lbx=lo, ubx=hi, lbg=least, ubg=most * steps)
        assert solver.stats()["success"], solver.stats()["return_status"]
        return float(r["f"])


@pytest.mark.parametrize("model", [cstr, pendulum, chain])
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
