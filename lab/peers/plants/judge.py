"""IPOPT as a judge of plans: a system's file in CasADi's expressions, by multiple shooting to the end of an episode. Costs are those of a roll-out of the
exact equations; corners are followed down by smooth ones, as IPOPT needs."""

import json
import math
import sys
from pathlib import Path

import casadi as ca
import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1] / "switched"))

import program  # noqa: E402

WIDTHS = (1e-2, 1e-3, 1e-5)  # of corners, one after another
KEPT = 1e-6  # how far below 0 a margin of its plan may be


class Judge:
    """The optimal control problem of a file by the preference."""

    def __init__(self, file, weights):
        d = json.loads(Path(file).read_text(encoding="utf-8"))
        if d.get("measurement") or d.get("switches"):
            raise NotImplementedError(f"{d['name']} is measured or switched, which the judge does not know")
        self.functions, self.integrator, self.weights = {f["name"]: f for f in d["program"]["functions"]}, d.get("integrator"), weights
        self.states, self.actions, self.steps = len(d["state"]), len(d["action"]), d["steps"]
        self.contexts = self.functions["objectives"]["inputs"][1]["size"]
        self.margins = [m["name"] for m in d.get("margins", [])]
        self.soft = {s["margin"]: (s.get("linear", 0), s.get("quadratic", 0), s.get("priority", 0)) for s in d.get("soft") or []}
        self.low, self.high = (np.array([a.get(k, v) for a in d["action"]]) for k, v in (("lo", -math.inf), ("hi", math.inf)))
        self.rates, self.rest = d.get("rates"), np.array(d.get("rest") or [0] * self.actions, float)
        self.lasting = bool(d.get("horizon"))
        cornered = any(op[0] in ("abs", "min", "max", "hypot") for f in self.functions.values() for op in f["code"])
        self.exact, self.widths = self.problem(0), WIDTHS if cornered or self.soft else (0,)

    def function(self, name, width):
        """A function of the file; its corners are rounded."""

        def absolute(x):
            return ca.sqrt(x * x + width * width)

        smooth = {
            "abs": absolute, "sqrt": lambda x: ca.sqrt(x + width * width), "hypot": lambda x, y: ca.sqrt(x * x + y * y + width * width),
            "min": lambda x, y: (x + y - absolute(x - y)) / 2, "max": lambda x, y: (x + y + absolute(x - y)) / 2,
        }
        f = self.functions[name]
        inputs = [ca.SX.sym(i["name"], i["size"]) for i in f["inputs"]]
        values = [v for i in inputs for v in ca.vertsplit(i)]
        for op, *operands in f["code"]:
            if op == "const":
                values.append(ca.SX(program.CONSTANTS[operands[0]] if isinstance(operands[0], str) else float(operands[0])))
            else:
                of = smooth[op] if width and op in smooth else program.operation(op, ca)
                values.append(of(*(values[v] for v in operands)))
        return ca.Function(name, inputs, [ca.vertcat(*(values[r] for r in f["results"]))])

    def problem(self, width):
        """A step, to the next state and context, and a decision's cost with its hard margins."""
        f = {name: self.function(name, width) for name in self.functions}
        s, c, u = ca.MX.sym("s", self.states), ca.MX.sym("c", self.contexts), ca.MX.sym("u", self.actions)
        if self.integrator is None:
            r = f["step"](s, c, u)
            step = ca.Function("step", [s, c, u], [r[: self.states], r[self.states :]])
        else:
            x = self.integrated(f["ode"], s, c, u)
            step = ca.Function("step", [s, c, u], [x, f["step"](s, c, u, x)])

        def cost(s, c, u, n):
            total, hard = ca.dot(ca.DM(self.weights), f["objectives"](s, c, u, n)), []
            margins = f["margins"](s, c, u, n) if self.margins else ca.MX(0, 1)
            for i, name in enumerate(self.margins):
                if name not in self.soft:
                    hard.append(margins[i])
                    continue
                linear, quadratic, priority = self.soft[name]
                over = -margins[i]
                over = (over + ca.sqrt(over * over + width * width)) / 2 if width else ca.fmax(over, 0)
                total = total + 100**priority * (linear * over + quadratic * over * over)
            return total, ca.vertcat(*hard)

        return step, cost

    def integrated(self, ode, s, c, u):
        """The state after a period, by the integrator of the file."""
        substeps = int(self.integrator["substeps"])
        h, x = self.integrator["span_s"] / substeps, s
        if self.integrator["method"] == "rk4":
            for _ in range(substeps):
                k1 = ode(x, c, u)
                k2 = ode(x + h / 2 * k1, c, u)
                k3 = ode(x + h / 2 * k2, c, u)
                x = x + h / 6 * (k1 + 2 * k2 + 2 * k3 + ode(x + h * k3, c, u))
            return x
        n, z = self.states, ca.MX.sym("z", 2 * self.states)
        p = ca.MX.sym("p", n + self.contexts + self.actions)
        f1, f2 = (ode(y, p[n : n + self.contexts], p[n + self.contexts :]) for y in (z[:n], z[n:]))
        residual = ca.vertcat(z[:n] - p[:n] - h * (5 / 12 * f1 - 1 / 12 * f2), z[n:] - p[:n] - h * (3 / 4 * f1 + 1 / 4 * f2))
        stages = ca.rootfinder("stages", "newton", ca.Function("residual", [z, p], [residual]), {"abstol": 1e-12})
        for _ in range(substeps):
            x = stages(ca.vertcat(x, x), ca.vertcat(x, c, u))[n:]
        return x

    def drive(self, s, c, actions):
        """Cost and least hard margin of a plan."""
        step, cost = self.exact
        total, least = 0.0, math.inf
        for u in actions:
            n, after = step(s, c, ca.DM(u))
            j, hard = cost(s, c, ca.DM(u), n)
            total, least, s, c = total + float(j), min(least, float(ca.mmin(hard)) if hard.numel() else math.inf), n, after
        return total, least

    def solve(self, s, c, guess, counted=None):
        """The least cost of the first decisions that are counted, by IPOPT from rest and from a guess; None where no plan of it keeps the limits."""
        best = None
        for start in (np.tile(np.clip(self.rest, self.low, self.high), (len(guess), 1)), guess):
            plan = start
            try:
                for width in self.widths:
                    plan = self.shoot(width, s, c, plan)
            except RuntimeError:  # a number that is not finite
                continue
            plan = np.clip(plan, self.low, self.high)
            total, least = self.drive(s, c, plan[:counted])
            if math.isfinite(total) and least >= -KEPT and (best is None or total < best):
                best = total
        return best

    def shoot(self, width, start, context, guess):
        """A plan by multiple shooting."""
        step, cost = self.problem(width) if width else self.exact
        s, c, previous, total = ca.DM(start), ca.DM(context), ca.DM(self.rest), 0
        at, ct = s, c  # of the guess
        w, guesses, low, high, g, least, most = [], [], [], [], [], [], []
        for t, tried in enumerate(guess):
            u, x = ca.MX.sym(f"u{t}", self.actions), ca.MX.sym(f"x{t}", self.states)
            n, after = step(s, c, u)
            j, hard = cost(s, c, u, x)
            total, rows = total + j, hard.numel()
            g += [n - x, hard]
            least += [0] * (self.states + rows)
            most += [0] * self.states + [math.inf] * rows
            for i, rate in enumerate(self.rates or ()):
                if rate:
                    g.append(u[i] - previous[i])
                    least.append(-rate)
                    most.append(rate)
            w += [u, x]
            low += [*self.low, *[-math.inf] * self.states]
            high += [*self.high, *[math.inf] * self.states]
            at, ct = step(at, ct, ca.DM(tried))
            guesses += [*tried, *np.array(at).ravel()]
            s, c, previous = x, after, u
        solver = ca.nlpsol("S", "ipopt", {"x": ca.vertcat(*w), "f": total, "g": ca.vertcat(*g)},
                           {"print_time": 0, "ipopt": {"print_level": 0, "max_iter": 600, "tol": 1e-8, "sb": "yes", "max_cpu_time": 20.0}})
        x = np.array(solver(x0=guesses, lbx=low, ubx=high, lbg=least, ubg=most)["x"]).ravel()
        return x.reshape(len(guess), -1)[:, : self.actions]
