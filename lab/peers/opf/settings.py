"""Optimal power flows with ratios, phase shifts and shunts as variables, by IPOPT with CasADi's derivatives: the values
that grid/acopf's tests hold. Needs gpc and casadi.

    python settings.py case14 "tap 8 0.9 1.1" "shift 4 -30 30" "shunt 9 0 40"
"""

import sys

import casadi as ca
import numpy as np

import gpc.grid as grid


def solve(name: str, lines: list[str]) -> tuple[float, list[float]]:
    n = grid.network(name)
    base, nb, ng = n.base_mva, len(n.bus), len(n.gen_bus)
    at = {int(b): i for i, b in enumerate(n.bus)}
    branch, bus, gen, cost = n.branch_table, n.bus_table, n.gen_table, n.cost_table
    va, vm, pg, qg = ca.MX.sym("va", nb), ca.MX.sym("vm", nb), ca.MX.sym("pg", ng), ca.MX.sym("qg", ng)
    settings, low, high, start = [], [], [], []
    ratio = [ca.MX(float(b[8]) if b[8] else 1.0) for b in branch]
    shift = [ca.MX(np.radians(b[9])) for b in branch]
    shunt = [ca.MX(b[5] / base) for b in bus]
    for line in lines:
        kind, number, least, most = line.split()
        x, unit = ca.MX.sym(line), {"tap": 1.0, "shift": np.pi / 180, "shunt": 1 / base}[kind]
        k = at[int(number)] if kind == "shunt" else list(n.branch_row).index(int(number) - 1)
        values = {"tap": ratio, "shift": shift, "shunt": shunt}[kind]
        present = float(ca.evalf(values[k]))
        values[k] = x
        settings.append(x), low.append(float(least) * unit), high.append(float(most) * unit)
        start.append(min(max(present, low[-1]), high[-1]))
    p = [ca.MX(bus[i, 2] / base) + vm[i] ** 2 * bus[i, 4] / base for i in range(nb)]
    q = [ca.MX(bus[i, 3] / base) - vm[i] ** 2 * shunt[i] for i in range(nb)]
    g, lb, ub = [], [], []

    def limit(value: ca.MX, least: float, most: float) -> None:
        g.append(value), lb.append(least), ub.append(most)

    for k, b in enumerate(branch):
        f, t = at[int(b[0])], at[int(b[1])]
        y = 1 / complex(b[2], b[3])
        gs, bs, half, tau, angle = y.real, y.imag, b[4] / 2, ratio[k], va[f] - va[t] - shift[k]
        c, s, v, w = ca.cos(angle), ca.sin(angle), vm[f] / tau, vm[t]
        pf, qf = gs * v * v - v * w * (gs * c + bs * s), -(bs + half) * v * v - v * w * (gs * s - bs * c)
        pt, qt = gs * w * w - v * w * (gs * c - bs * s), -(bs + half) * w * w + v * w * (gs * s + bs * c)
        p[f], q[f], p[t], q[t] = p[f] + pf, q[f] + qf, p[t] + pt, q[t] + qt
        if b[5] > 0:
            limit(pf * pf + qf * qf, -np.inf, (b[5] / base) ** 2), limit(pt * pt + qt * qt, -np.inf, (b[5] / base) ** 2)
        if b[11] != 0 or b[12] != 0:
            limit(va[f] - va[t], np.radians(b[11]) if b[11] > -360 else -np.inf, np.radians(b[12]) if b[12] < 360 else np.inf)
    for k in range(ng):
        i = at[int(n.gen_bus[k])]
        p[i], q[i] = p[i] - pg[k], q[i] - qg[k]
    for i in range(nb):
        limit(p[i], 0, 0), limit(q[i], 0, 0)
    mw = pg * base
    objective = sum(cost[k, 0] * mw[k] ** 2 + cost[k, 1] * mw[k] + cost[k, 2] for k in range(ng))
    angle = np.full(nb, np.inf)
    reference = [at[int(r)] for r in n.reference]
    least = np.concatenate([-angle, bus[:, 12], gen[:, 9] / base, gen[:, 4] / base, low])
    most = np.concatenate([angle, bus[:, 11], gen[:, 8] / base, gen[:, 3] / base, high])
    for r in reference:
        least[r] = most[r] = np.radians(bus[r, 8])
    x = ca.vertcat(va, vm, pg, qg, *settings)
    x0 = np.concatenate([np.full(nb, np.radians(bus[reference[0], 8])), (bus[:, 11] + bus[:, 12]) / 2, (gen[:, 8] + gen[:, 9]) / 2 / base, (gen[:, 3] + gen[:, 4]) / 2 / base, start])
    options = {"ipopt.tol": 1e-11, "ipopt.constr_viol_tol": 1e-11, "ipopt.acceptable_tol": 1e-11, "ipopt.bound_relax_factor": 0.0, "ipopt.print_level": 0, "print_time": False, "ipopt.sb": "yes"}
    solver = ca.nlpsol("opf", "ipopt", {"x": x, "f": objective / 1000, "g": ca.vertcat(*g)}, options)
    end = solver(x0=x0, lbx=least, ubx=most, lbg=lb, ubg=ub)
    if not solver.stats()["success"]:
        sys.exit(f"{name}: {solver.stats()['return_status']}")
    found = np.array(end["x"]).ravel()[len(x0) - len(settings):]
    return float(end["f"]) * 1000, [v / {"tap": 1.0, "shift": np.pi / 180, "shunt": 1 / base}[line.split()[0]] for v, line in zip(found, lines)]


if __name__ == "__main__":
    objective, settings = solve(sys.argv[1], sys.argv[2:])
    print(f"{objective:.10g}", *(f"{v:.9g}" for v in settings))
