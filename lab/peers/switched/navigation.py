"""A robot among three boxes: the navigation of Le, Xie and Mangharam (L4DC 2026), as robot_nav/generate_data.py and Controller.py of mlab-upenn/L2O-MIQP
have it. A box is one limit for us, and two binaries in each period for solvers of mixed-integer problems.

Theirs are the problems of closed loops of up to 100 decisions; ours are the first of each alone, with the robot at rest."""

import numpy as np

import gpc

STEPS, PERIOD = 20, 0.25
LOW, HIGH = (-0.5, -3.0), (2.0, 0.5)  # of the place
FAST = 0.5  # of a speed and of an acceleration
ROOM, DRAWN = 0.25, 0.35  # to every box, and of starts and goals
BOXES = ((1.0, 0.0, 0.2, 0.25), (0.7, -1.1, 0.25, 0.2), (0.4, -2.5, 0.2, 0.25))  # centre and half sides


def system(boxes=True):
    """Without boxes it is what solvers of mixed-integer problems add their binaries to."""
    y = gpc.System(
        "navigation", "a robot among three boxes",
        state={"x": ("m", LOW[0], HIGH[0]), "y": ("m", LOW[1], HIGH[1]), "vx": ("m/s", -FAST, FAST), "vy": ("m/s", -FAST, FAST)},
        context={"goal_x": "m", "goal_y": "m"}, action={"ax": ("m/s²", -FAST, FAST), "ay": ("m/s²", -FAST, FAST)},
        scenario={"x": (LOW[0], HIGH[0]), "y": (LOW[1], HIGH[1]), "goal_x": (LOW[0], HIGH[0]), "goal_y": (LOW[1], HIGH[1])}, steps=STEPS, period=PERIOD,
    )
    half = PERIOD**2 / 2
    y.step(lambda s, u: (s.x + PERIOD * s.vx + half * u.ax, s.y + PERIOD * s.vy + half * u.ay, s.vx + PERIOD * u.ax, s.vy + PERIOD * u.ay))

    @y.objectives(cost="1")
    def _(s, c, u, n):
        last = np.where(c.clock > 1 - 1.5 / STEPS, 10, 0)

        def off(x):
            return (x.x - c.goal_x) ** 2 + (x.y - c.goal_y) ** 2

        return off(s) + u.ax**2 + u.ay**2 + last * off(n)

    sides = {name: unit for axis in "xy" for name, unit in ((f"low_{axis}", "m"), (f"high_{axis}", "m"), (f"back_{axis}", "m/s"), (f"fast_{axis}", "m/s"))}

    @y.margins(sides | {f"box{i}": "m" for i in range(len(BOXES) if boxes else 0)})
    def _(n):
        kept = [m for i in range(2) for m in (n[i] - LOW[i], HIGH[i] - n[i], n[2 + i] + FAST, FAST - n[2 + i])]
        return kept + [np.maximum(abs(n.x - x) - l - ROOM, abs(n.y - y) - w - ROOM) for x, y, l, w in BOXES[: len(BOXES) if boxes else 0]]

    return y


def binaries(problem, nodes):
    """Adds a box to a problem: of its four sides the one that two binaries say is behind the robot. The big constants are the least that the bounds
    of the place allow."""
    for node in nodes:
        for x, y, l, w in BOXES:
            a, b = (problem._variable(0, 1, 0.5, True) for _ in range(2))
            others = a + b, 1 - a + b, 1 + a - b, 2 - a - b
            sides = (node[0] - x - l, LOW[0] - x - l), (node[1] - y - w, LOW[1] - y - w), (x - l - node[0], x - l - HIGH[0]), (y - w - node[1], y - w - HIGH[1])
            for (margin, least), other in zip(sides, others):
                problem._hold(margin - ROOM - (least - ROOM) * other, 0)


def draw(rng):
    """A start at rest with a goal, by their distribution, as {"p": …, "s": …, "c": …} of a scene."""

    def place(digits):
        while True:
            p = np.round(rng.uniform(LOW, HIGH), digits)
            if all(abs(p[0] - x) > l + DRAWN or abs(p[1] - y) > w + DRAWN for x, y, l, w in BOXES):
                return p.tolist()

    goal, start = place(2), place(3)
    return {"p": start + goal, "s": [*start, 0, 0], "c": [*goal, 0]}


def cost(state, context, u):
    """Their formula for a plan [STEPS, 2] from a state to the goal of a context, and the most that it breaks a limit by."""
    p, v, g, total, excess = np.array(state[:2], float), np.array(state[2:], float), np.array(context[:2], float), 0.0, [0.0]
    for a in np.asarray(u, float):
        total += ((p - g) ** 2).sum() + (a * a).sum()
        p, v = p + PERIOD * v + PERIOD**2 / 2 * a, v + PERIOD * a
        excess += [*(LOW - p), *(p - HIGH), *(abs(v) - FAST), *(abs(a) - FAST)]
        excess += [min(l + ROOM - abs(p[0] - x), w + ROOM - abs(p[1] - y)) for x, y, l, w in BOXES]
    return total + 10 * ((p - g) ** 2).sum(), max(excess)
