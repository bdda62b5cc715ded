"""Solves recorded decisions of the gallery's systems by CasADi with IPOPT, with fatrop, and
with its SQP method on HPIPM, and those of do-mpc's own examples by do-mpc (mpc_dompc.py).

    mpc_casadi.py DECISIONS TIMES

Every system has the same transcription, multiple shooting with the variables x0 v0 x1 v1 …
xN in units of their typical sizes: x the state and what is carried of the action before, v
the action and the stages of an implicit step, whose equations are constraints of the stage.
Limits of the state are boxes where they are of one variable. Hessians are exact, and the
objective is scaled as ours is, to a largest first derivative of one at the start. Each solver
starts from its own decision before, shifted, with its multipliers; the first of an episode,
and one after a decision without a solution, from the resting action with the state held.
IPOPT's barrier begins at 1e-6 where it is warm. Times are CPU times of this process around
the call.
"""
import json
import sys
import time

import casadi as ca
import numpy as np

import mpc_dompc
from peers import EXACT, PLAIN, Check, Decisions, ipopt
from systems import RADAU, SYSTEMS

INFINITY = float("inf")
# Up to so many operations of all stages a program is one of SX, which CasADi evaluates
# fastest; beyond, one of MX that calls SX functions stage by stage.
LARGEST = 100_000
# HPIPM has no infinite bounds; with CasADi's own 1e8 for them it loses the digits of cstr.
UNBOUNDED = 1e4


class Transcription:
    """One system's program over its horizon. With first it is as fatrop wants it: the first
    state is a constraint, and a defect begins with the state after. Else it is as HPIPM does:
    the first state is fixed by its box, and a defect ends with minus the state after."""

    def __init__(self, given, first):
        system = self.system = SYSTEMS[given["name"]]()
        self.steps, ns, nu = given["steps"], system.states, system.actions
        self.nx = nx = ns + len(system.carried)
        nz = 0 if system.step else 2 * ns
        self.nv, nc = nu + nz, given["contexts"]
        lo, hi = np.array(given["action_lo"]), np.array(given["action_hi"])
        half = (hi - lo) / 2
        scale = np.array(given["state_scale"])
        self.x_scale = np.concatenate([scale, half[[i - 1 for i in system.carried]]])
        self.v_scale = np.concatenate([half] + [scale] * (nz // ns))
        stage, limits = self.stage(nc), self.limits()
        na, nm = stage.numel_out(1), limits.numel_out(0)
        kind = ca.SX if (stage.n_instructions() + limits.n_instructions()) * self.steps <= LARGEST else ca.MX

        p = kind.sym("p", nx + 3 + nc)  # first state, weights of objectives, scale of them, context
        context = p[nx + 3:]
        x = [kind.sym(f"x{t}", nx) for t in range(self.steps + 1)]
        v = [kind.sym(f"v{t}", self.nv) for t in range(self.steps)]
        g, rows, cost = [], {"gap": [], "algebra": [], "limit": [], "first": []}, 0
        self.lbg, self.ubg, self.ng = [], [], []
        count = 0

        def constrain(what, expression, least, most):
            nonlocal count
            n = len(least)
            g.append(expression)
            rows[what].append(range(count, count + n))
            count += n
            self.lbg += least
            self.ubg += most

        for t in range(self.steps):
            at = context + ca.DM([0.0] * (nc - 1) + [t / self.steps])
            gap, algebra, j = stage(x[t] * self.x_scale, v[t] * self.v_scale, x[t + 1] * self.x_scale, at, p[nx:nx + 2])
            cost += j
            constrain("gap", -gap if first else gap, [0.0] * nx, [0.0] * nx)
            before = count
            if first and t == 0:
                constrain("first", x[0] - p[:nx] / self.x_scale, [0.0] * nx, [0.0] * nx)
            if na:
                constrain("algebra", algebra, [0.0] * na, [0.0] * na)
            if nm and t > 0:
                constrain("limit", limits(x[t] * self.x_scale), self.least, self.most)
            self.ng.append(count - before)
        if nm:
            constrain("limit", limits(x[self.steps] * self.x_scale), self.least, self.most)
        self.ng.append(nm)
        self.nlp = {"x": ca.vertcat(*[w for pair in zip(x, v) for w in pair], x[-1]), "f": cost, "g": ca.vertcat(*g), "p": p}
        self.slope = ca.Function("slope", [self.nlp["x"], p], [ca.gradient(cost, self.nlp["x"])])
        self.nlp["f"] *= p[nx + 2]
        # The box of x0, where it has one, is in bounds.
        box = np.array([system.box.get(i, (-INFINITY, INFINITY)) for i in range(nx)]) / self.x_scale[:, None]
        free = np.full((nz, 2), INFINITY) * [-1, 1]
        actions = np.concatenate([np.stack([lo, hi], 1) / half[:, None], free])
        self.box = np.concatenate([np.full((nx, 2), INFINITY) * [-1, 1], np.tile(np.concatenate([actions, box]), (self.steps, 1))])
        # Where each variable and each multiplier of the next decision comes from.
        width = nx + self.nv
        n = len(self.box)
        self.next_x = np.concatenate([np.arange(width, n), np.arange(n - width, n)])
        self.next_g = np.arange(count)
        for block in ("gap", "algebra", "limit"):
            if rows[block]:
                of = np.array([list(r) for r in rows[block]])
                self.next_g[of] = np.concatenate([of[1:], of[-1:]])

    def stage(self, nc):
        """From x, v, the next x, c and weights: the defect and the residual of the implicit step, both in units of the
        state, and the weighted cost."""
        system, ns, nu = self.system, self.system.states, self.system.actions
        x, v, n, c, w = (ca.SX.sym(name, size) for name, size in (("x", self.nx), ("v", self.nv), ("n", self.nx), ("c", nc), ("w", 2)))
        s, u, following = ca.vertsplit(x)[:ns], ca.vertsplit(v)[:nu], ca.vertsplit(n)[:ns]
        context = ca.vertsplit(c)
        for i, k in enumerate(system.carried):
            context[k] = x[ns + i]
        residual = []
        if system.step:
            reached = system.step(s, u)
        else:
            z = [ca.vertsplit(v)[nu + i * ns:nu + (i + 1) * ns] for i in range(2)]
            slopes = [system.ode(stage, context, u) for stage in z]
            for row, stage in zip(RADAU, z):
                residual += [(a + system.span * (row[0] * f + row[1] * g) - b) / k
                             for a, f, g, b, k in zip(s, *slopes, stage, self.x_scale)]
            reached = z[1]
        reached = reached + [u[k - 1] for k in system.carried]
        gap = (ca.vertcat(*reached) - n) / self.x_scale
        cost = ca.dot(w, ca.vertcat(*system.objectives(s, context, u, following)))
        return ca.Function("stage", [x, v, n, c, w], [gap, ca.vertcat(ca.SX(0, 1), *residual), cost])

    def limits(self):
        """What of the next x has limits besides its own box, self.least ≤ it ≤ self.most."""
        system = self.system
        x = ca.SX.sym("x", self.nx)
        s = ca.vertsplit(x)[:system.states]
        rows = list(system.margins(s))
        self.least, self.most = [0.0] * len(rows), [INFINITY] * len(rows)
        for _ in range(system.escape_steps):
            s = system.step(s, system.escape(s))
            margins = system.margins(s)
            rows += margins + [s[i] for i in system.box]
            self.least += [0.0] * len(margins) + [b[0] for b in system.box.values()]
            self.most += [INFINITY] * len(margins) + [b[1] for b in system.box.values()]
        return ca.Function("limits", [x], [ca.vertcat(ca.SX(0, 1), *rows)])

    def full(self, state, context):
        """A state with what is carried, in units."""
        return np.array(state + [context[i] for i in self.system.carried]) / self.x_scale

    def variables(self, states, contexts, plan):
        """A plan as variables."""
        x = [self.full(*at) for at in zip(states, contexts)]
        z = [x[0]]
        for s, c, u, n, following in zip(states, contexts, plan, states[1:], x[1:]):
            v = list(u)
            if not self.system.step:
                v += list(self.system.first_stage(s, c, u, n)) + n
            z += [np.array(v) / self.v_scale, following]
        return np.concatenate(z)

    def held(self, state, context, rest):
        x, v = self.full(state, context), np.array(rest + ([] if self.system.step else state * 2)) / self.v_scale
        return np.concatenate([np.tile(np.concatenate([x, v]), self.steps), x])

    def bounds(self, state, context, weights, start, fixed):
        """What a solver is given besides its start, and the scale of the objective."""
        x = self.full(state, context)
        box = self.box.copy()
        if fixed:
            box[:self.nx] = x[:, None]
        p = np.concatenate([x * self.x_scale, weights, [1.0], context])
        p[self.nx + 2] = scale = 1 / np.abs(self.slope(start, p).full()).max()
        return {"lbx": box[:, 0], "ubx": box[:, 1], "lbg": self.lbg, "ubg": self.ubg, "p": p}, scale


WARM = dict(warm_start_init_point="yes", mu_init=1e-6, warm_start_bound_push=1e-8, warm_start_slack_bound_push=1e-8,
            warm_start_mult_bound_push=1e-8, warm_start_bound_frac=1e-8, warm_start_slack_bound_frac=1e-8)


class Peer(Decisions):
    """A solver with its last solution."""

    def __init__(self, program, fixed, basin, cold, warm):
        super().__init__(basin)
        self.program, self.fixed, self.cold, self.warm, self.last, self.scale = program, fixed, cold, warm, None, 1.0

    def decide(self, d, rest):
        program, state, context = self.program, d["states"][0], d["contexts"][0]
        if d["first"]:
            self.last = None
        start = dict(self.last or {"x0": program.held(state, context, rest)})
        start["x0"][:program.nx] = program.full(state, context)
        limits, scale = program.bounds(state, context, d["weights"], start["x0"], self.fixed)
        for multipliers in ("lam_x0", "lam_g0"):
            if multipliers in start:
                start[multipliers] = start[multipliers] * (scale / self.scale)
        self.scale = scale
        solver = self.warm if self.last else self.cold
        began = time.process_time()
        r = solver(**start, **limits)
        took, solved = time.process_time() - began, solver.stats()["success"]
        self.ended(d, took, float(r["f"]) / scale if solved else None)
        if not solved:
            self.last = None
            return
        x, lam_x, lam_g = (r[k].full().ravel() for k in ("x", "lam_x", "lam_g"))
        self.last = {"x0": x[program.next_x], "lam_x0": lam_x[program.next_x], "lam_g0": lam_g[program.next_g]}


def peers(given, tolerance, basin, missing):
    """The check, and the peers that can be made."""
    fixed, first = Transcription(given, False), Transcription(given, True)
    made = {}
    pair = [ca.nlpsol("ipopt", "ipopt", fixed.nlp, PLAIN | ipopt(tolerance, **more)) for more in ({}, WARM)]
    made["ipopt"] = Peer(fixed, True, basin, *pair)
    shape = {"N": fixed.steps, "nx": [fixed.nx] * (fixed.steps + 1), "nu": [fixed.nv] * fixed.steps + [0]}

    def fatrop():
        options = {"structure_detection": "manual", **shape, "ng": first.ng, "equality": [a == b for a, b in zip(first.lbg, first.ubg)],
                   "fatrop": {"tol": tolerance, "print_level": 0, "max_iter": 500}}
        return Peer(first, False, basin, *[ca.nlpsol("fatrop", "fatrop", first.nlp, PLAIN | options)] * 2)

    def hpipm():
        quadratic = {**shape, "ng": fixed.ng, "inf": UNBOUNDED, "print_time": False, "error_on_fail": False}
        options = {"qpsol": "hpipm", "qpsol_options": quadratic, "tol_pr": tolerance, "tol_du": tolerance,
                   "max_iter": 200, "print_header": False, "print_iteration": False, "print_status": False}
        return Peer(fixed, True, basin, *[ca.nlpsol("hpipm", "sqpmethod", fixed.nlp, PLAIN | options)] * 2)

    for name, create in (("fatrop", fatrop), ("hpipm", hpipm)):
        try:
            made[name] = create()
        except RuntimeError as e:
            missing.append(f"{name} on {given['name']}: {str(e).splitlines()[-1]}")
    if given["name"] in mpc_dompc.EXAMPLES:
        made["do-mpc"] = mpc_dompc.timed(given, tolerance, basin)
    return fixed, ca.nlpsol("check", "ipopt", fixed.nlp, PLAIN | EXACT), made


def compare(given, tolerance, basin, missing):
    program, exact, made = peers(given, tolerance, basin, missing)
    values = ca.Function("values", [program.nlp["x"], program.nlp["p"]], [program.nlp["f"], program.nlp["g"]])
    equal = np.array(program.lbg) == program.ubg
    check = Check("CasADi + ipopt", given["name"])
    for d in given["decisions"]:
        ours = program.variables(d["states"], d["contexts"], d["plan"])
        bounds, scale = program.bounds(d["states"][0], d["contexts"][0], d["weights"], ours, True)
        f, g = (np.array(v).ravel() for v in values(ours, bounds["p"]))

        def solve():
            r = exact(x0=ours, **bounds)
            return exact.stats()["success"], float(r["f"]) / scale, exact.stats()["return_status"]

        check.add(d, max(abs(f[0] / scale - d["cost"]) / abs(d["cost"]), np.abs(g[equal]).max()), solve)
        for name, peer in list(made.items()):
            peer.decide(d, given["rest"])
            if peer.hopeless():
                missing.append(f"{name} on {given['name']}: no solution of the first {len(peer.times)} decisions")
                del made[name]
    checks = [check]
    if given["name"] in mpc_dompc.EXAMPLES:
        checks.append(mpc_dompc.checked(given, EXACT, basin))
    return {"name": given["name"], "checks": [c.report() for c in checks], "peers": {name: p.report() for name, p in made.items()}}


def main():
    source, target = sys.argv[1:]
    with open(source) as f:
        given = json.load(f)
    missing = []
    systems = [compare(s, given["tolerance"], given["basin"], missing) for s in given["systems"]]
    with open(target, "w") as f:
        json.dump({"missing": missing, "systems": systems}, f)


if __name__ == "__main__":
    main()
