"""do-mpc's uncertain CSTR: the problem that every controller of compare.py has, its plant, and the episodes."""

import dataclasses
import sys
from pathlib import Path

import casadi as ca
import numpy as np

import gpc

sys.path.append(str(Path(__file__).parents[1] / "imported"))

import models  # noqa: E402

STEPS, HORIZON, SPAN = 50, 20, 0.005  # decisions of an episode and of a plan as do-mpc's example has them, and the period, h
STATES, ACTIONS, PARAMETERS = ("C_a", "C_b", "T_R", "T_K"), ("F", "Q_dot"), ("alpha", "beta")
STARTS = {"C_a": (0.7, 0.9), "C_b": (0.4, 0.6), "T_R": (130.0, 136.0), "T_K": (126.0, 132.0)}  # around the example's 0.8, 0.5, 134.14, 130
UNCERTAIN = {"alpha": (0.95, 1.05), "beta": (0.9, 1.1)}  # between the values of the example's set_uncertainty_values
LOWER, UPPER = np.array([0.1, 0.1, 50.0, 50.0]), np.array([2.0, 2.0, 140.0, 140.0])  # of the states
ACTION_BOX = {"F": (5.0, 100.0), "Q_dot": (-8500.0, 0.0)}
BEFORE, REST = np.zeros(2), np.array([20.0, -2000.0])  # executed before the first decision, as in the example; held about where the reactor is
MEASURED, NOISE = (2, 3), 0.1  # the temperatures with this standard deviation, K, as in do-mpc's example cstr_ekf
REFERENCE, MOVES, MOVE_SCALE = 0.6, np.array([0.1, 1e-3]), np.array([100.0, 2000.0])  # of C_b; weights of the moves over their scales
BETWEEN = 10  # points of each period at which the limits are looked at


def cost(u, before, n):
    """do-mpc's objective of a decision: its stage cost of the state after it, and the example's rterm."""
    return (n[1] - REFERENCE) ** 2 + sum(w * ((u[i] - before[i]) / scale) ** 2 for i, (w, scale) in enumerate(zip(MOVES, MOVE_SCALE)))


def moments(span):
    """Mean and standard deviation of what is drawn from a range."""
    return sum(span) / 2, (span[1] - span[0]) / np.sqrt(12)


def model():
    """do-mpc's Model: temperatures are measured with noise, what was executed is known."""
    m = models.reactor()
    for i in MEASURED:
        m.set_meas(f"{STATES[i]} measured", m.x[STATES[i]], meas_noise=True)
    for name in ACTIONS:
        m.set_meas(f"{name} executed", m.u[name], meas_noise=False)
    m.setup()
    return m


def derivative():
    """dx/dt of (x, u, p) by the hour, do-mpc's own."""
    m = model()
    return ca.Function("reactor", [m.x, m.u, m.p], [m._rhs])


def system(*, known=False, **changed):
    """The same problem for gpc. Where the parameters are known they stand in the context, and states are given."""
    ode = gpc.from_casadi(derivative())
    span = {name: ("", *UNCERTAIN[name]) for name in PARAMETERS}
    y = gpc.System(
        "cstr-uncertain", "do-mpc's stirred tank reactor with uncertain rates",
        state={"C_a": ("mol/L", 0.3, 1.5), "C_b": ("mol/L", 0.3, 0.8), "T_R": ("°C", 120, 140), "T_K": ("°C", 115, 140)},
        context={"F before": "1/h", "Q_dot before": "kJ/h", **span}, action={"F": ("1/h", *ACTION_BOX["F"]), "Q_dot": ("kJ/h", *ACTION_BOX["Q_dot"])},
        scenario={**STARTS, **UNCERTAIN}, period=3600 * SPAN, rest=list(REST), **{"steps": STEPS, "horizon": HORIZON, **changed},
    )
    y.ode(1, stiff=True, span=SPAN)(lambda s, c, u: ode(s, u, [c[2], c[3]]))
    y.initial(lambda p: {"F before": BEFORE[0], "Q_dot before": BEFORE[1]})
    y.memory(lambda u: {"F before": u[0], "Q_dot before": u[1]})
    y.objectives(cost="1")(lambda c, u, n: [cost(u, c[:2], n)])
    units = ("mol/L", "mol/L", "K", "K")
    y.margins({**{f"most {s}": unit for s, unit in zip(STATES, units)}, **{f"least {s}": unit for s, unit in zip(STATES, units)}})(
        lambda n: [*(UPPER[i] - n[i] for i in range(4)), *(n[i] - LOWER[i] for i in range(4))])
    if not known:
        unknown = {name: {"mean": moments(of)[0], "deviation": moments(of)[1], "lo": of[0], "hi": of[1]} for name, of in UNCERTAIN.items()}
        y.measured({STATES[i]: NOISE for i in MEASURED}, unknown=unknown)
    return y


@dataclasses.dataclass
class Episode:
    start: np.ndarray  # [4]
    parameters: np.ndarray  # [2], alpha and beta
    noise: np.ndarray  # [STEPS, 2], of what is measured at each decision


def episode(seed, number):
    """Start and parameters uniform in their ranges, noise normal."""
    rng = np.random.default_rng([seed, number])
    start, parameters = (np.array([rng.uniform(*v) for v in of.values()]) for of in (STARTS, UNCERTAIN))
    return Episode(start, parameters, NOISE * rng.standard_normal((STEPS, len(MEASURED))))


class Plant:
    """CVODES with the tolerances of do-mpc's simulator of this example."""

    def __init__(self):
        x, u, p = ca.SX.sym("x", 4), ca.SX.sym("u", 2), ca.SX.sym("p", 2)
        times = list(np.linspace(0, SPAN, BETWEEN + 1)[1:])
        self.F = ca.integrator("plant", "cvodes", {"x": x, "p": ca.vertcat(u, p), "ode": derivative()(x, u, p)}, 0, times, {"abstol": 1e-10, "reltol": 1e-10})

    def step(self, x, u, parameters):
        """The states [BETWEEN, 4] in a period; the last is that after it."""
        return self.F(x0=x, p=np.concatenate([u, parameters]))["xf"].full().T


@dataclasses.dataclass
class Driven:
    """An episode as the plant had it."""

    cost: float = 0.0
    worst: float = -np.inf  # largest excess of a limit of the temperatures at the ends of periods, K
    between: float = -np.inf  # the same at all points
    violated: bool = False  # any limit, at the end of any period
    times: list = dataclasses.field(default_factory=list)  # of decisions, s
    unsolved: int = 0  # decisions of which the solver says that it found no optimum


TOLERANCE = 1e-6  # of a limit, as IPOPT keeps it


def judge(run, u, before, path):
    """Adds a period to an episode."""
    run.cost += cost(u, before, path[-1])
    over = np.maximum(path - UPPER, LOWER - path)
    run.worst, run.between = max(run.worst, over[-1, 2:].max()), max(run.between, over[:, 2:].max())
    run.violated |= bool((over[-1] > TOLERANCE).any())
