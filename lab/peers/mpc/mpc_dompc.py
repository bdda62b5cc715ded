"""do-mpc's controller for the systems of the gallery that are do-mpc's own examples.

The models are do_mpc.model.Model and do_mpc.controller.MPC as in its examples CSTR and DIP, with equations, limits and
objectives of systems.py. What is set otherwise than there: limits hold at the end of a period, as ours do and not at
every point of the collocation, and at the end of the horizon too; the uncertain parameters have their nominal values
(n_robust 0); reference and preference are time-varying parameters. The set-up is do-mpc's: its scaling, its default
solver, IPOPT with MUMPS, and the last solution, not shifted, to start from.

A stage of do-mpc costs what the state before the action does, and one of ours what the state after it: the sums over a
horizon differ by the first state's term alone.
"""
import dataclasses
import time
import typing
import warnings

import casadi as ca
import numpy as np

from peers import Check, Decisions, PLAIN, ipopt
from systems import SYSTEMS

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # of what else may be installed
    import do_mpc
warnings.filterwarnings("ignore", category=FutureWarning)  # do-mpc calls NumPy on CasADi's matrices

# The objective is scaled as ours is: to a largest first derivative of one at the start.
SCALED = dict(nlp_scaling_obj_target_gradient=1.0)


@dataclasses.dataclass
class Problem:
    mpc: do_mpc.controller.MPC
    varying: typing.Callable  # (weights, context): values of the time-varying parameters by name
    unit: typing.Callable  # (weights): our cost of one unit of do-mpc's objective


def cstr(given, system, options):
    model = do_mpc.model.Model("continuous")
    x = [model.set_variable("_x", name) for name in ("C_a", "C_b", "T_R", "T_K")]
    u = [model.set_variable("_u", name) for name in ("F", "Q_dot")]
    for name in ("reference", "priority"):
        model.set_variable("_tvp", name)
    for name, slope in zip(("C_a", "C_b", "T_R", "T_K"), system.ode(x, None, u)):
        model.set_rhs(name, slope)
    model.setup()
    x, u = ca.vertsplit(model.x.cat), ca.vertsplit(model.u.cat)

    mpc = do_mpc.controller.MPC(model)
    mpc.settings.n_horizon, mpc.settings.t_step = given["steps"], system.span
    mpc.settings.state_discretization, mpc.settings.collocation_type = "collocation", "radau"
    mpc.settings.collocation_deg, mpc.settings.collocation_ni = 2, 1
    mpc.settings.cons_check_colloc_points, mpc.settings.use_terminal_bounds = False, True
    mpc.settings.nlpsol_opts.update(options)
    mpc.scaling["_x", "T_R"] = mpc.scaling["_x", "T_K"] = 100
    mpc.scaling["_u", "F"], mpc.scaling["_u", "Q_dot"] = 100, 2000
    product = model.tvp["priority"] * system.objectives(x, [model.tvp["reference"], *u], u, x)[0]
    mpc.set_objective(mterm=product, lterm=product)
    # Of the scaled changes: (0.01 · 100)² and (5e-4 · 2000)² of those in units.
    mpc.set_rterm(F=1.0, Q_dot=1.0)
    for i, name in enumerate(("F", "Q_dot")):
        mpc.bounds["lower", "_u", name], mpc.bounds["upper", "_u", name] = given["action_lo"][i], given["action_hi"][i]
    for i, name in ((0, "C_a"), (2, "T_R")):
        mpc.bounds["upper", "_x", name] = system.box[i][1]
    return Problem(mpc, lambda w, c: {"reference": c[0], "priority": w[0] / w[1]}, lambda w: w[1])


def double_pendulum(given, system, options):
    """With our steps as a discrete model, where the example has collocation of degree 3. Its limits are those of the state
    that an action is taken in, so not of the last."""
    model = do_mpc.model.Model("discrete")
    s = model.set_variable("_x", "s", (system.states, 1))
    u = model.set_variable("_u", "force")
    for name in ("position", "swing", "place"):
        model.set_variable("_tvp", name)
    model.set_rhs("s", ca.vertcat(*system.step(ca.vertsplit(s), [u])))
    model.setup()
    x = ca.vertsplit(model.x.cat)

    mpc = do_mpc.controller.MPC(model)
    mpc.settings.n_horizon, mpc.settings.t_step = given["steps"], 1.0
    mpc.settings.nlpsol_opts.update(options)

    def weighted(force):
        energy, way = system.objectives(x, [model.tvp["position"]], [force], x)
        return model.tvp["swing"] * energy + model.tvp["place"] * way

    mpc.set_objective(mterm=weighted(0.0), lterm=weighted(model.u["force"]))
    mpc.set_rterm(force=0.0)
    mpc.bounds["lower", "_u", "force"], mpc.bounds["upper", "_u", "force"] = given["action_lo"][0], given["action_hi"][0]
    mpc.set_nl_cons("obstacle", -ca.vertcat(*system.margins(x)), 0)
    return Problem(mpc, lambda w, c: {"position": c[0], "swing": w[0], "place": w[1]}, lambda w: 1.0)


EXAMPLES = {"cstr": cstr, "double-pendulum": double_pendulum}


class Controller(Decisions):
    def __init__(self, given, options, basin):
        super().__init__(basin)
        self.system = SYSTEMS[given["name"]]()
        self.problem = EXAMPLES[given["name"]](given, self.system, PLAIN | options)
        self.mpc = mpc = self.problem.mpc
        self.template = mpc.get_tvp_template()
        mpc.set_tvp_fun(lambda now: self.template)
        mpc.setup()
        self.values = ca.Function("values", [mpc.nlp["x"], mpc.nlp["p"]], [mpc.nlp["f"], mpc.nlp["g"]])
        self.equal = (mpc.nlp_cons_lb == mpc.nlp_cons_ub).full().ravel() > 0
        self.lost = False

    def place(self, d):
        """Puts the controller into the state of a decision."""
        context = d["contexts"][0]
        for name, value in self.problem.varying(d["weights"], context).items():
            self.template["_tvp", :, name] = value
        if self.system.carried:
            self.mpc.u0 = np.array([context[i] for i in self.system.carried])
        return np.array(d["states"][0])

    def cost(self, d, x):
        """Our cost of do-mpc's variables, and by how much they miss its equations."""
        mpc = self.mpc
        f, g = (v.full().ravel() for v in self.values(x, mpc.opt_p_num.cat))
        first = mpc.lterm_fun(mpc.opt_p_num["_x0"], 0, [], mpc.opt_p_num["_tvp", 0], [])
        return (f[0] - float(first)) * self.problem.unit(d["weights"]), np.abs(g[self.equal]).max()

    def decide(self, d, rest):
        mpc = self.mpc
        state = self.place(d)
        if d["first"] or self.lost:
            before = mpc.u0
            mpc.x0, mpc.u0 = state, np.array(rest)
            mpc.reset_history()
            mpc.set_initial_guess()
            mpc.flags["initial_run"] = False
            mpc.u0 = before
        began = time.process_time()
        mpc.make_step(state)
        took = time.process_time() - began
        self.lost = not mpc.solver_stats["success"]
        self.ended(d, took, None if self.lost else self.cost(d, mpc.opt_x_num.cat)[0])

    def started(self, d):
        """A plan as do-mpc's variables."""
        x = self.mpc.opt_x(0)
        for t, s in enumerate(d["states"]):
            x["_x", t, 0, -1] = ca.DM(s)
        for t, u in enumerate(d["plan"]):
            x["_u", t, 0] = ca.DM(u)
            s, n = d["states"][t:t + 2]
            if self.system.ode:
                # The end of the interval is the last point of the collocation once more.
                for i, point in enumerate((self.system.first_stage(s, d["contexts"][t], u, n), n, n)):
                    x["_x", t + 1, 0, i] = ca.DM(point)
        return x.cat / self.mpc.opt_x_scaling.cat

    def check(self, d, check):
        """Solves from our plan; the options are to be the exact ones."""
        mpc, ours, state = self.mpc, self.started(d), self.place(d)
        mpc.opt_p_num["_x0"], mpc.opt_p_num["_u_prev"], mpc.opt_p_num["_tvp"] = state, mpc.u0, self.template["_tvp"]
        cost, off = self.cost(d, ours)

        def solve():
            mpc.opt_x_num.master = ours
            mpc.flags.update(initial_run=False, set_initial_guess=True)
            mpc.make_step(state)
            return mpc.solver_stats["success"], self.cost(d, mpc.opt_x_num.cat)[0], mpc.solver_stats["return_status"]

        check.add(d, max(abs(cost - d["cost"]) / abs(d["cost"]), off), solve)


def timed(given, tolerance, basin):
    return Controller(given, ipopt(tolerance, **SCALED), basin)


def checked(given, exact, basin):
    options = {"ipopt": exact["ipopt"] | SCALED}
    controller, check = Controller(given, options, basin), Check("do-mpc", given["name"], leaves=True)
    for d in given["decisions"]:
        controller.check(d, check)
    return check
