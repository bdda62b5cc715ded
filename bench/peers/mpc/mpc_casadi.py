"""Solves recorded decisions of a pole on a cart by CasADi with IPOPT and with fatrop.

    mpc_casadi.py DECISIONS TIMES

The problem is multiple shooting over 40 steps, variables x0 u0 x1 u1 …, in CasADi's SX
with its exact Hessian. Each solver starts from its own decision before, shifted, with its
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
        cost += p[5] * (n[2] ** 2 + 0.1 * n[3] ** 2 + 1e-3 * u[t] ** 2) + p[6] * ((n[0] - p[4]) ** 2 + 0.1 * n[1] ** 2)
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
            start = last[name] if warm else {"x0": np.tile(d["state"] + [0.0], N)}
            solver = pair[warm]
            began = time.process_time()
            r = solver(**start, **bounds)
            times[name].append((time.process_time() - began) * 1e6)
            if not solver.stats()["success"]:
                failed[name] += 1
                last.pop(name, None)
                continue
            difference = (float(r["f"]) - d["cost"]) / abs(d["cost"])
            lows[name] += difference < -1e-5
            highs[name] += difference > 1e-5
            x = shifted(np.array(r["x"]).ravel(), 5)
            x[:4] = d["state"]
            last[name] = {"x0": x, "lam_x0": shifted(np.array(r["lam_x"]).ravel(), 5), "lam_g0": np.array(r["lam_g"]).ravel()}
    with open(target, "w") as f:
        json.dump({"missing": missing, "worst": worst, "times_us": times, "Failed": failed, "Lower": lows, "Higher": highs}, f)


if __name__ == "__main__":
    main()
