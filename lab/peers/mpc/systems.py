"""The systems of examples/gallery in CasADi, each written from its equations once more.

A system's functions take and return lists of SX: s the state, u the action, n the state
after it, c the context with the clock last. SYSTEMS holds them by name.
"""
import dataclasses
import math
import typing

import casadi as ca
import numpy as np

# Radau IIA of two stages, order 3; the second stage is the result.
RADAU = ((5 / 12, -1 / 12), (3 / 4, 1 / 4))

sin, cos, tanh, exp, sqrt = ca.sin, ca.cos, ca.tanh, ca.exp, ca.sqrt


@dataclasses.dataclass
class System:
    states: int
    actions: int
    objectives: typing.Callable  # (s, c, u, n), the carried context in c
    step: typing.Callable = None  # (s, u), where it is explicit
    ode: typing.Callable = None  # (s, c, u) of one implicit step, of two stages of Radau IIA
    span: float = 0.0  # of it
    carried: tuple = ()  # entries of c that are the action before: further states
    box: dict = dataclasses.field(default_factory=dict)  # limits of n: index, (least, most)
    margins: typing.Callable = lambda n: []  # ≥ 0, of n
    escape: typing.Callable = None  # (s), an action; its states have the same limits
    escape_steps: int = 0

    def first_stage(self, s, c, u, n):
        """The first stage of an implicit step follows from the state before and after it."""
        last = self.span * np.array([float(f) for f in self.ode([ca.DM(i) for i in n], c, u)])
        s, n = np.array(s), np.array(n)
        return s + (RADAU[0][0] * (n - s - RADAU[1][1] * last) / RADAU[1][0] + RADAU[0][1] * last)


def axpy(a, x, y):
    return [a * i + j for i, j in zip(x, y)]


def rk4(ode, span, substeps):
    h = span / substeps

    def step(s, u):
        for _ in range(substeps):
            a = ode(s, u)
            b = ode(axpy(h / 2, a, s), u)
            c = ode(axpy(h / 2, b, s), u)
            d = ode(axpy(h, c, s), u)
            s = [v + h / 6 * (i + 2 * j + 2 * k + l) for v, i, j, k, l in zip(s, a, b, c, d)]
        return s

    return step


def cartpole(track):
    dt, cart, pole, length, gravity, speed, end, brake = 0.05, 1.0, 0.1, 0.5, 9.81, 2.0, 1.3, 6.0

    def step(s, u):
        push = (u[0] + pole * length * s[3] ** 2 * sin(s[2])) / (cart + pole)
        turn = (gravity * sin(s[2]) - cos(s[2]) * push) / (length * (4 / 3 - pole * cos(s[2]) ** 2 / (cart + pole)))
        v = s[1] + dt * (push - pole * length * turn * cos(s[2]) / (cart + pole))
        w = s[3] + dt * turn
        return [s[0] + dt * v, v, s[2] + dt * w, w]

    def ends(n):
        return [end + n[0] - ca.fmin(n[1], 0) ** 2 / (2 * brake), end - n[0] - ca.fmax(n[1], 0) ** 2 / (2 * brake)]

    return System(4, 1, step=step, box={1: (-speed, speed)}, margins=ends if track else lambda n: [],
                  objectives=lambda s, c, u, n: [n[2] ** 2 + 0.1 * n[3] ** 2 + 1e-3 * u[0] ** 2, (n[0] - c[0]) ** 2 + 0.1 * n[1] ** 2])


def cstr():
    capacity, volume, wall, jacket, feed_t, feed_a = 0.9342 * 3.01, 10.01, 4032 * 0.215, 10.0, 130.0, 5.1

    def ode(s, c, u):
        a, b, hot, cold = s
        ab = 1.287e12 * exp(-9758.3 / (hot + 273.15))
        ad = 9.043e9 * exp(-8560.0 / (hot + 273.15)) * a ** 2
        heat = ab * (4.2 * a - 11.0 * b) - 41.85 * ad
        return [u[0] * (feed_a - a) - ab * a - ad, -u[0] * b + ab * (a - b),
                -heat / capacity + u[0] * (feed_t - hot) + wall / (capacity * volume) * (cold - hot), (u[1] + wall * (hot - cold)) / jacket]

    return System(4, 2, ode=ode, span=0.005, carried=(1, 2), box={0: (-math.inf, 2.0), 2: (-math.inf, 140.0)},
                  objectives=lambda s, c, u, n: [(10 * (n[1] - c[0])) ** 2, (0.01 * (u[0] - c[1])) ** 2 + (5e-4 * (u[1] - c[2])) ** 2])


def double_pendulum():
    dt, cart, m1, m2, gravity, height, radius = 0.04, 0.6, 0.2, 0.2, 9.80665, 0.6, 0.3 * 1.05
    long1, long2 = 0.5, 0.5
    l1, l2 = long1 / 2, long2 / 2
    i1, i2 = m1 * l1 ** 2 / 3, m2 * l2 ** 2 / 3
    h1, h2, h3 = cart + m1 + m2, m1 * l1 + m2 * long1, m2 * l2
    h4, h5, h6 = m1 * l1 ** 2 + m2 * long1 ** 2 + i1, m2 * l2 * long1, m2 * l2 ** 2 + i2

    def ode(s, u):
        _, p, q, _, w1, w2 = s
        # The symmetric system of three by Cramer's rule.
        a, b, d = h2 * cos(p), h3 * cos(q), h5 * cos(p - q)
        r = [h2 * w1 ** 2 * sin(p) + h3 * w2 ** 2 * sin(q) + u[0],
             h2 * gravity * sin(p) - h5 * w2 ** 2 * sin(p - q), h5 * w1 ** 2 * sin(p - q) + h3 * gravity * sin(q)]
        inverse = [[h4 * h6 - d * d, b * d - a * h6, a * d - b * h4], [b * d - a * h6, h1 * h6 - b * b, a * b - h1 * d],
                   [a * d - b * h4, a * b - h1 * d, h1 * h4 - a * a]]
        det = h1 * inverse[0][0] + a * inverse[0][1] + b * inverse[0][2]
        return s[3:] + [sum(i * v for i, v in zip(row, r)) / det for row in inverse]

    def objectives(s, c, u, n):
        x1, y1 = n[3] + l1 * n[4] * cos(n[1]), l1 * n[4] * sin(n[1])
        x2, y2 = n[3] + long1 * n[4] * cos(n[1]) + l2 * n[5] * cos(n[2]), long1 * n[4] * sin(n[1]) + l2 * n[5] * sin(n[2])
        # i2 turns with the first link: so the source has it.
        kinetic = (cart * n[3] ** 2 + m1 * (x1 ** 2 + y1 ** 2) + (i1 + i2) * n[4] ** 2 + m2 * (x2 ** 2 + y2 ** 2)) / 2
        missing = gravity * (h2 * (1 - cos(n[1])) + h3 * (1 - cos(n[2])))
        return [kinetic + missing, 10 * (n[0] - c[0]) ** 2 + 0.01 * u[0] ** 2]

    def distances(n):
        x, y, far = n[0], -height, []
        for along, up in ((0, 0), (long1 * sin(n[1]), long1 * cos(n[1])), (long2 * sin(n[2]), long2 * cos(n[2]))):
            x, y = x + along, y + up
            far.append(sqrt(x ** 2 + y ** 2) - radius)
        return far

    return System(6, 1, step=rk4(ode, dt, 2), objectives=objectives, margins=distances)


def chain(free):
    mass, spring, relaxed, gravity, wall, speed = 0.033, 1.0, 0.033, 9.81, -0.05, 1.0

    def accelerations(p):
        points = [[0, 0, 0]] + [p[i:i + 3] for i in range(0, 3 * free + 3, 3)]
        pulls = []
        for a, b in zip(points, points[1:]):
            d = [j - i for i, j in zip(a, b)]
            k = spring / mass * (1 - relaxed / sqrt(d[0] ** 2 + d[1] ** 2 + d[2] ** 2))
            pulls.append([k * v for v in d])
        return [b - a + g for left, right in zip(pulls, pulls[1:]) for a, b, g in zip(left, right, (0, 0, -gravity))]

    masses = ca.SX.sym("masses", 3 * free)
    end = [6 * relaxed * (free + 1), 0.0, 0.0]
    still = ca.rootfinder("still", "newton", {"x": masses, "g": ca.vertcat(*accelerations(ca.vertsplit(masses) + end))}, {"abstol": 1e-13})
    guess = [v for i in range(free) for v in (6 * relaxed * (i + 1), 0.0, -0.1)]
    goal = [float(v) for v in still(x0=guess)["x"].full().ravel()] + end + [0.0] * (3 * free)
    weight = [free + 1 if i // 3 == free else 1 for i in range(6 * free + 3)]

    def ode(s, u):
        return s[3 * free + 3:] + list(u) + accelerations(s)

    return System(6 * free + 3, 3, step=rk4(ode, 0.2, 4), box={3 * i + 1: (wall, math.inf) for i in range(free + 1)},
                  escape=lambda s: [0.0, speed, 0.0], escape_steps=2 + free,
                  objectives=lambda s, c, u, n: [sum(w * (v - g) ** 2 for w, v, g in zip(weight, n, goal)), sum(v ** 2 for v in u)])


def quadrotor():
    dt, arm, mass, inertia, gravity, gap, widening, braking, tilt = 0.05, 0.25, 0.486, 0.00383, 9.81, 0.55, 0.35, 0.35, 1.2
    hover = mass * gravity / 2

    def ode(s, u):
        push = (u[0] + u[1]) / mass
        return s[3:] + [-push * sin(s[2]), push * cos(s[2]) - gravity, arm / inertia * (u[0] - u[1])]

    def objectives(s, c, u, n):
        return [(n[0] - c[0]) ** 2 + (n[1] - c[1]) ** 2 + 0.05 * (n[3] ** 2 + n[4] ** 2),
                0.1 * ((u[0] - hover) ** 2 + (u[1] - hover) ** 2) + 0.1 * n[2] ** 2 + 0.01 * n[5] ** 2]

    def room(n):
        half, closing = gap + widening * n[0] ** 2 - arm, 2 * widening * n[0] * n[3]
        approach = [(v + sqrt(v ** 2 + 0.04)) / 2 for v in (n[4] - closing, -n[4] - closing)]
        return [half - n[1] - braking * approach[0], half + n[1] - braking * approach[1]]

    def escape(s):
        against = 0.8 * tanh(0.75 * s[3])
        push = hover * (1.25 - 0.75 * tanh(s[4] + 0.3466))
        turn = 0.45 * hover * tanh((100 * (against - s[2]) - 18 * s[5]) * inertia / (0.9 * hover * arm))
        return [push + turn, push - turn]

    return System(6, 2, step=rk4(ode, dt, 1), objectives=objectives, box={2: (-tilt, tilt)}, margins=room, escape=escape, escape_steps=6)


def quadrotor_3d():
    dt, arm, mass, inertia, upright, drag, gravity, room, braking, least_up = 0.05, 0.175, 0.5, 0.0023, 0.0040, 0.0245, 9.81, 0.75, 0.35, 0.36
    hover = mass * gravity / 4

    def ode(s, u):
        (sr, cr), (sp, cp), (sy, cy) = [(sin(a), cos(a)) for a in s[3:6]]
        p, q, r = s[9:]
        push, yawing = sum(u) / mass, (sr * q + cr * r) / cp
        return s[6:9] + [p + sp * yawing, cr * q - sr * r, yawing,
                         push * (cy * sp * cr + sy * sr), push * (sy * sp * cr - cy * sr), push * cp * cr - gravity,
                         (arm * (u[1] - u[3]) + (inertia - upright) * q * r) / inertia,
                         (arm * (u[2] - u[0]) + (upright - inertia) * p * r) / inertia,
                         drag / upright * (u[0] - u[1] + u[2] - u[3])]

    def squares(v):
        return sum(i ** 2 for i in v)

    def objectives(s, c, u, n):
        return [squares(i - g for i, g in zip(n[:3], c)) + 0.05 * squares(n[6:9]),
                0.1 * squares(i - hover for i in u) + 0.1 * squares(n[3:6]) + 0.01 * squares(n[9:])]

    def margins(n):
        away = sqrt(squares(n[:3]))
        closing = -sum(i * v for i, v in zip(n[:3], n[6:9])) / away
        return [away - room - braking * (closing + sqrt(closing ** 2 + 0.04)) / 2, cos(n[3]) * cos(n[4]) - least_up]

    def escape(s):
        def turn(angle, rate):
            return 0.45 * hover * tanh((100 * angle - 18 * rate) * inertia / (0.9 * hover * arm))

        ahead, aside = cos(s[5]) * s[6] + sin(s[5]) * s[7], cos(s[5]) * s[7] - sin(s[5]) * s[6]
        push, yaw = hover * (1.25 - 0.75 * tanh(s[8] + 0.3466)), -0.05 * hover * tanh(s[11])
        roll, pitch = turn(0.6 * tanh(0.75 * aside) - s[3], s[9]), turn(-0.6 * tanh(0.75 * ahead) - s[4], s[10])
        return [push - pitch + yaw, push + roll - yaw, push + pitch + yaw, push - roll - yaw]

    return System(12, 4, step=rk4(ode, dt, 1), objectives=objectives, margins=margins, escape=escape, escape_steps=6)


def hvac():
    power, room, walls, heaters, sensor = 5.1, 0.0928, 3.32, 0.889, 0.0549
    to_walls, to_outside, to_room, to_sensor, window, facade, people = 0.897, 4.38, 0.146, 1.89, 5.75, 3.87, 0.4

    def occupied(c):
        h = 24 * c[6]
        return (1 + tanh(2 * (h - c[4]))) / 2 * (1 + tanh(2 * (c[5] - h))) / 2

    def ode(s, c, u):
        day = 2 * math.pi * c[6]
        air, light = c[0] + c[1] * cos(day - 2 * math.pi * 15 / 24), c[2] * ca.fmax(0, -cos(day))
        wall, heat, sense = (s[1] - s[0]) / to_walls, (s[2] - s[0]) / to_room, (s[3] - s[0]) / to_sensor
        return [(wall + heat + sense + window * light + people * occupied(c)) / room,
                ((air - s[1]) / to_outside - wall + facade * light) / walls, (u[0] - heat) / heaters, -sense / sensor]

    def objectives(s, c, u, n):
        share, tariff = u[0] / power, 1 + exp(-(12 * c[6] - 9.5) ** 2)
        return [(0.02 + occupied(c)) * (n[0] - c[3]) ** 2, tariff * share * (1 + 0.1 * share)]

    return System(4, 1, ode=ode, span=0.25, objectives=objectives, box={0: (16.0, 26.0)})


SYSTEMS = {
    "cartpole": lambda: cartpole(False), "cartpole-track": lambda: cartpole(True), "cstr": cstr, "double-pendulum": double_pendulum,
    "chain9": lambda: chain(1), "chain21": lambda: chain(3), "quadrotor": quadrotor, "quadrotor-3d": quadrotor_3d,
    "hvac": hvac,
}
