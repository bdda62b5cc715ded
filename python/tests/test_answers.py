"""What is known without this program: the regulator of a linear system, prices as differences of costs, random networks by the equations
of their admittances, soft limits that are never exceeded."""

import numpy as np
import pytest

import gpc
import gpc.grid as grid


@pytest.mark.parametrize("seed", range(6))
def test_a_linear_quadratic_plan_is_riccati_s(seed):
    rng = np.random.default_rng(seed)
    ns, nu, steps = int(rng.integers(1, 4)), int(rng.integers(1, 3)), int(rng.integers(3, 25))
    a, b = 0.6 * rng.normal(size=(ns, ns)) + 0.5 * np.eye(ns), rng.normal(size=(ns, nu))
    q, r = rng.uniform(0.1, 2, ns), rng.uniform(0.05, 1, nu)
    y = gpc.System(
        "lq", state={f"x{i}": "m" for i in range(ns)}, action={f"u{i}": ("N", -1e3, 1e3) for i in range(nu)},
        scenario={f"x{i}": (-1, 1) for i in range(ns)}, steps=steps, period=0.1,
    )
    y.step(lambda s, u: [sum(a[i, j] * s[j] for j in range(ns)) + sum(b[i, j] * u[j] for j in range(nu)) for i in range(ns)])
    y.objectives(state="m²", effort="N²")(lambda u, n: (sum(q[i] * n[i] ** 2 for i in range(ns)), sum(r[i] * u[i] ** 2 for i in range(nu))))
    with gpc.nmpc(y, threads=1) as exact:
        for episode in range(3):
            w = np.maximum(rng.dirichlet([1, 1]), 0.05)
            w /= w.sum()
            p = w[0] * np.diag(q)
            for _ in range(steps):
                k = np.linalg.solve(w[1] * np.diag(r) + b.T @ p @ b, b.T @ p @ a)
                p = w[0] * np.diag(q) + a.T @ p @ (a - b @ k)
            s, c = exact.observe(episode)
            want = -k @ s
            with exact.loop("nmpc") as loop:
                assert np.abs(loop.decide(s, c, w).u - want).max() <= 1e-6 * max(1, np.abs(want).max())


@pytest.mark.parametrize("unit", [1, 1e-6, 1e-3, 1e6])
def test_a_soft_limit_that_is_never_exceeded_moves_nothing(unit):
    """A position that is held at 1 below a soft limit of 2."""

    def path(**soft):
        y = gpc.System(
            "held", state={"x": "m"}, action={"u": ("m/s", -unit, unit)}, scenario={"x": (-0.2 * unit, 0.2 * unit)}, steps=30, period=0.2, state_scale=[unit],
            soft={"top": {"linear": 20 / unit, "quadratic": 5 / unit**2, **soft}} if soft else {},
        )
        y.ode()(lambda s, u: (u.u,))
        y.objectives(j="1")(lambda u, n: ((n.x / unit - 1) ** 2 + 0.001 * (u.u / unit) ** 2,))
        y.margins(top="m")(lambda n: 2 * unit - n.x)
        with gpc.nmpc(y, threads=1) as exact:
            return exact.drive(0)["s"][:, 0] / unit

    want = path()
    assert want[-1] == pytest.approx(1, abs=1e-3)
    for priority in range(5):
        np.testing.assert_allclose(path(priority=priority), want, atol=1e-6)


@pytest.mark.parametrize("case", ["case9", "case14", "case30", "case39"])
def test_prices_are_differences_of_costs(case):
    n, h = grid.network(case, threads=1), 0.02
    rng = np.random.default_rng(len(case))
    f = rng.uniform(0.85, 1.03, len(n.pd))
    p, q = n.pd * f, n.qd * f
    r = grid.opf(n, (p[None], q[None]))
    assert r.optimal[0]
    buses = rng.choice(len(p), 6, replace=False)
    steps = [(h * np.eye(len(p))[b] * sign, 0 * p) for b in buses for sign in (1, -1)] + [(0 * p, h * np.eye(len(p))[b] * sign) for b in buses for sign in (1, -1)]
    cost = grid.opf(n, (np.array([p + d for d, _ in steps]), np.array([q + d for _, d in steps])))
    assert cost.optimal.all()
    slope = (cost.objective[0::2] - cost.objective[1::2]) / (2 * h)
    np.testing.assert_allclose(slope, np.concatenate([r.price_p[0][buses], r.price_q[0][buses]]), rtol=1e-4, atol=1e-3)


def drawn(rng):
    """A network of 2 to 8 buses as MATPOWER has it, with all that a branch may have."""
    nb, base = int(rng.integers(2, 9)), float(rng.choice([1, 10, 100, 1000]))
    bus = np.array([[i + 1, 3 if i == 0 else 1, rng.uniform(0, 0.4) * base, rng.uniform(-0.1, 0.2) * base, 0, 0, 1, 1, 0, 100, 1, 1.1, 0.9] for i in range(nb)])
    bus[:, 4:6] = rng.uniform(0, 0.05, (nb, 2)) * base * (rng.random((nb, 1)) < 0.3)
    ends = [(int(rng.integers(1, i + 1)), i + 1) for i in range(1, nb)] + [tuple(rng.choice(nb, 2, replace=False) + 1) for _ in range(int(rng.integers(0, nb)))]
    branch = np.array([[
        *ends[k], rng.uniform(0, 0.05), rng.uniform(0.01, 0.2), rng.uniform(0, 0.1), rng.choice([0, 0, 1.5]) * base, 0, 0,
        rng.choice([0, 0, 0.95, 1.05]), rng.choice([0, 0, 10, -5]), 1, -360, 360,
    ] for k in range(len(ends))])
    ng = int(rng.integers(1, 5))
    gen, cost = np.zeros((ng, 21)), np.zeros((ng, 7))
    for g in range(ng):
        at = 1 if g == 0 else int(rng.integers(1, nb + 1))
        gen[g, :10] = [at, 0, 0, 2 * base, -2 * base, 1, base, 1, rng.uniform(1, 3) * base, 0]
        bus[at - 1, 1] = max(2, bus[at - 1, 1])
        cost[g] = [2, 0, 0, 3, rng.choice([0.01, 0.2]) / base * 100, rng.choice([5, 10, 20]), 0]
    return {"baseMVA": base, "bus": bus, "gen": gen, "branch": branch, "gencost": cost}


def flows(case, v):
    """What enters each branch at both ends, and each bus, by admittances of its own."""
    base, bus, entering = case["baseMVA"], case["bus"], []
    injected = np.conj(bus[:, 4] + 1j * bus[:, 5]) * np.abs(v) ** 2
    for row in case["branch"]:
        f, t = int(row[0]) - 1, int(row[1]) - 1
        series, tap = 1 / (row[2] + 1j * row[3]), (row[8] or 1) * np.exp(1j * np.pi / 180 * row[9])
        through = series + 0.5j * row[4]
        of, to = v[f] * np.conj(through * v[f] / abs(tap) ** 2 - series * v[t] / np.conj(tap)) * base, v[t] * np.conj(through * v[t] - series * v[f] / tap) * base
        injected[f] += of
        injected[t] += to
        entering.append((of, to))
    return np.array(entering), injected


def test_optima_of_random_networks_keep_their_equations():
    rng, optimal = np.random.default_rng(7), 0
    for trial in range(60):
        case = drawn(rng)
        base, bus, gen = case["baseMVA"], case["bus"], case["gen"]
        r = grid.opf(grid.network(case, threads=1))
        if not r.optimal[0]:
            continue
        optimal += 1
        entering, injected = flows(case, r.vm[0] * np.exp(1j * np.pi / 180 * r.va[0]))
        given = -bus[:, 2] - 1j * bus[:, 3]
        np.add.at(given, gen[:, 0].astype(int) - 1, r.pg[0] + 1j * r.qg[0])
        assert np.abs(injected - given).max() < 1e-6 * base, trial
        assert np.abs(entering[:, 0] - r.pf[0] - 1j * r.qf[0]).max() < 1e-6 * base, trial
        rated = case["branch"][:, 5] > 0
        assert (np.abs(entering[rated]).max(axis=1, initial=0) <= case["branch"][rated, 5] + 1e-5 * base).all(), trial
        assert (r.vm[0] <= bus[:, 11] + 1e-6).all() and (r.vm[0] >= bus[:, 12] - 1e-6).all(), trial
        assert (r.pg[0] <= gen[:, 8] + 1e-4 * base).all() and (r.pg[0] >= gen[:, 9] - 1e-4 * base).all(), trial
        cost = case["gencost"]
        assert r.objective[0] == pytest.approx((cost[:, 4] * r.pg[0] ** 2 + cost[:, 5] * r.pg[0]).sum(), rel=1e-6), trial
    assert optimal >= 30
