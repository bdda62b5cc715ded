"""The mixed-integer problem of a whole episode for other solvers: multiple shooting by CasADi, a binary for each switch of two values, an integer for
one of equal steps without rules whose equations are at most quadratic in it, and a binary for each value of the others, of which one is 1. States
whose typical range has nothing below 0, such as levels and concentrations, stay above it.

Where the equations are more than quadratic in a switched action, each function is the mean of what it is at the values, by their binaries (outer
convexification): the same at whole numbers, and a tighter relaxation."""

import importlib.metadata
import multiprocessing
import os
import resource
import signal
import time

import casadi as ca
import numpy as np
from program import MARGIN

SECONDS = 60  # of CPU
GAP = 0.0  # between SCIP's plan and its bound, relative to them, that ends its search
WHOLE = 1e-4  # how far from a whole number a binary may be
COMBINATIONS = 32  # of the values of switches that are convexified, at most


class Problem:
    """minimize f(w) with bounds of w and of g(w); discrete says which of w are whole. more adds to it, given the problem and
    the states after each decision."""

    def __init__(self, system, s, c, weights, more=None):
        self.system, self.s, self.c, self.weights = system, list(s), list(c), weights
        self.w, self.low, self.high, self.guess, self.discrete = [], [], [], [], []
        self.g, self.lowest, self.highest, self.f = [], [], [], ca.SX(0)
        self.u, nodes = [], []
        self.curved = self._curved()
        shares = [[] for _ in system.switches]
        x, context, guess, period = ca.SX(s), ca.SX(list(c[: system.contexts])), list(s), self._period()
        for _ in range(system.steps):
            u, here = self._action(shares)
            ahead = [float(v) for v in system.step(guess, [float(v) for v in ca.vertsplit(context)], self._middle())]
            guess = np.clip(ahead, *np.array(system.ranges).T).tolist() if np.isfinite(ahead).all() else guess
            stages = [self._variable(-np.inf, np.inf, v) for v in guess * (period.size1_in("stages") // len(guess))]
            node = ca.vertcat(*(self._variable(0 if low >= 0 else -np.inf, np.inf, v) for (low, _), v in zip(system.ranges, guess)))
            shared = ca.vertcat(*(v for share in here for v in share))
            slacks = [self._variable(0, np.inf, 0) for _ in system.soft]
            n, context, left, j, margins = period(x, context, ca.vertcat(*u), shared, ca.vertcat(*stages), node, ca.vertcat(*slacks))
            if not context.is_constant():
                raise NotImplementedError(f"{system.name}: the context depends on the state or the action, which the peers do not know")
            for equal in ca.vertsplit(ca.vertcat(n - node, left)):
                self._hold(equal, 0, 0)
            for margin in ca.vertsplit(margins):
                self._hold(margin, 0)
            self.f += ca.dot(ca.DM(self.weights), j)
            nodes.append(x := node)
        self._rules(shares)
        if more:
            more(self, nodes)
        self.w, self.g, self.u = ca.vertcat(*self.w), ca.vertcat(*self.g), ca.horzcat(*self.u).T

    def _variable(self, low, high, guess, discrete=False):
        v = ca.SX.sym(f"w{len(self.w)}")
        self.w.append(v)
        self.low.append(low)
        self.high.append(high)
        self.guess.append(guess)
        self.discrete.append(discrete)
        return v

    def _hold(self, g, low, high=np.inf):
        """low ≤ g ≤ high."""
        g = ca.SX(g)
        if g.is_constant() and low - MARGIN <= float(g) <= high + MARGIN:
            return
        self.g.append(g)
        self.lowest.append(low)
        self.highest.append(high)

    def _period(self):
        """A function of state, context, action, the shares of the values of each switch, the stages of an implicit integrator, the node behind and
        the excesses of soft limits: the state that the decision leads to, the context, what is left of the stages' equations, objectives and margins."""
        y = self.system
        s, c, u, n = (ca.SX.sym(name, size) for name, size in (("s", len(self.s)), ("c", y.contexts), ("u", len(y.boxes)), ("n", len(self.s))))
        shares, stages, left = [ca.vertsplit(ca.SX.sym("share", len(w.values))) for w in y.switches], [], []
        slacks, priced = ca.SX.sym("slack", len(y.soft)), []

        def root(residual, guess):
            here = ca.vertsplit(ca.SX.sym("stages", len(guess)))
            stages.extend(here)
            left.extend(residual(here))
            return here

        def excess(margin):
            priced.append(margin + slacks[len(priced)])
            return slacks[len(priced) - 1]

        at, before, action, node = (ca.vertsplit(v) for v in (s, c, u, n))
        choices = self._choices(action, shares)
        end = y.step(at, before, choices, of=ca, root=root)
        j, margins = y.outcome(at, before, choices, node, of=ca, excess=excess)
        inputs = [s, c, u, ca.vertcat(*(v for share in shares for v in share)), ca.vertcat(*stages) if stages else ca.SX(0, 1), n, slacks]
        outputs = [end, y.context(at, before, action, node, of=ca), left, j, margins + priced]
        names = ["s", "c", "u", "shares", "stages", "n", "slacks"]
        return ca.Function("period", inputs, [ca.vertcat(*o) if o else ca.SX(0, 1) for o in outputs], names, ["end", "after", "left", "j", "margins"])

    def _curved(self):
        """The switches that the equations are more than quadratic in."""
        y = self.system
        s, c, u, n = (ca.SX.sym(name, size) for name, size in (("s", len(self.s)), ("c", y.contexts), ("u", len(y.boxes)), ("n", len(self.s))))
        vectors = [ca.vertsplit(v) for v in (s, c, u, n)]
        functions = [("objectives", 4), ("margins", 4), *([("ode", 3)] if y.integrator else [("step", 3)])]
        outputs = ca.vertcat(*(v for name, size in functions if name in y.functions for v in y.call(name, *vectors[:size], of=ca)))
        curved = ca.which_depends(ca.vec(ca.jacobian(outputs, u)), u, 2)
        return [i for i, w in enumerate(y.switches) if curved[w.action]]

    def _action(self, shares):
        """The variables of an action, with the shares of the values of each switch."""
        u = [None] * len(self.system.boxes)
        for i in self.system.free:
            low, high = self.system.boxes[i]
            u[i] = self._variable(low, high, self._middle()[0][1][i])
        here = []
        for i, w in enumerate(self.system.switches):
            if len(w.values) == 2:
                b = self._variable(0, 1, 0.5, True)
                share = [1 - b, b]
                u[w.action] = w.values[0] + (w.values[1] - w.values[0]) * b
            elif self._counts(i):
                whole = self._variable(0, len(w.values) - 1, (len(w.values) - 1) / 2, True)
                share = [ca.SX(0)] * len(w.values)  # nothing reads them
                u[w.action] = w.values[0] + (w.values[1] - w.values[0]) * whole
            else:
                share = [self._variable(0, 1, 1 / len(w.values), True) for _ in w.values]
                self._hold(sum(share), 1, 1)
                u[w.action] = sum(v * b for v, b in zip(w.values, share))
            here.append(share)
            shares[i].append(share)
        self.u.append(ca.vertcat(*u))
        return u, here

    def _counts(self, i):
        """Whether a switch is an integer that no share is needed of."""
        w = self.system.switches[i]
        return i not in self.curved and np.ptp(np.diff(w.values)) == 0 and max(w.least) == 1 and not w.most and not w.cost

    def _middle(self):
        """The action that the guess is made by: switches at their means."""
        u = [float(np.clip(v, *box)) for v, box in zip(self.system.rest, self.system.boxes)]
        for w in self.system.switches:
            u[w.action] = float(np.mean(w.values))
        return self._choices(u, [[1 / len(w.values)] * len(w.values) for w in self.system.switches])

    def _choices(self, u, here):
        """What System.mixed takes: every combination of the values of the curved switches, with its share."""
        which = [self.system.switches[i] for i in self.curved]
        if np.prod([len(w.values) for w in which]) > COMBINATIONS:
            return [(1.0, u)]
        choices = []
        for places in self.system.combinations(which):
            share, action = 1.0, list(u)
            for i, w, place in zip(self.curved, which, places):
                share, action[w.action] = share * here[i][place], w.values[place]
            choices.append((share, action))
        return choices

    def _rules(self, shares):
        """Least times, changes in a window and their cost, linear in the binaries."""
        y = self.system
        for w, of, (place, ages) in zip(y.switches, shares, y.started(self.c)):
            before = [float(i == place) for i in range(len(w.values))]
            at = [before, *of]
            for i, least in enumerate(w.least):
                for k in range(y.steps):  # a value that begins at k stays until k + least
                    for t in range(k + 1, min(k + least, y.steps)):
                        self._hold(at[t + 1][i] - (at[k + 1][i] - at[k][i]), 0)
            for t in range(min(w.least[place] - ages[0], y.steps)):
                self._hold(of[t][place], 1, 1)
            price = self.weights[y.objectives.index(w.objective)] * w.cost if w.cost else 0
            if not price and not w.most:
                continue
            changes = [self._variable(0, 1, 0) for _ in range(y.steps)]
            for k, change in enumerate(changes):
                for i in range(len(w.values)):
                    self._hold(change - (at[k + 1][i] - at[k][i]), 0)
                if w.most:
                    earlier = sum(a <= w.window - 1 - k for a in ages)
                    self._hold(w.most - earlier - sum(changes[max(0, k - w.window + 1) : k + 1]), 0)
            self.f += price * sum(changes)

    def is_quadratic(self):
        """Whether the cost is quadratic and all else linear."""
        return not any(ca.which_depends(ca.gradient(self.f, self.w), self.w, 2)) and not any(ca.which_depends(self.g, self.w, 2))

    def matrices(self):
        """H, q, r, A, b of ½wᵀHw + qᵀw + r and Aw + b; H and A of CasADi."""
        h, q = ca.hessian(self.f, self.w)
        return ca.Function("m", [self.w], [h, q, self.f, ca.jacobian(self.g, self.w), self.g])(0)

    def plan(self, w):
        """The actions of w, with switches at their nearest values and the rest in its box; None where a binary is not whole."""
        if w is None or not np.isfinite(w).all() or np.abs(w - np.round(w))[self.discrete].max() > WHOLE:
            return None
        u = np.array(ca.Function("u", [self.w], [self.u])(np.where(self.discrete, np.round(w), w)))
        for s in self.system.switches:
            u[:, s.action] = [s.values[s.place(v)] for v in u[:, s.action]]
        return np.clip(u, *np.array(self.system.boxes).T)


def bonmin(p):
    """Branch and bound on nonlinear relaxations by IPOPT, from what the middle of the actions does within the states' typical
    ranges. Its dives find plans where the search does not
    end, which its defaults leave without one. No proof where these are not convex."""
    options = {"discrete": p.discrete, "print_time": False, "bonmin.algorithm": "B-BB", "bonmin.time_limit": SECONDS, "bonmin.max_cpu_time": SECONDS, "bonmin.bb_log_level": 0,
               "bonmin.nlp_log_level": 0, "bonmin.sb": "yes", "bonmin.heuristic_dive_fractional": "yes", "bonmin.heuristic_dive_vectorLength": "yes"}
    solver = ca.nlpsol("bonmin", "bonmin", {"f": p.f, "x": p.w, "g": p.g}, options)
    start = time.process_time()
    r = solver(x0=p.guess, lbx=p.low, ubx=p.high, lbg=p.lowest, ubg=p.highest)
    cpu, status = time.process_time() - start, solver.stats()["return_status"]
    return {"cpu_s": cpu, "status": status, "ended": status == "SUCCESS", "proven": status == "SUCCESS" and p.is_quadratic() and convex(p)}, np.array(r["x"]).ravel()


def convex(p):
    """Whether the quadratic cost is, to rounding."""
    h = np.array(p.matrices()[0])
    used = np.abs(h).max(1) > 0
    return not used.any() or bool(np.linalg.eigvalsh(h[np.ix_(used, used)])[0] >= -1e-9 * np.abs(h).max())


def highs(p):
    """HiGHS, of linear costs: it has no quadratic ones beside whole numbers."""
    import highspy

    h, q, r, a, b = p.matrices()
    if h.nnz() and np.abs(h.nonzeros()).max() > 0:
        raise NotImplementedError("HiGHS takes no quadratic cost beside whole numbers")
    model, offset = highspy.HighsLp(), np.array(b).ravel()
    model.num_col_, model.num_row_, model.offset_ = len(p.low), len(offset), float(r)
    model.col_cost_, model.col_lower_, model.col_upper_ = np.array(q).ravel(), np.array(p.low, float), np.array(p.high, float)
    model.row_lower_, model.row_upper_ = p.lowest - offset, p.highest - offset
    model.a_matrix_.format_ = highspy.MatrixFormat.kColwise
    model.a_matrix_.start_, model.a_matrix_.index_, model.a_matrix_.value_ = np.array(a.colind()), np.array(a.row()), np.array(a.nonzeros())
    model.integrality_ = [highspy.HighsVarType.kInteger if d else highspy.HighsVarType.kContinuous for d in p.discrete]
    solver = highspy.Highs()
    for option, value in (("output_flag", False), ("threads", 1), ("time_limit", float(SECONDS)), ("mip_rel_gap", 0.0)):
        solver.setOptionValue(option, value)
    solver.passModel(model)
    start = time.process_time()
    solver.run()
    cpu, status = time.process_time() - start, solver.modelStatusToString(solver.getModelStatus())
    found = solver.getInfo().primal_solution_status == highspy.SolutionStatus.kSolutionStatusFeasible
    return {"cpu_s": cpu, "status": status, "ended": status == "Optimal", "proven": status == "Optimal"}, np.array(solver.getSolution().col_value) if found else None


def scip(p):
    """SCIP, of linear and quadratic costs."""
    import pyscipopt

    h, q, r, a, b = p.matrices()
    model = pyscipopt.Model()
    model.hideOutput()
    model.setParams({"limits/time": SECONDS, "timing/clocktype": 1, "limits/gap": GAP})
    w = [model.addVar(vtype="I" if d else "C", lb=None if lo == -np.inf else lo, ub=None if hi == np.inf else hi) for d, lo, hi in zip(p.discrete, p.low, p.high)]
    rows = [[] for _ in p.lowest]
    for row, column, value in zip(*a.sparsity().get_triplet(), a.nonzeros()):
        rows[row].append(value * w[column])
    for row, offset, low, high in zip(rows, np.array(b).ravel(), p.lowest, p.highest):
        total = pyscipopt.quicksum(row)
        model.addCons(total == low - offset if low == high else total >= low - offset)
    cost = pyscipopt.quicksum(value * v for value, v in zip(np.array(q).ravel(), w) if value) + float(r)
    terms = [0.5 * value * w[i] * w[k] for i, k, value in zip(*h.sparsity().get_triplet(), h.nonzeros()) if value]
    if terms:
        above = model.addVar(lb=None)
        model.addCons(pyscipopt.quicksum(terms) <= above)
        cost += above
    model.setObjective(cost)
    start = time.process_time()
    model.optimize()
    cpu, status = time.process_time() - start, model.getStatus()
    found = np.array([model.getVal(v) for v in w]) if model.getNSols() else None
    proven = status in ("optimal", "gaplimit")
    return {"cpu_s": cpu, "status": status, "ended": proven, "proven": proven, "bound": model.getDualbound()}, found


LINEAR = {"highs": highs, "scip": scip}
SOLVERS = {"bonmin": bonmin, **LINEAR}


def versions():
    """Of the solvers' packages, as far as they are here."""
    found = {d.name.lower(): d.version for d in importlib.metadata.distributions()}
    return {name: found[name] for name in ("casadi", "highspy", "pyscipopt", "numpy") if name in found}


def solve(name, p):
    """A solver's answer with what its plan is worth when it is driven: in a process of its own, which ends at thrice its time."""
    here, there = multiprocessing.get_context("fork").Pipe(duplex=False)
    worker = multiprocessing.get_context("fork").Process(target=_answer, args=(name, p, there))
    worker.start()
    there.close()
    try:
        answer = here.recv()
    except EOFError:
        worker.join()
        answer = {"status": "did not end" if worker.exitcode == -signal.SIGXCPU else "died", "ended": False, "proven": False}
    worker.join()
    return answer


def _answer(name, p, pipe):
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # bonmin has no option for silence
    resource.setrlimit(resource.RLIMIT_CPU, (3 * SECONDS, resource.RLIM_INFINITY))
    try:
        answer, w = SOLVERS[name](p)
    except (NotImplementedError, ImportError) as e:
        pipe.send({"left_out": str(e)})
        return
    except RuntimeError as e:
        pipe.send({"status": str(e).strip().splitlines()[-1].split(": ")[-1], "ended": False, "proven": False, "cpu_s": time.process_time()})
        return
    plan = p.plan(w)
    if plan is not None:
        driven, _ = p.system.drive(p.s, p.c, plan, p.weights)
        answer |= driven | {"plan": plan.tolist()}
    pipe.send(answer)
