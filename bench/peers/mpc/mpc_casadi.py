"""Solves recorded decisions of a pole on a cart by CasADi with IPOPT, with fatrop, and with
its SQP method on HPIPM.

    mpc_casadi.py DECISIONS TIMES

The problem is multiple shooting over 40 steps, variables x0 u0 x1 u1 …, in CasADi's SX
with its exact Hessian; for HPIPM, which asks for it, there is a last state, and all limits are boxes. Each solver starts from its own decision before, shifted, with its
multipliers; the first of an episode from zero actions at the given state. IPOPT's barrier
begins at 1e-6 where it is warm. Times are CPU times of this process around the call.
"""
import json
import sys
import time

import casadi as ca
import numpy as np

N, DT, MC, MP, L, G, FORCE, SPEED = 40, 0.05, 1.0, 0.1, 0.5, 9.81, 10.0, 2.0


def following(s, f):
    sn, cs = ca.sin(s[2]), ca.cos(s[2])
    tmp = (f + MP * L * s[3] * s[3] * sn) / (MC + MP)
    ta = (G * sn - cs * tmp) / (L * (4.0 / 3 - MP * cs * cs / (MC + MP)))
    v = s[1] + DT * (tmp - MP * L * ta * cs / (MC + MP))
    w = s[3] + DT * ta
    return ca.vertcat(s[0] + DT * v, v, s[2] + DT * w, w)


def stage_cost(n, u, p):
    return p[5] * (n[2] ** 2 + 0.1 * n[3] ** 2 + 1e-3 * u ** 2) + p[6] * ((n[0] - p[4]) ** 2 + 0.1 * n[1] ** 2)


def problem():
    """The nonlinear program, which of its constraints are equations, and its bounds."""
    p = ca.SX.sym("p", 7)  # state, reference, weights
    w, g, equality, lower, upper, cost = [], [], [], [], [], 0
    x = [ca.SX.sym(f"x{t}", 4) for t in range(N)]
    u = [ca.SX.sym(f"u{t}") for t in range(N)]
    first = x[0] - p[:4]
    for t in range(N):
        w += [x[t], u[t]]
        n = following(x[t], u[t])
        cost += stage_cost(n, u[t], p)
        if t < N - 1:  # fatrop asks for the dynamics of a stage before its other constraints
            g.append(x[t + 1] - n)
            equality += [True] * 4
            lower += [0.0] * 4
            upper += [0.0] * 4
        if t == 0:
            g.append(first)
            equality += [True] * 4
            lower += [0.0] * 4
            upper += [0.0] * 4
        g.append(n[1])
        equality.append(False)
        lower.append(-SPEED)
        upper.append(SPEED)
    nlp = {"x": ca.vertcat(*w), "f": cost, "g": ca.vertcat(*g), "p": p}
    box = np.tile([np.inf] * 4 + [FORCE], N)
    return nlp, equality, np.array(lower), np.array(upper), box


def boxed():
    """The program with a last state and nothing but dynamics and boxes, and its boxes."""
    p = ca.SX.sym("p", 7)
    x = [ca.SX.sym(f"x{t}", 4) for t in range(N + 1)]
    u = [ca.SX.sym(f"u{t}") for t in range(N)]
    w, g, cost = [], [], 0
    for t in range(N):
        w += [x[t], u[t]]
        g.append(following(x[t], u[t]) - x[t + 1])
        cost += stage_cost(x[t + 1], u[t], p)
    box = np.array((N * [np.inf, SPEED, np.inf, np.inf, FORCE]) + [np.inf, SPEED, np.inf, np.inf])
    return {"x": ca.vertcat(*w, x[N]), "f": cost, "g": ca.vertcat(*g), "p": p}, box


def quiet(tolerance, warm):
    o = {"tol": tolerance, "print_level": 0, "sb": "yes", "max_iter": 500}
    if warm:
        o.update(warm_start_init_point="yes", mu_init=1e-6, warm_start_bound_push=1e-8, warm_start_slack_bound_push=1e-8,
                 warm_start_mult_bound_push=1e-8, warm_start_bound_frac=1e-8, warm_start_slack_bound_frac=1e-8)
    return o


def shifted(z, width):
    return np.concatenate([z[width:], z[-width:]])


def main():
    source, target = sys.argv[1:]
    with open(source) as f:
        given = json.load(f)
    nlp, equality, lower, upper, box = problem()
    plain = {"print_time": False, "error_on_fail": False}
    tolerance = given["tolerance"]
    check = ca.nlpsol("check", "ipopt", nlp, {**plain, "ipopt": quiet(1e-10, False) | {"mu_init": 1e-9, "bound_push": 1e-9, "bound_frac": 1e-9}})
    solvers, missing = {}, []
    solvers["ipopt"] = [ca.nlpsol(f"ipopt{w}", "ipopt", nlp, {**plain, "ipopt": quiet(tolerance, w)}) for w in (False, True)]
    try:
        one = ca.nlpsol("fatrop", "fatrop", nlp, {**plain, "structure_detection": "auto", "equality": equality,
                                                  "fatrop": {"tol": tolerance, "print_level": 0, "max_iter": 500}})
        solvers["fatrop"] = [one, one]
    except RuntimeError as e:
        missing.append(f"fatrop: {str(e).splitlines()[-1]}")
    least, least_box = boxed()
    qp = {"N": N, "nx": [4] * (N + 1), "nu": [1] * N + [0], "ng": [0] * (N + 1), "print_time": False, "error_on_fail": False}
    one = ca.nlpsol("hpipm", "sqpmethod", least, {**plain, "qpsol": "hpipm", "qpsol_options": qp, "tol_pr": tolerance, "tol_du": tolerance, "max_iter": 500,
                                                  "print_header": False, "print_iteration": False, "print_status": False})
    solvers["hpipm"] = [one, one]
    worst = 0.0
    times = {name: [] for name in solvers}
    failed, lows, highs = ({name: 0 for name in solvers} for _ in range(3))
    last = {}
    for d in given["decisions"]:
        p = np.array(d["state"] + [d["reference"]] + d["weights"])
        ours = np.concatenate([np.append(x, u) for x, u in zip(d["states"], d["plan"])])
        bounds = {"lbx": -box, "ubx": box, "lbg": lower, "ubg": upper, "p": p}
        r = check(x0=ours, **bounds)
        if not check.stats()["success"]:
            sys.exit(f"IPOPT does not converge from our plan at {d['state']}")
        worst = max(worst, abs(float(r["f"]) - d["cost"]) / abs(d["cost"]))
        for name, pair in solvers.items():
            warm = not d["first"] and name in last
            start, limits = last[name] if warm else {"x0": np.tile(d["state"] + [0.0], N)}, bounds
            if name == "hpipm":
                lower_box, upper_box = -least_box, least_box.copy()
                lower_box[:4] = upper_box[:4] = d["state"]
                limits = {"lbx": lower_box, "ubx": upper_box, "lbg": 0, "ubg": 0, "p": p}
                if not warm:
                    start = {"x0": np.append(start["x0"], d["state"])}
            solver = pair[warm]
            began = time.process_time()
            r = solver(**start, **limits)
            times[name].append((time.process_time() - began) * 1e6)
            if not solver.stats()["success"]:
                failed[name] += 1
                last.pop(name, None)
                continue
            difference = (float(r["f"]) - d["cost"]) / abs(d["cost"])
            lows[name] += difference < -1e-5
            highs[name] += difference > 1e-5
            if name == "hpipm":  # its last state is repeated, and a stage of multipliers
                x, lam = (np.array(r[k]).ravel() for k in ("x", "lam_x"))
                x, lam = (np.concatenate([v[5:], [u], v[-4:]]) for v, u in ((x, x[-5]), (lam, 0.0)))
                last[name] = {"x0": x, "lam_x0": lam, "lam_g0": shifted(np.array(r["lam_g"]).ravel(), 4)}
            else:
                x = shifted(np.array(r["x"]).ravel(), 5)
                last[name] = {"x0": x, "lam_x0": shifted(np.array(r["lam_x"]).ravel(), 5), "lam_g0": np.array(r["lam_g"]).ravel()}
            x[:4] = d["state"]
    with open(target, "w") as f:
        json.dump({"missing": missing, "worst": worst, "times_us": times, "Failed": failed, "Lower": lows, "Higher": highs}, f)


if __name__ == "__main__":
    main()
