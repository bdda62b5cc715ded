"""A load on a rope below a trolley: to its goal without swinging, within the trolley's speed and track. Braking takes room, so
that the margins of the track leave what it takes.

    python examples/python/crane.py --budget 4m --out out/crane --json
"""

import numpy as np
import run

import gpc

TROLLEY, LOAD, ROPE, GRAVITY = 1.0, 0.5, 1.0, 9.81  # kg, kg, m, m/s²
SPEED, TRACK, BRAKE = 1.5, 1.6, 2.5  # m/s, m to either side, m/s² that the pull gives however the load swings

crane = gpc.System(
    "crane", "a load on a rope below a trolley",
    state={"x": ("m", -1.6, 1.6), "v": ("m/s", -1.5, 1.5), "swing": ("rad", -0.5, 0.5), "rate": ("rad/s", -1.5, 1.5)},
    context={"goal": "m"}, action={"pull": ("N", -6, 6)},
    scenario={"x": (-1, 1), "swing": (-0.2, 0.2), "goal": (-1, 1)}, steps=50, period=0.1,
)


@crane.ode(substeps=2)
def _(s, u):
    sin, cos = np.sin(s.swing), np.cos(s.swing)
    a = (u.pull + LOAD * sin * (ROPE * s.rate**2 + GRAVITY * cos)) / (TROLLEY + LOAD * sin**2)
    return s.v, a, s.rate, -(GRAVITY * sin + a * cos) / ROPE


@crane.objectives(position="m²", swing="rad²")
def _(c, u, n):
    return (n.x - c.goal) ** 2 + 0.1 * n.v**2, n.swing**2 + 0.1 * n.rate**2 + 1e-3 * u.pull**2


@crane.margins({"speed-": "m/s", "speed+": "m/s", "track-": "m", "track+": "m"})
def _(n):
    left, right = np.minimum(n.v, 0), np.maximum(n.v, 0)
    return n.v + SPEED, SPEED - n.v, TRACK + n.x - left**2 / (2 * BRAKE), TRACK - n.x - right**2 / (2 * BRAKE)


@crane.picture
def _(s, c):
    load = s.x + ROPE * np.sin(s.swing), -ROPE * np.cos(s.swing)
    return [
        gpc.line("ground", (-TRACK, 0), (TRACK, 0)), gpc.line("goal", (c.goal, -ROPE - 0.1), (c.goal, -ROPE + 0.1)),
        gpc.box("body", s.x, 0, 0.3, 0.1), gpc.line("body", (s.x, 0), load), gpc.disc("body", *load, 0.08),
    ]


if __name__ == "__main__":
    run.main(crane)
