"""An inverted pendulum on a cart: upright, and at a reference, with a speed limit. Its equations are those of Florian,
"Correct equations for the dynamics of the cart-pole system" (2007), without friction.

    python examples/python/cartpole.py --budget 4m --out out/cartpole --json
"""

import numpy as np
import run

import gpc

DT, CART, POLE, LENGTH, GRAVITY, SPEED = 0.05, 1.0, 0.1, 0.5, 9.81, 2.0

cartpole = gpc.System(
    "cartpole-py", "inverted pendulum on a cart with a speed limit, in Python",
    state={"x": "m", "v": "m/s", "theta": "rad", "omega": "rad/s"}, context={"ref": "m"}, action={"force": ("N", -10, 10)},
    scenario={"x": (-1, 1), "v": (-0.5, 0.5), "theta": (-0.3, 0.3), "omega": (-0.5, 0.5), "ref": (-1, 1)},
    steps=40, period=DT, state_scale=[1, 1, 0.3, 1], semantic={"k": [4, 2]},
)


@cartpole.step
def _(s, u):
    sin, cos = np.sin(s.theta), np.cos(s.theta)
    push = (u.force + POLE * LENGTH * s.omega**2 * sin) / (CART + POLE)
    turn = (GRAVITY * sin - cos * push) / (LENGTH * (4 / 3 - POLE * cos**2 / (CART + POLE)))
    v = s.v + DT * (push - POLE * LENGTH * turn * cos / (CART + POLE))
    omega = s.omega + DT * turn
    return s.x + DT * v, v, s.theta + DT * omega, omega


@cartpole.objectives(balance="1", position="m²")
def _(c, u, n):
    return n.theta**2 + 0.1 * n.omega**2 + 1e-3 * u.force**2, (n.x - c.ref) ** 2 + 0.1 * n.v**2


@cartpole.margins({"speed-": "m/s", "speed+": "m/s"})
def _(n):
    return n.v + SPEED, SPEED - n.v


@cartpole.urgency
def _(s):
    a = s.theta**2 + 0.1 * s.omega**2
    return a / (a + 0.05), 0.2


@cartpole.failed
def _(s):
    return np.abs(s.theta) > np.pi / 2


@cartpole.picture
def _(s, c):
    tip = s.x + 2 * LENGTH * np.sin(s.theta), 2 * LENGTH * np.cos(s.theta)
    return [
        gpc.line("ground", (-1.5, -0.1), (1.5, -0.1)), gpc.line("goal", (c.ref, -0.2), (c.ref, 0.2)),
        gpc.box("body", s.x, 0, 0.3, 0.2), gpc.line("body", (s.x, 0), tip), gpc.disc("body", *tip, 0.04),
    ]


if __name__ == "__main__":
    run.main(cartpole)
