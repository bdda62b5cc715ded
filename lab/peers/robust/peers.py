"""do-mpc's controllers and estimator of the uncertain reactor, set up as its examples CSTR, cstr_ekf and
rotating_oscillating_masses_mhe_mpc are.

IPOPT has MUMPS, do-mpc's default: MA27, which the example recommends, is in no package of PyPI. Each solver begins at its last
solution, as do-mpc's do.
"""

import warnings

import numpy as np
from reactor import (
    ACTION_BOX, ACTIONS, BEFORE, HORIZON, LOWER, MEASURED, MOVES, NOISE, PARAMETERS, REFERENCE, SPAN, STARTS, STATES, UNCERTAIN, UPPER, model, moments,
)

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # of what else may be installed
    import do_mpc
warnings.filterwarnings("ignore", category=FutureWarning)  # do-mpc calls NumPy on CasADi's matrices

SILENT = {"ipopt.print_level": 0, "ipopt.sb": "yes", "print_time": False}
SCALES = {"T_R": 100, "T_K": 100}, {"F": 100, "Q_dot": 2000}
VALUES = {"alpha": np.array([1.0, 1.05, 0.95]), "beta": np.array([1.0, 1.1, 0.9])}  # of the example's set_uncertainty_values
WINDOW = 20  # periods that are estimated at once: do-mpc's example has 10, with which the errors of C_a and beta are 1.3 times as large


def scaled(of):
    for kind, scales in zip(("_x", "_u"), SCALES):
        for name, scale in scales.items():
            of.scaling[kind, name] = scale


def forget(solver):
    """Begins an episode, without the multipliers of the one before."""
    solver.reset_history()
    solver.flags["initial_run"] = False


def controller(robust, **options):
    """The example's MPC: of n_robust 1, whose tree has nine branches, or of none."""
    m = model()
    mpc = do_mpc.controller.MPC(m)
    mpc.settings.n_horizon, mpc.settings.n_robust, mpc.settings.t_step = HORIZON, int(robust), SPAN
    mpc.settings.state_discretization, mpc.settings.collocation_type = "collocation", "radau"
    mpc.settings.collocation_deg, mpc.settings.collocation_ni = 2, 1
    mpc.settings.nlpsol_opts.update(SILENT | options)
    scaled(mpc)
    error = (m.x["C_b"] - REFERENCE) ** 2
    mpc.set_objective(mterm=error, lterm=error)
    mpc.set_rterm(**dict(zip(ACTIONS, MOVES)))
    for i, name in enumerate(STATES):
        mpc.bounds["lower", "_x", name] = LOWER[i]
        if name != "T_R":
            mpc.bounds["upper", "_x", name] = UPPER[i]
    for name, (lo, hi) in ACTION_BOX.items():
        mpc.bounds["lower", "_u", name], mpc.bounds["upper", "_u", name] = lo, hi
    mpc.set_nl_cons("T_R", m.x["T_R"], ub=UPPER[2], soft_constraint=True, penalty_term_cons=1e2)
    if robust:
        mpc.set_uncertainty_values(**VALUES)
    else:
        mpc.parameters = mpc.get_p_template(1)
        mpc.set_p_fun(lambda now: mpc.parameters)
        mpc.parameters["_p", 0] = [1.0, 1.0]
    mpc.setup()
    return mpc


def estimator(length, arrival_x, arrival_p):
    """A MHE of so many periods, whose arrival cost has these inverse variances."""
    m = model()
    mhe = do_mpc.estimator.MHE(m, list(PARAMETERS))
    mhe.settings.n_horizon, mhe.settings.t_step, mhe.settings.meas_from_data = length, SPAN, False
    mhe.settings.nlpsol_opts.update(SILENT)
    scaled(mhe)
    mhe.set_default_objective(P_x=np.diag(arrival_x), P_v=np.eye(len(MEASURED)) / NOISE**2, P_p=np.diag(arrival_p))
    mhe.measured = mhe.get_y_template()
    mhe.set_y_fun(lambda now: mhe.measured)
    for i, name in enumerate(STATES):
        mhe.bounds["lower", "_x", name] = LOWER[i]
    for name, (lo, hi) in ACTION_BOX.items():
        mhe.bounds["lower", "_u", name], mhe.bounds["upper", "_u", name] = lo, hi
    for name, (lo, hi) in UNCERTAIN.items():
        mhe.bounds["lower", "_p_est", name], mhe.bounds["upper", "_p_est", name] = lo, hi
    mhe.setup()
    return mhe


# Standard deviations of the state before a window, and of the parameters, in the arrival cost: about the errors found on episodes of other seeds.
ARRIVAL_X, ARRIVAL_P = 1 / np.array([0.045, 0.015, 0.03, 0.03]) ** 2, 1 / np.array([0.005, 0.058]) ** 2


class Estimate:
    """do-mpc's MHE from the first measurement on. While there are fewer measurements than a window takes, a MHE of that many periods
    weighs what is known of starts and parameters; do-mpc leaves open what is done there."""

    def __init__(self):
        self.mean, spread = (np.array(v) for v in zip(*(moments(of) for of in STARTS.values())))
        self.p_mean, p_spread = (np.array(v) for v in zip(*(moments(of) for of in UNCERTAIN.values())))
        self.gain = np.zeros(len(STATES))
        self.gain[list(MEASURED)] = spread[list(MEASURED)] ** 2 / (spread[list(MEASURED)] ** 2 + NOISE**2)
        known = 1 / (spread**2 * (1 - self.gain))
        self.growing = [estimator(n, known, 1 / p_spread**2) for n in range(1, WINDOW + 1)]
        self.moving = estimator(WINDOW, ARRIVAL_X, ARRIVAL_P)

    def begin(self):
        self.measured, self.before, self.solved = [], None, True
        for mhe in (*self.growing, self.moving):
            forget(mhe)

    def first(self, y):
        """State and parameters at the first measurement, by what is known of starts."""
        self.start = self.mean.copy()
        for i, v in zip(MEASURED, y):
            self.start[i] += self.gain[i] * (v - self.mean[i])
        return self.start, self.p_mean

    def next(self, y, u):
        """State and parameters after u, by what is measured then."""
        self.measured.append(np.concatenate([y, u]))
        n, full = len(self.measured), len(self.measured) > WINDOW
        mhe = self.moving if full else self.growing[n - 1]
        for k in range(mhe.settings.n_horizon):
            mhe.measured["y_meas", k] = self.measured[k - mhe.settings.n_horizon]
        self._guess(mhe, n)
        x = mhe.make_step(self.measured[-1].reshape(-1, 1)).ravel()
        self.before, self.solved = mhe, mhe.solver_stats["success"]
        return x, np.array(mhe.p_est0.cat).ravel()

    def _guess(self, mhe, n):
        """Begins a MHE at what the one before found, or at what is known."""
        if mhe is self.before:
            return
        if self.before is None:
            mhe.x0, mhe.u0, mhe.p_est0 = self.start, self.measured[-1][2:], self.p_mean
            mhe.set_initial_guess()
            return
        old, new, last = self.before.opt_x_num, mhe.opt_x_num, self.before.settings.n_horizon
        points = range(len(new["_x", 0]))
        for k in range(mhe.settings.n_horizon + 1):
            for point in points:
                new["_x", k, point] = old["_x", min(k, last), point]
        for k in range(mhe.settings.n_horizon):
            new["_u", k], new["_v", k] = old["_u", min(k, last - 1)], old["_v", min(k, last - 1)]
        new["_p_est"] = old["_p_est"]
        mhe.flags["set_initial_guess"] = True
        if n <= WINDOW:
            # What make_step takes for the state before the window, and for the parameters before.
            new["_x", 1, -1], mhe.p_est0 = self.start / np.array(mhe._x_scaling.cat).ravel(), self.p_mean
        else:
            mhe.p_est0 = self.before.p_est0.cat


class Peer:
    """A loop of do-mpc. known gives it state and parameters of the plant, which is then not estimated."""

    def __init__(self, robust, known=False):
        self.robust, self.known = robust, known
        self.mpc = controller(robust)
        self.estimate = None if known else Estimate()

    def begin(self, of):
        self.of, self.t = of, 0
        forget(self.mpc)
        if self.estimate:
            self.estimate.begin()

    def decide(self, y, x, before):
        """The action, by y measured, or by the state x where it is known; before is what was executed."""
        p = self.of.parameters
        if self.estimate:
            x, p = self.estimate.next(y, before) if self.t else self.estimate.first(y)
        if not self.robust:
            self.mpc.parameters["_p", 0] = p
        if not self.t:
            self.mpc.x0, self.mpc.u0 = x, BEFORE
            self.mpc.set_initial_guess()
        self.t += 1
        u = self.mpc.make_step(np.reshape(x, (-1, 1))).ravel()
        self.solved = self.mpc.solver_stats["success"] and (self.estimate is None or self.estimate.solved)
        return np.clip(u, *np.array([*ACTION_BOX.values()]).T)
