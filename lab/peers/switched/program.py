"""A system's file (docs/reference/system-file.md) as functions: of numbers by NumPy, whose arrays are points side by side, and of CasADi's
expressions. Nothing of gpc is used, so that its plans can be checked by it."""

import json
import math
from itertools import product

import numpy as np

MARGIN = 1e-6  # how far below 0 a margin of a plan may be: solvers keep limits to their tolerances
NEWTON, DIFFERENCE, ROUNDING = 50, 1e-7, 1e-13  # steps of Newton's method, its differences, and where it ends, relative to 1 + |y|
CONSTANTS = {"-0": -0.0, "NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}
OTHERS = {
    "neg": lambda x: -x, "detach": lambda x: x, "add": lambda x, y: x + y, "sub": lambda x, y: x - y, "mul": lambda x, y: x * y,
    "lt": lambda x, y: 1.0 * (x < y), "le": lambda x, y: 1.0 * (x <= y), "eq": lambda x, y: 1.0 * (x == y),
}
NUMPY = {"abs": "abs", "min": "minimum", "max": "maximum", "pow": "power"}
CASADI = {"abs": "fabs", "min": "fmin", "max": "fmax", "pow": "power"}


def operation(name, of):
    """An operation of equations/program by its name, of the module numpy or casadi."""
    if name in OTHERS:
        return OTHERS[name]
    if name == "div":
        return np.divide if of is np else lambda x, y: x / y
    if name == "select":
        return (lambda c, x, y: np.where(c != 0, x, y)) if of is np else of.if_else
    return getattr(of, (NUMPY if of is np else CASADI).get(name, name))


def newton(residual, guess):
    """Where the residual is 0; its derivatives are differences. NaN where there is no end."""
    y = np.array(guess, float)
    for _ in range(NEWTON):
        small = DIFFERENCE * (1 + np.abs(y))
        r = np.array(np.broadcast_arrays(*residual(list(y[:, None] + np.concatenate([np.zeros((len(y), 1)), np.diag(small)], 1)))))
        if not np.isfinite(r).all():
            break
        step = np.linalg.solve((r[:, 1:] - r[:, :1]) / small, -r[:, 0])
        y = y + step
        if (np.abs(step) <= ROUNDING * (1 + np.abs(y))).all():
            return y.tolist()
    return [math.nan] * len(y)


class Switch:
    """An action of few values. state is the place of its value with the periods since its last changes, the youngest first."""

    def __init__(self, d, action):
        self.action, self.values = action, d["values"]
        self.least = d.get("least", [1] * len(self.values))
        self.most, self.window = d.get("most", 0), d.get("window", 0)
        self.cost, self.objective, self.before = d.get("cost", 0.0), d.get("objective"), d.get("before")
        self.changes, self.saturation = max(1, self.most), max(self.window, *self.least)

    def place(self, value):
        return int(np.argmin(np.abs(np.array(self.values) - value)))

    def may(self, state):
        place, ages = state
        return ages[0] >= self.least[place] and (self.most == 0 or ages[self.most - 1] >= self.window)

    def take(self, state, place):
        """The state a period later."""
        ages = state[1] if place == state[0] else [0, *state[1][:-1]]
        return place, [min(self.saturation, a + 1) for a in ages]


class System:
    """The system of a file. Inputs and outputs of its functions are lists of entries."""

    def __init__(self, file):
        with open(file, encoding="utf-8") as f:
            d = json.load(f)
        self.name, self.steps, self.rest = d["name"], d["steps"], d.get("rest") or [0.0] * len(d["action"])
        self.integrator, self.functions = d.get("integrator"), {f["name"]: f for f in d["program"]["functions"]}
        for key in ("rates", "blocks", "delay", "measurement", "escape_steps"):
            if d.get(key):
                raise NotImplementedError(f"{self.name} has {key}, which the peers do not know")
        self.soft, margins = {}, [m["name"] for m in d.get("margins", [])]  # prices of an excess and of its square, by the places of margins
        for soft in d.get("soft") or []:
            if soft.get("priority"):
                raise NotImplementedError(f"{self.name} has priorities of soft limits, which the peers do not know")
            self.soft[margins.index(soft["margin"])] = soft.get("linear", 0.0), soft.get("quadratic", 0.0)
        self.ranges = [(v["lo"], v["hi"]) if "lo" in v else (-math.inf, math.inf) for v in d["state"]]  # typical ones
        self.boxes = [(a.get("lo", -math.inf), a.get("hi", math.inf)) for a in d["action"]]
        names, self.objectives = [a["name"] for a in d["action"]], [j["name"] for j in d["objectives"]]
        self.switches = sorted((Switch(w, names.index(w["action"])) for w in d.get("switches", [])), key=lambda w: w.action)
        self.free = [i for i in range(len(names)) if all(w.action != i for w in self.switches)]
        self.contexts = len(d.get("context", [])) + (0 if d.get("horizon") else 1)

    def call(self, name, *inputs, of=np):
        f = self.functions[name]
        values = [entry for vector in inputs for entry in vector]
        for op, *operands in f["code"]:
            if op == "const":
                values.append(CONSTANTS[operands[0]] if isinstance(operands[0], str) else float(operands[0]))
            else:
                values.append(operation(op, of)(*(values[v] for v in operands)))
        return [values[v] for v in f["results"]]

    def mixed(self, name, s, c, choices, *after, of=np):
        """A function where the action is what each of the choices, pairs of a share and an action, says: the mean by the shares."""
        means = None
        for share, u in choices:
            out = [share * v for v in self.call(name, s, c, u, *after, of=of)]
            means = out if means is None else [a + b for a, b in zip(means, out)]
        return means

    def step(self, s, c, choices, of=np, root=None):
        """The state after an action, as equations/dual computes it. root finds where a function of a list is 0, from a guess; Newton's method."""
        if not self.integrator:
            return self.mixed("step", s, c, choices, of=of)[: len(s)]
        h, x = self.integrator["span_s"] / self.integrator["substeps"], list(s)

        def ode(at):
            return self.mixed("ode", at, c, choices, of=of)

        def moved(by, step):
            return [a + step * b for a, b in zip(x, by)]

        def radau(stages):
            """What is left of the equations of the two stages of Radau IIA of order 3."""
            f, g = ode(stages[: len(x)]), ode(stages[len(x) :])
            ends = [*moved([5 / 12 * a - 1 / 12 * b for a, b in zip(f, g)], h), *moved([3 / 4 * a + 1 / 4 * b for a, b in zip(f, g)], h)]
            return [a - b for a, b in zip(ends, stages)]

        for _ in range(self.integrator["substeps"]):
            if self.integrator["method"] == "radau":
                x = (root or newton)(radau, [*x, *x])[len(x) :]
                continue
            k1 = ode(x)
            k2 = ode(moved(k1, h / 2))
            k3 = ode(moved(k2, h / 2))
            k4 = ode(moved(k3, h))
            x = moved([a + 2 * b + 2 * c + d for a, b, c, d in zip(k1, k2, k3, k4)], h / 6)
        return x

    def context(self, s, c, u, n, of=np):
        """The context after an action that leads to the state n, without what is of switches."""
        return self.call("step", s, c, u, n, of=of) if self.integrator else self.call("step", s, c, u, of=of)[len(s) :]

    def outcome(self, s, c, choices, n, of=np, excess=lambda margin: max(0.0, -margin)):
        """Objectives with the prices of soft limits but not of changes, and the hard margins that are not of switches."""
        margins = self.mixed("margins", s, c, choices, n, of=of) if "margins" in self.functions else []
        beyond = [(*prices, excess(margins[i])) for i, prices in self.soft.items()]
        price = sum(linear * e + quadratic * e * e for linear, quadratic, e in beyond)
        return [j + price for j in self.mixed("objectives", s, c, choices, n, of=of)], [m for i, m in enumerate(margins) if i not in self.soft]

    def started(self, c):
        """The states of the switches in a context; one without them is before an episode."""
        states, rest = [], list(c[self.contexts :])
        for w in self.switches:
            last, *ages = rest[: 1 + w.changes] or [self.rest[w.action] if w.before is None else w.before, *[w.saturation] * w.changes]
            states.append((w.place(last), [round(a) for a in ages]))
            rest = rest[1 + w.changes :]
        return states

    def drive(self, s, c, plan, weights):
        """A plan [decisions, actions] from a state and a context: its cost by weights of the objectives, the smallest margin, decisions that break
        a rule of a switch, whether all are kept, and the states before each decision and after the last."""
        s, states, cost, margin, broken = list(s), self.started(c), 0.0, math.inf, 0
        c, path = list(c[: self.contexts]), [list(s)]
        for u in np.asarray(plan, float).tolist():
            n = self.step(s, c, [(1.0, u)])
            j, margins = self.outcome(s, c, [(1.0, u)], n)
            for i, w in enumerate(self.switches):
                place = w.place(u[w.action])
                changed = place != states[i][0]
                broken += u[w.action] != w.values[place] or (changed and not w.may(states[i]))
                if changed and w.cost:
                    j[self.objectives.index(w.objective)] += w.cost
                states[i] = w.take(states[i], place)
            cost += float(np.dot(weights, j))
            margin = float(np.min([margin, *margins]))  # NaN where one is
            s, c = n, self.context(s, c, u, n)
            path.append(list(s))
        kept = bool(not broken and margin >= -MARGIN and math.isfinite(cost))
        return {"cost": cost if math.isfinite(cost) else None, "margin": margin if math.isfinite(margin) else None, "broken": int(broken), "kept": kept}, path

    def combinations(self, which):
        """All values of some switches together."""
        return product(*(range(len(w.values)) for w in which))
