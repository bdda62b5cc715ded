"""Example models of do-mpc and acados, as these have them, each with an optimal control problem that is stated once: for gpc, which takes the
model from CasADi, and for IPOPT."""

import casadi as ca

import gpc


def reactor():
    """do-mpc's example CSTR: its Model, as its template_model has it, to be set up."""
    import do_mpc  # which the others do not need

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
    return model


def cstr():
    """The reactor with its nominal parameters."""
    model = reactor()
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

    def program(self, steps, weights, **options):
        """Multiple shooting of so many steps by IPOPT, and the bounds of its call, which takes the start as its parameter."""
        F, bounds, n = self.step(), [(v[-2], v[-1]) for v in self.options["action"].values()], len(self.options["state"])
        x = start = ca.SX.sym("start", n)
        cost, g, least, w, lo, hi = 0, [], [], [], [], []
        for t in range(steps):
            u, y = ca.SX.sym(f"u{t}", len(bounds)), ca.SX.sym(f"x{t + 1}", n)
            w += [u, y]
            lo += [v for v, _ in bounds] + [-ca.inf] * n
            hi += [v for _, v in bounds] + [ca.inf] * n
            limits = self.margins(y)
            g += [F(x, u) - y, *limits]
            least += [0] * n + [0] * len(limits)
            j = self.objectives(x, u, y)
            cost, x = cost + weights[0] * j[0] + weights[1] * j[1], y
        most = ([0] * n + [ca.inf] * len(limits)) * steps
        solver = ca.nlpsol("S", "ipopt", {"x": ca.vertcat(*w), "f": cost, "g": ca.vertcat(*g), "p": start},
                           {"print_time": False, "ipopt": {"print_level": 0, "sb": "yes", "max_iter": 1000, **options}})
        return solver, dict(lbx=lo, ubx=hi, lbg=least, ubg=most)

    def rested(self, start, steps):
        """The variables of a program, the rest held and the state standing still."""
        return [*self.options.get("rest", [0] * len(self.options["action"])), *start] * steps

    def ipopt(self, start, weights):
        """The least cost from a start."""
        steps = self.options["steps"]
        solver, bounds = self.program(steps, weights, tol=1e-10, bound_relax_factor=0)
        r = solver(x0=self.rested(start, steps), p=start, **bounds)
        assert solver.stats()["success"], solver.stats()["return_status"]
        return float(r["f"])
