"""Two tanks of heat with two heaters and an engine of four stages under a known disturbance: the energy system of Le, Xie and Mangharam (A Hybrid
Learning-to-Optimize Framework for Mixed-Integer Quadratic Programming, L4DC 2026), as energy/generate_data.py of mlab-upenn/L2O-MIQP has it.

Their generator lets states and inputs leave their limits at a price of 25. That of states is a soft limit here; those of inputs are hard: in 60
instances no optimum by their formula left one. Their layer of a QP adds the engine to both tanks, their generator, and so this file, to the second
alone."""

import numpy as np

import gpc

STEPS = 20
KEEPS, LEAKS, PASSES = (0.9983, 0.9966), 0.0833, 0.001  # of the tanks in a period, what a disturbance takes, and what passes to the first
HEATS, ENGINE = 0.075, 0.0825  # of a unit of a heater and of a stage of the engine
REFERENCE, MOST, TOGETHER = (4.2, 1.8), (8.4, 3.6), 8.0  # of the tanks, and of both heaters
PRICE = 25.0  # of a tank beyond its limits


def beta():
    """Places from 0 to 7 that 7·Beta(0.6, 1.4) is below with the chances of an even grid: its density becomes smooth in t = x^0.6."""
    t = np.linspace(0, 1, 4001)
    steps = (1 - ((t[1:] + t[:-1]) / 2) ** (1 / 0.6)) ** 0.4
    chance = np.concatenate([[0], np.cumsum(steps)]) / steps.sum()
    grid = np.linspace(0, 1, 65)
    return grid, 7 * np.interp(grid, chance, t) ** (1 / 0.6)


def system():
    """Parameters are uniform: the tanks, what the first loses in each period, and for each of two bursts of the second's losses its height, the
    periods that it lasts (2 to 5) and where it begins; the second burst is there in half of the episodes. The context has the losses of the periods
    ahead, the next one first, and a state the stage before."""
    first, second = [f"first{k}" for k in range(STEPS)], [f"second{k}" for k in range(STEPS)]
    y = gpc.System(
        "tanks", "two tanks of heat, heaters and an engine of four stages",
        state={"x1": ("1", -1, MOST[0]), "x2": ("1", -1, MOST[1]), "stage": ("1", 0, 3)}, context={name: "1" for name in first + second},
        action={"u1": ("1", 0, TOGETHER), "u2": ("1", 0, TOGETHER), "engine": gpc.integer(0, 3)},
        scenario={"x1": (0, MOST[0]), "x2": (0, MOST[1]), "bursts": (0, 1), **{f"loss{k}": (0, 1) for k in range(STEPS)},
                  **{f"{what}{b}": box for b in range(2) for what, box in (("height", (1, 16)), ("lasts", (2, 6)), ("begins", (0, 1)))}},
        soft={name: PRICE for name in ("empty1", "empty2", "full1", "full2")}, steps=STEPS, period=300,
    )

    @y.initial
    def _(p):
        losses = {name: np.interp(p[f"loss{k}"], *beta()) for k, name in enumerate(first)}
        for k, name in enumerate(second):
            losses[name] = 0.0
            for b in range(2):
                lasts = np.floor(p[f"lasts{b}"])
                begins = np.floor(p[f"begins{b}"] * (STEPS - lasts))
                there = np.where((begins <= k) & (k < begins + lasts), p[f"height{b}"], 0)
                losses[name] = losses[name] + (there if b == 0 else np.where(p.bursts < 0.5, there, 0))
        return {"x1": p.x1, "x2": p.x2, "stage": 0, **losses}

    @y.step
    def _(s, c, u):
        x1 = KEEPS[0] * s.x1 + PASSES * s.x2 + HEATS * u.u1 - LEAKS * c.first0
        return x1, (KEEPS[1] - PASSES) * s.x2 + HEATS * u.u2 + ENGINE * u.engine - LEAKS * c.second0, u.engine

    y.memory(lambda c: {name: c[after] for names in (first, second) for name, after in zip(names, [*names[1:], names[-1]])})

    @y.objectives(cost="1")
    def _(s, c, u, n):
        last = np.where(c.clock > 1 - 1.5 / STEPS, 1, 0)  # the end counts as a state on the way does

        def off(x):
            return (x.x1 - REFERENCE[0]) ** 2 + (x.x2 - REFERENCE[1]) ** 2

        return off(s) + 0.5 * (u.u1**2 + u.u2**2) + 0.1 * u.engine**2 + last * off(n)

    @y.margins(empty1="1", empty2="1", full1="1", full2="1", heaters="1", up="1", down="1")
    def _(s, c, u):
        free = np.where(c.clock < 0.5 / STEPS, 2, 0)  # any stage is the first
        return s.x1, s.x2, MOST[0] - s.x1, MOST[1] - s.x2, TOGETHER - u.u1 - u.u2, 1 + free - u.engine + s.stage, 1 + free + u.engine - s.stage

    return y


def cost(state, context, u):
    """Their formula for a plan [STEPS, 3] from a state under the losses of a context, with the price of states and inputs beyond their limits, and the
    largest of these excesses."""
    x, total, excess = np.array(state[:2], float), 0.0, []
    a, b, e = np.array([[KEEPS[0], PASSES], [0, KEEPS[1] - PASSES]]), np.diag([HEATS, HEATS]), -LEAKS * np.eye(2)
    for (u1, u2, delta), d in zip(np.asarray(u, float), np.reshape(context[: 2 * STEPS], (2, STEPS)).T):
        beyond = [np.maximum(0, -x), np.maximum(0, x - MOST), np.maximum(0, [-u1, -u2, u1 + u2 - TOGETHER])]
        excess.append(max(v.max() for v in beyond))
        total += ((x - REFERENCE) ** 2).sum() + 0.5 * (u1 * u1 + u2 * u2) + 0.1 * delta * delta + PRICE * sum(v.sum() for v in beyond)
        x = a @ x + b @ [u1, u2] + np.array([0, ENGINE]) * delta + e @ d
    return total + ((x - REFERENCE) ** 2).sum(), max(excess)
