"""Plants as users of do-mpc, acados, CasADi, GEKKO, emhass and MPC.jl write them, with own numbers; where each is from, and what gpc made of it before it
knew better. compare.py drives, compiles and exports them, and IPOPT judges."""

from dataclasses import dataclass, field
from typing import Any

import casadi as ca
import numpy as np

import gpc


@dataclass
class Plant:
    """A system with the preference that it is driven by. before are figures of earlier programs: safe episodes, of how many, cost above the best
    known of the exact controller and of a map, %; refused for a system that no controller can be made of."""

    system: gpc.System
    weights: list[float]
    source: str
    before: dict[str, float] = field(default_factory=dict)
    options: dict[str, Any] = field(default_factory=dict)  # of evaluate
    judged: bool = True  # whether IPOPT has the same problem; it knows no estimates
    refused: bool = False


ALL = {}


def plant(source, weights=(0.5, 0.5), **options):
    """Puts what makes a system into ALL, by its name."""

    def keep(make):
        ALL[make.__name__.replace("_", "-")] = lambda: Plant(make(), list(weights), source, **options)
        return make

    return keep


def before(safe=None, of=None, above=None, compiled=None):
    return {k: v for k, v in {"before_safe": safe, "before_episodes": of, "before_above_%": above, "before_map_%": compiled}.items() if v is not None}


# What a first look at gpc was taken with.


@plant("do-mpc #519", before=before(20, 20, 5e-6, 0.075))
def van_der_pol():
    """A state limit, and a hard terminal set."""
    y = gpc.System("van-der-pol-terminal", "Van der Pol", state={"x": ("1", -2, 2), "v": ("1", -2, 2)}, action={"u": ("1", -1, 1)}, scenario={"x": (-0.2, 1.2), "v": (-0.5, 1)}, steps=40, period=0.25)
    y.ode(substeps=2)(lambda s, u: (s.v, (1 - s.x**2) * s.v - s.x + u.u))
    y.objectives(state="1", effort="1")(lambda u, n: (n.x**2 + n.v**2, u.u**2))
    y.margins({"v": "1", "terminal": "1"})(lambda c, n: (n.v + 0.6, np.where(c.clock > 1 - 1.5 / 40, 0.02 - (n.x**2 + n.v**2), 1.0)))
    return y


@plant("emhass #111 and #369, LinearMPC.jl #39", before=before(20, 20, 5e-6, 0.06))
def battery_ahead():
    """A home battery; prices and loads of a day are known ahead as entries of the context."""
    knots, steps = 9, 48
    prices, loads = {f"p{i}": ("€/kWh", 0.05, 0.5) for i in range(knots)}, {f"l{i}": ("kW", 0, 4) for i in range(knots)}
    y = gpc.System("battery-ahead", "home battery, prices known ahead", state={"soc": ("kWh", 0, 10)}, context={**prices, **loads}, action={"charge": ("kW", -4, 4)},
                   scenario={"soc": (2, 8), **dict.fromkeys(prices, (0.08, 0.45)), **dict.fromkeys(loads, (0.3, 3.0))}, steps=steps, period=1800.0, rest=[0.0], objective_scale=[0.3, 0.3])

    def soft(x, e=0.02):
        return 0.5 * (x + np.sqrt(x * x + e * e))

    def now(c, k):
        return np.interp(c.clock, np.concatenate([[-0.001], np.linspace(0, 1, knots)[1:]]), [c[f"{k}{i}"] for i in range(knots)])

    y.step(lambda s, u: (s.soc + 0.5 * (0.95 * soft(u.charge) - soft(-u.charge) / 0.95),))

    @y.objectives(money="€", wear="€")
    def _(c, u, n):
        grid, price = now(c, "l") + u.charge, now(c, "p")
        last = np.where(c.clock > 1 - 1.5 / steps, 1.0, 0.0)
        return 0.5 * (price * soft(grid) - 0.6 * price * soft(-grid)) + 1.5 + last * 0.5 * soft(5 - n.soc), 0.01 * np.sqrt(u.charge**2 + 0.01)

    y.margins(empty="kWh", full="kWh", fuse="kW")(lambda c, u, n: (n.soc - 0.5, 9.5 - n.soc, 6 - (now(c, "l") + u.charge)))
    return y


@plant("the same users, as gpc's pages have it")
def knots_at_zero():
    """Prices of 20 to 300 by np.interp of the clock, whose first knot is where every episode begins. Was refused."""
    knots = 7
    y = gpc.System("knots-at-zero", "storage by prices", state={"soc": ("kWh", 0, 10)}, context={f"p{i}": "€/MWh" for i in range(knots)}, action={"u": ("kW", -4, 4)},
                   scenario={"soc": (2, 8), **{f"p{i}": (20, 300) for i in range(knots)}}, steps=48, period=1800.0)
    y.ode(span=0.5)(lambda s, u: (u.u,))
    y.objectives(money="€", wear="1")(lambda c, u, n: (np.interp(c.clock, np.linspace(0, 1, knots), [c[f"p{i}"] for i in range(knots)]) * (5 + u.u), u.u**2))
    y.margins(empty="kWh", full="kWh")(lambda n: (n.soc, 10 - n.soc))
    return y


@plant("do-mpc #113", before=before(20, 20))
def fishing():
    """Lotka and Volterra's fish, the effort relaxed."""
    y = gpc.System("fishing-relaxed", "Lotka-Volterra fishing", state={"a": ("1", 0, 3), "b": ("1", 0, 3)}, action={"w": ("1", 0, 1)}, scenario={"a": (0.4, 1.2), "b": (0.4, 1.2)}, steps=60, period=0.2, rest=[0.0])
    y.ode(substeps=2)(lambda s, u: (s.a - s.a * s.b - 0.4 * s.a * u.w, -s.b + s.a * s.b - 0.2 * s.b * u.w))
    y.objectives(distance="1", fish="1")(lambda u, n: ((n.a - 1) ** 2 + (n.b - 1) ** 2, 0.01 * u.w**2))
    y.margins(a="1")(lambda n: n.a)
    return y


@plant("Johansson's quadruple tank, do-mpc #33, MPC.jl #78", (0.8, 0.2), before=before(20, 20, -13))
def quadruple_tank():
    """Runs on; rates of the pumps, soft upper levels. Rested at a level below zero before, seven times too dear."""
    a_, a, g1, g2 = (28.0, 32.0, 28.0, 32.0), (0.071, 0.057, 0.071, 0.057), 0.70, 0.60
    y = gpc.System("quadruple-tank", "four tanks, minimum phase", state={"h1": ("cm", 1, 25), "h2": ("cm", 1, 25), "h3": ("cm", 0.2, 12), "h4": ("cm", 0.2, 12)}, context={"r1": ("cm", 8, 18), "r2": ("cm", 8, 18)},
                   action={"v1": ("V", 0, 8), "v2": ("V", 0, 8)}, scenario={"h1": (6, 18), "h2": (6, 18), "h3": (1, 5), "h4": (1, 5), "r1": (9, 17), "r2": (9, 17)}, steps=120, period=5.0, horizon=40,
                   rest=[3, 3], rates={"v1": 1.0, "v2": 1.0}, soft={"h3 high": (2, 0.5), "h4 high": (2, 0.5)}, objective_scale=[4.0, 1.0])

    @y.ode(substeps=2)
    def _(s, u):
        q = [a[i] * np.sqrt(2 * 981 * np.sqrt(s[i] ** 2 + 1e-4)) for i in range(4)]
        return (-q[0] + q[2] + g1 * 3.33 * u.v1) / a_[0], (-q[1] + q[3] + g2 * 3.35 * u.v2) / a_[1], (-q[2] + (1 - g2) * 3.35 * u.v2) / a_[2], (-q[3] + (1 - g1) * 3.33 * u.v1) / a_[3]

    y.objectives(level="cm²", effort="V²")(lambda c, u, n: ((n.h1 - c.r1) ** 2 + (n.h2 - c.r2) ** 2, 0.02 * ((u.v1 - 3) ** 2 + (u.v2 - 3) ** 2)))
    y.margins({"h1 high": "cm", "h2 high": "cm", "h3 high": "cm", "h4 high": "cm", "h1 low": "cm", "h2 low": "cm"})(lambda n: (20 - n.h1, 20 - n.h2, 6 - n.h3, 6 - n.h4, n.h1 - 2, n.h2 - 2))
    return y


def inverter_of(measured):
    r, inductance, psi, volts = 0.5, 2e-3, 0.08, 48.0
    y = gpc.System("inverter-measured" if measured else "inverter", "dq currents of an inverter", state={"id": ("A", -20, 20), "iq": ("A", -20, 20)},
                   context={"w": ("rad/s", 0, 500), "rd": ("A", -8, 0), "rq": ("A", -12, 12), "e": ("V", -3, 3)}, action={"ud": ("V", -28, 28), "uq": ("V", -28, 28)},
                   scenario={"id": (-8, 4), "iq": (-12, 12), "w": (0, 300), "rd": (-6, 0), "rq": (-10, 10), "e": (-2, 2)}, steps=60, period=1e-4, horizon=20, objective_scale=[20.0, 1.0])
    y.ode(substeps=1)(lambda s, c, u: ((u.ud - r * s.id + c.w * inductance * s.iq) / inductance, (u.uq - r * s.iq - c.w * inductance * s.id - c.w * psi + c.e) / inductance))
    y.objectives(current="A²", voltage="1")(lambda c, u, n: ((n.id - c.rd) ** 2 + (n.iq - c.rq) ** 2, 1e-3 * (u.ud**2 + u.uq**2)))
    y.margins(circle="V²", current="A²")(lambda u, n: ((volts / np.sqrt(3)) ** 2 - u.ud**2 - u.uq**2, 225 - n.id**2 - n.iq**2))
    if measured:
        y.measured({"id": 0.1, "iq": 0.1}, process={"id": 0.02, "iq": 0.02}, unknown={"e": {"deviation": 1.2, "drift": 0.05}})
    return y


@plant("acados and embedded users: current control at 10 kHz", before=before(20, 20, 0.03, 537))
def inverter():
    return inverter_of(False)


@plant("the same, offset-free by an unknown voltage that drifts", judged=False)
def inverter_measured():
    return inverter_of(True)


@plant("fermentation-mpc #3, CTDirect #161", refused=True, before=before(20, 20))
def monod_by_rk4():
    """A fed-batch reactor whose substrate is gone within minutes, at an hour a step. Was accepted, with no reference and an empty dataset."""
    return monod(substeps=4)


@plant("the same, by a stiff integrator, as the check of its integration advises")
def monod_stiff():
    return monod(substeps=16, stiff=True)


def monod(**integrator):
    y = gpc.System("monod-stiff" if "stiff" in integrator else "monod-rk4", "fed-batch with Monod and Haldane growth", state={"X": ("g/L", 0, 20), "S": ("g/L", 0, 10), "P": ("g/L", 0, 25), "V": ("L", 1, 6)},
                   context={"Vmax": ("L", 4, 6)}, action={"F": ("L/h", 0, 0.25)}, scenario={"X": (0.8, 1.5), "S": (0.3, 3.0), "P": (0, 0.1), "V": (1.5, 2.5), "Vmax": (4.0, 5.5)}, steps=36, period=3600.0, rest=[0.0], objective_scale=[20.0, 0.02])

    @y.ode(span=1.0, **integrator)
    def _(s, u):
        mu, d, made = 0.40 * s.S / (0.6 + s.S + s.S**2 / 8.0), u.F / s.V, 0.05 * s.X * s.S / (s.S + 0.05)
        return mu * s.X - d * s.X, -mu * s.X / 0.5 - made / 0.9 + d * (180.0 - s.S), made - d * s.P, u.F

    y.objectives(product="g", feed="L²/h²")(lambda c, u, n: (np.where(c.clock > 1 - 1.5 / 36, 120 - n.P * n.V, 0.0), u.F**2))
    y.margins(volume="L", substrate="g/L", overflow="g/L")(lambda c, n: (c.Vmax - n.V, n.S, 6.0 - n.S))
    return y


def lagged(**integrator):
    y = gpc.System("lagged", "cart with a fast actuator", state={"x": ("m", -2, 2), "v": ("m/s", -3, 3), "f": ("N", -5, 5)}, context={"goal": ("m", -1, 1)}, action={"force": ("N", -5, 5)},
                   scenario={"x": (-1, 1), "v": (-0.5, 0.5), "goal": (-1, 1)}, steps=30, period=0.1)
    y.ode(**integrator)(lambda s, u: (s.v, s.f, -80 * (s.f - u.force)))
    y.objectives(position="m²", effort="N²")(lambda c, u, n: ((n.x - c.goal) ** 2 + 0.1 * n.v**2, 0.01 * u.force**2))
    y.margins(left="m", right="m")(lambda n: (n.x + 2, 2 - n.x))
    return y


@plant("users who come from implicit collocation", refused=True, before=before(8, 10, 26513))
def pole_by_rk4():
    """A pole of −80/s at a period of 0.1 s. Was said to be safe in 10 of 10 at 0.008 %; the figures are those of the same equations by finer steps."""
    return lagged()


@plant("the same, by a stiff integrator")
def pole_stiff():
    return lagged(substeps=2, stiff=True)


def cart(name, objectives, margins=lambda n: (n.x + 2, 2 - n.x), starts=(-1, 1)):
    y = gpc.System(name, "a cart", state={"x": "m", "v": "m/s"}, context={"goal": "m"}, action={"force": ("N", -5, 5)}, scenario={"x": starts, "v": (-0.5, 0.5), "goal": (-1, 1)}, steps=20, period=0.1)
    y.ode()(lambda s, u: (s.v, u.force))
    y.objectives(position="m", effort="N²")(objectives)
    y.margins(left="m", right="m")(margins)
    return y


def squares(c, u, n):
    return (n.x - c.goal) ** 2 + 0.1 * n.v**2, 0.01 * u.force**2


@plant("tracking by absolute deviations")
def absolute():
    """Had no reference and an empty dataset."""
    return cart("absolute", lambda c, u, n: (np.abs(n.x - c.goal), 0.01 * u.force**2))


@plant("a mistake: limits that exclude each other", refused=True, before=before(0, 10))
def infeasible():
    return cart("infeasible", squares, lambda n: (n.x - 3, 2 - n.x))


@plant("a mistake: the sign of a limit", refused=True, before=before(0, 10))
def wrong_sign():
    return cart("wrong-sign", squares, lambda n: (n.x - 2, n.x - 2))


@plant("a mistake: no objective depends on the action", refused=True)
def no_action():
    """Compiled, and met its target."""
    return cart("no-action", lambda c: (c.goal**2, 1.0))


@plant("a mistake: starts in millimetres", refused=True)
def millimetres():
    return cart("millimetres", squares, starts=(-1000, 1000))


@plant("a cost written as one objective, or as two", (1.0,), before=before(above=0.73))
def servo():
    """Two objectives are by default minimised by an adaptive priority: 0.73 % above what their sum costs. One objective, or weights, is the sum."""
    y = gpc.System("servo", "servo", state={"x": ("m", -2, 2), "v": ("m/s", -3, 3)}, context={"goal": "m"}, action={"f": ("N", -5, 5)}, scenario={"x": (-1, 1), "v": (-0.5, 0.5), "goal": (-1, 1)}, steps=40, period=0.1)
    y.ode()(lambda s, u: (s.v, u.f))
    y.margins(right="m")(lambda n: 3 - n.x)
    y.objectives(J="1")(lambda c, u, n: (n.x - c.goal) ** 2 + 0.1 * n.v**2 + 0.01 * u.f**2)
    return y


# Fifteen more, and four that came from their faults.


@plant("acados' race car in Frenet coordinates", before=before(20, 20))
def race_car():
    """The curvature of the track is tabulated."""
    track, curvature = np.linspace(0, 60, 13), np.array([0, 0, 0.05, 0.12, 0.12, 0.02, 0, -0.08, -0.15, -0.1, 0, 0, 0.04])
    m, lr, lf, drag, motor = 0.9, 0.16, 0.17, 0.06, 4.0
    y = gpc.System("racecar", "race car in Frenet coordinates",
                   state={"s": ("m", 0, 60), "n": ("m", -1, 1), "alpha": ("rad", -0.6, 0.6), "v": ("m/s", 0, 6), "D": ("1", -1, 1), "delta": ("rad", -0.4, 0.4)}, action={"dD": ("1/s", -8, 8), "ddelta": ("rad/s", -2, 2)},
                   scenario={"s": (0, 25), "n": (-0.4, 0.4), "alpha": (-0.1, 0.1), "v": (2.0, 3.5)}, steps=40, period=0.1, objective_scale=[4, 0.3])

    @y.ode(substeps=2)
    def _(s, u):
        bend, beta = np.interp(s.s, track, curvature), np.arctan(lr / (lr + lf) * np.tan(s.delta))
        along = s.v * np.cos(s.alpha + beta) / (1 - bend * s.n)
        return along, s.v * np.sin(s.alpha + beta), s.v / lr * np.sin(beta) - bend * along, (motor * s.D - drag * s.v**2 - 0.2 * np.tanh(5 * s.v)) / m * np.cos(beta), u.dD, u.ddelta

    y.objectives(progress="m²/s²", track="1")(lambda s, u, n: ((5.0 - (n.s - s.s) / 0.1) ** 2 * 0.5, n.n**2 + n.alpha**2 * 0.5 + 1e-3 * u.dD**2 + 1e-2 * u.ddelta**2))

    @y.margins({"left": "m", "right": "m", "alat": "m/s²", "alat-": "m/s²", "D+": "1", "D-": "1", "steer+": "rad", "steer-": "rad"})
    def _(n):
        a = n.v**2 * n.delta / (lr + lf)
        return 0.6 - n.n, n.n + 0.6, 5 - a, 5 + a, 1 - n.D, n.D + 1, 0.4 - n.delta, n.delta + 0.4

    return y


@plant("Klatt and Engell's reactor, as do-mpc has it, by CasADi", (0.7, 0.3), before=before(20, 20, 0.21))
def van_de_vusse():
    """Stiff; runs on."""
    x, u = ca.SX.sym("x", 4), ca.SX.sym("u", 2)
    k1, k2, k3 = (k * ca.exp(e / (x[2] + 273.15)) for k, e in ((1.287e12, -9758.3), (1.287e12, -9758.3), (9.043e9, -8560.0)))
    rho, cp, kw, area, volume, mass, cpk = 0.9342, 3.01, 4032.0, 0.215, 10.0, 5.0, 2.0
    ode = ca.vertcat(
        u[0] * (5.1 - x[0]) - k1 * x[0] - k3 * x[0] ** 2, -u[0] * x[1] + k1 * x[0] - k2 * x[1],
        u[0] * (130 - x[2]) + kw * area / (rho * cp * volume) * (x[3] - x[2]) - (k1 * x[0] * 4.2 + k2 * x[1] * -11.0 + k3 * x[0] ** 2 * -41.85) / (rho * cp),
        (u[1] + kw * area * (x[2] - x[3])) / (mass * cpk),
    )
    f = gpc.from_casadi(ca.Function("vdv", [x, u], [ode]))
    y = gpc.System("vandevusse", "van de Vusse reactor, product at its set point", state={"cA": ("mol/L", 0, 5), "cB": ("mol/L", 0.4, 1.3), "T": ("°C", 100, 140), "TK": ("°C", 100, 140)},
                   context={"ref": ("mol/L", 0.8, 1.08)}, action={"F": ("1/h", 5, 35), "Q": ("kJ/h", -8500, 0)}, scenario={"cA": (1.2, 3.0), "cB": (0.7, 1.1), "T": (110, 130), "TK": (105, 128), "ref": (0.85, 1.05)},
                   steps=90, period=36.0, horizon=30, rest=[18, -3000], objective_scale=[0.01, 0.02])
    y.ode(substeps=2, stiff=True, span=0.01)(lambda s, u: f(s, u))
    y.objectives(product="mol²/L²", effort="1")(lambda c, u, n: ((n.cB - c.ref) ** 2, 1e-3 * ((u.F - 18) / 10) ** 2 + 1e-3 * ((u.Q + 3000) / 3000) ** 2))
    y.margins({"hot": "K", "cold": "K"})(lambda n: (135 - n.T, n.T - 100))
    return y


@plant("a turbine of 5 MW with Heier's power coefficient", before=before(20, 20))
def wind_turbine():
    """Soft rotor speed; the wind of half a minute is known ahead."""
    inertia, radius, rho, knots = 4.4e7, 63.0, 1.2, 7
    y = gpc.System("windturbine", "wind turbine", state={"omega": ("rad/s", 0.7, 1.5), "tower": ("m", -0.5, 0.8), "vt": ("m/s", -0.5, 0.5), "pitch": ("deg", 0, 25)}, context={f"w{i}": ("m/s", 8, 20) for i in range(knots)},
                   action={"torque": ("MN m", 0, 4.7), "dpitch": ("deg/s", -8, 8)}, scenario={"omega": (1.0, 1.3), "tower": (0, 0.3), "pitch": (2, 10), **{f"w{i}": (9, 18) for i in range(knots)}},
                   steps=60, period=0.5, soft={"overspeed": (20, 100)}, rates={"torque": 1.0}, rest=[4.0, 0], objective_scale=[1, 0.5])

    @y.ode(substeps=2)
    def _(s, c, u):
        v = np.interp(c.clock, np.linspace(0, 1, knots), [c[i] for i in range(knots)]) - s.vt
        pitch, lam, swept = np.maximum(s.pitch, 0), s.omega * radius / v, 0.5 * rho * np.pi * radius**2
        li = 1 / (1 / (lam + 0.08 * pitch) - 0.035 / (pitch**3 + 1))
        power = swept * v**3 * (0.5176 * (116 / li - 0.4 * pitch - 5) * np.exp(-21 / li) + 0.0068 * lam)
        return (power / s.omega - u.torque * 1e6) / inertia, s.vt, (swept * v**2 * 0.7 * np.exp(-0.06 * s.pitch) - 1.9e6 * s.tower - 7e4 * s.vt) / 4.2e5, u.dpitch

    y.objectives(power="MW²", loads="1")(lambda s, u, n: ((5.0 - u.torque * n.omega) ** 2, 5 * n.vt**2 + 0.01 * u.dpitch**2))
    y.margins({"overspeed": "rad/s", "stall": "rad/s", "pitch-": "deg", "pitch+": "deg", "trip": "rad/s"})(lambda n: (1.27 - n.omega, n.omega - 0.6, n.pitch, 25 - n.pitch, 1.55 - n.omega))
    return y


@plant("powered descent: acados #414, TrajectoryOptimization.jl #74", (0.6, 0.4), before=before(27, 30, -0.5))
def rocket():
    """Mass, thrust, glide slope, soft landing at the end."""
    g, isp, steps = 9.81, 280.0, 30
    y = gpc.System("rocket", "powered descent in a plane", state={"x": ("m", -200, 200), "h": ("m", 0, 500), "vx": ("m/s", -40, 40), "vh": ("m/s", -60, 5), "mass": ("t", 15, 25)},
                   action={"tx": ("kN", -150, 150), "th": ("kN", 80, 420)}, scenario={"x": (-120, 120), "h": (330, 420), "vx": (-10, 10), "vh": (-45, -30), "mass": (21, 24)}, steps=steps, period=0.6, rest=[0, 210], objective_scale=[2, 1])
    y.ode(substeps=1)(lambda s, u: (s.vx, s.vh, u.tx / s.mass, u.th / s.mass - g, -np.sqrt(u.tx**2 + u.th**2) / (isp * g)))

    @y.objectives(landing="1", fuel="t²")
    def _(s, c, u, n):
        return np.where(c.clock > 1 - 1.5 / steps, 1.0, 0.0) * ((n.x / 5) ** 2 + (n.h / 2) ** 2 + n.vx**2 + (n.vh + 1) ** 2), (s.mass - n.mass) * 5

    y.margins({"glide": "m", "tilt+": "kN", "tilt-": "kN", "thrust": "kN", "fuel": "t"})(lambda u, n: (n.h + 3 - np.abs(n.x) * 0.35, 0.6 * u.th - u.tx, 0.6 * u.th + u.tx, 420 - np.hypot(u.tx, u.th), n.mass - 15))
    return y


@plant("do-mpc #308 and #461: set points over time", before=before(20, 20, compiled=4.7e-5))
def bath_tub():
    """Level and temperature by two taps."""
    y = gpc.System("bathtub", "level and temperature of a tub, set points change", state={"h": ("cm", 0, 60), "T": ("°C", 15, 60)}, context={"h1": "cm", "h2": "cm", "T1": "°C", "T2": "°C"},
                   action={"hot": ("L/min", 0, 20), "cold": ("L/min", 0, 20)}, scenario={"h": (10, 25), "T": (25, 45), "h1": (15, 35), "h2": (15, 40), "T1": (32, 42), "T2": (30, 40)},
                   steps=48, period=20.0, rates={"hot": 8, "cold": 8}, rest=[4, 4], objective_scale=[20, 5])

    @y.ode(substeps=2, span=1 / 3)
    def _(s, u):
        out = 2.2 * np.sqrt(np.maximum(s.h, 0.1))
        return 10 * (u.hot + u.cold - out) / 60, (u.hot * (60 - s.T) + u.cold * (12 - s.T)) / (6 * s.h) - 0.01 * (s.T - 20)

    @y.objectives(level="cm²", warmth="K²")
    def _(c, u, n):
        return (n.h - np.where(c.clock < 0.5, c.h1, c.h2)) ** 2 + 0.01 * u.cold**2, (n.T - np.where(c.clock < 0.5, c.T1, c.T2)) ** 2 + 0.01 * u.hot**2

    y.margins({"full": "cm", "dry": "cm", "scald": "K"})(lambda n: (50 - n.h, n.h - 3, 48 - n.T))
    return y


@plant("do-mpc #201 and #450", before=before(20, 20, compiled=17.7))
def vehicle():
    """A unicycle among two obstacles that move."""
    dt = 0.2
    y = gpc.System("vehicle", "unicycle among moving obstacles", state={"x": ("m", -1, 11), "y": ("m", -5, 5), "psi": ("rad", -1.5, 1.5), "v": ("m/s", 0, 3)},
                   context={"ax": "m", "ay": "m", "avy": "m/s", "bx": "m", "by": "m", "bvy": "m/s"}, action={"acc": ("m/s²", -2, 2), "turn": ("rad/s", -1, 1)},
                   scenario={"x": (-0.5, 0.5), "y": (-1.5, 1.5), "psi": (-0.3, 0.3), "v": (0.5, 1.5), "ax": (3, 4), "ay": (-2, 2), "avy": (-0.4, 0.4), "bx": (6, 7), "by": (-2, 2), "bvy": (-0.4, 0.4)},
                   steps=40, period=dt, objective_scale=[20, 0.5], solver={"starts": 3})
    y.ode()(lambda s, u: (s.v * np.cos(s.psi), s.v * np.sin(s.psi), u.turn, u.acc))
    y.memory(lambda c: {"ay": c.ay + dt * c.avy, "by": c.by + dt * c.bvy})
    y.objectives(goal="m²", effort="1")(lambda u, n: ((n.x - 10) ** 2 + n.y**2, u.acc**2 * 0.1 + u.turn**2 * 0.3 + 0.05 * n.psi**2))
    y.margins({"A": "m", "B": "m", "speed": "m/s", "back": "m/s"})(
        lambda c, n: (np.hypot(n.x - c.ax, n.y - c.ay - dt * c.avy) - 0.9, np.hypot(n.x - c.bx, n.y - c.by - dt * c.bvy) - 0.9, 3 - n.v, n.v + 0.2))
    return y


@plant("unmeasured states, a delay and an unknown load", (0.7, 0.3), before=before(63, 100), options={"keep_off": 3}, judged=False)
def dc_motor():
    """Every limit is kept off by three standard deviations. The reference knows the load."""
    y = gpc.System("dcmotor", "DC motor with delay and unknown load", state={"theta": ("rad", -2, 2), "omega": ("rad/s", -8, 8), "i": ("A", -12, 12)}, context={"goal": ("rad", -1, 1), "load": ("N m", -0.3, 0.3)},
                   action={"volt": ("V", -12, 12)}, scenario={"theta": (-1, 1), "omega": (-1, 1), "goal": (-1, 1), "load": (-0.25, 0.25)}, steps=40, period=0.04, delay=1, objective_scale=[0.3, 10])
    y.ode(substeps=2)(lambda s, c, u: (s.omega, (0.1 * s.i - 0.1 * s.omega - c.load) / 0.01, (u.volt - s.i - 0.1 * s.omega) / 0.05))
    y.objectives(angle="rad²", effort="V²")(lambda c, u, n: ((n.theta - c.goal) ** 2 + 1e-3 * n.omega**2, 0.01 * u.volt**2))
    y.margins({"speed+": "rad/s", "speed-": "rad/s", "current+": "A", "current-": "A"})(lambda n: (6 - n.omega, n.omega + 6, 9 - n.i, n.i + 9))
    y.measured({"theta": 0.002, "i": 0.05}, process={"omega": 0.02}, unknown={"load": 0.15})
    return y


@plant("emhass: PV, a dear purchase and a cheap sale", before=before(above=8.6))
def battery_pv():
    """Had no reference in any episode."""
    hours, steps = np.arange(25.0), 48
    sun, load = np.maximum(0, np.sin((hours - 6) / 12 * np.pi)) * (hours >= 6) * (hours <= 18), 0.5 + 0.3 * np.exp(-(((hours - 8) / 1.5) ** 2)) + 1.2 * np.exp(-(((hours - 19) / 2) ** 2))
    price = np.where((hours >= 17) & (hours <= 21), 0.38, np.where(hours <= 6, 0.18, 0.26))
    y = gpc.System("batterypv", "home battery with PV", state={"soc": ("kWh", 0, 10)}, context={"sun": ("kW", 2, 6), "use": ("1", 0.7, 1.4)}, action={"power": ("kW", -4, 4)},
                   scenario={"soc": (2, 8), "sun": (2, 6), "use": (0.7, 1.4)}, steps=steps, period=1800.0)
    y.ode(span=0.5)(lambda s, u: np.where(u.power > 0, 0.95 * u.power, u.power / 0.95))

    @y.objectives(money="€", wear="€")
    def _(c, u, n):
        h = 24 * c.clock
        grid = c.use * np.interp(h, hours, load) - c.sun * np.interp(h, hours, sun) + u.power
        end = np.where(c.clock > 1 - 1.5 / steps, 0.25 * (10 - n.soc), 0)
        return 0.5 * np.where(grid > 0, np.interp(h, hours, price) * grid, 0.08 * grid) + 0.3 + end, 0.01 * np.abs(u.power)

    y.margins({"full": "kWh", "empty": "kWh"})(lambda n: (9.5 - n.soc, n.soc - 0.5))
    return y


@plant("tracking by absolute deviations", (0.6, 0.4), before=before(above=329))
def crane():
    """Follows a moving goal. Had no reference."""
    y = gpc.System("cranel1", "a crane follows a moving goal", state={"x": ("m", -1.5, 1.5), "v": ("m/s", -1.2, 1.2), "th": ("rad", -0.4, 0.4), "w": ("rad/s", -1, 1)}, context={"goal": ("m", -1, 1), "speed": ("m/s", -0.2, 0.2)},
                   action={"a": ("m/s²", -2, 2)}, scenario={"x": (-1, 1), "th": (-0.15, 0.15), "goal": (-0.8, 0.8), "speed": (-0.15, 0.15)}, steps=50, period=0.1)
    y.ode(substeps=2)(lambda s, u: (s.v, u.a, s.w, -(9.81 * np.sin(s.th) + u.a * np.cos(s.th) + 0.05 * s.w) / 0.8))
    y.memory(lambda c: {"goal": c.goal + 0.1 * c.speed})
    y.objectives(track="m", sway="rad")(lambda c, u, n: (np.abs(n.x + 0.8 * np.sin(n.th) - c.goal) + 0.1 * np.abs(n.v - c.speed), np.abs(n.th) + 0.1 * np.abs(n.w) + 0.02 * np.abs(u.a)))
    y.margins({"v+": "m/s", "v-": "m/s", "sway+": "rad", "sway-": "rad"})(lambda n: (1.2 - n.v, n.v + 1.2, 0.35 - n.th, n.th + 0.35))
    return y


def friction(name, sign):
    y = gpc.System(name, "cart with Coulomb friction and a dead band", state={"x": ("m", -1.5, 1.5), "v": ("m/s", -1.5, 1.5)}, context={"goal": "m"}, action={"F": ("N", -6, 6)},
                   scenario={"x": (-1, 1), "v": (-0.4, 0.4), "goal": (-1, 1)}, steps=40, period=0.1)
    y.ode(substeps=4)(lambda s, u: (s.v, np.maximum(u.F - 0.5, 0) + np.minimum(u.F + 0.5, 0) - 0.4 * sign(s.v) - 0.1 * s.v))
    y.objectives(position="m²", effort="N²")(lambda c, u, n: ((n.x - c.goal) ** 2 + 0.1 * n.v**2, 0.01 * u.F**2))
    y.margins({"left": "m", "right": "m", "v+": "m/s", "v-": "m/s"})(lambda n: (n.x + 1.6, 1.6 - n.x, 1.3 - n.v, n.v + 1.3))
    return y


@plant("Coulomb friction by np.sign, and a dead band", (0.6, 0.4), before=before(above=315))
def coulomb():
    """Rested in the dead band."""
    return friction("coulomb", np.sign)


@plant("the same, smooth", (0.6, 0.4))
def coulomb_smooth():
    return friction("coulombb", lambda v: v / np.sqrt(v**2 + 1e-4))


@plant("Johansson's quadruple tank, out of phase", (0.6, 0.4), before=before(above=59))
def quadruple_tank_out_of_phase():
    """Runs on; set points may exclude each other."""
    y = gpc.System("quadtank2", "quadruple tank, non-minimum phase", state={f"h{i}": ("cm", 0.5, 20) for i in range(1, 5)}, context={"r1": ("cm", 6, 14), "r2": ("cm", 6, 14)}, action={"q1": ("V", 0, 10), "q2": ("V", 0, 10)},
                   scenario={"h1": (5, 15), "h2": (5, 15), "h3": (1, 6), "h4": (1, 6), "r1": (7, 13), "r2": (7, 13)}, steps=120, period=8.0, horizon=40, rest=[3, 3],
                   soft={"h1 high": 5, "h2 high": 5, "h3 high": (2, 1), "h4 high": (2, 1)}, objective_scale=[5, 1])

    @y.ode(substeps=4)
    def _(s, u):
        q = [a * np.sqrt(2 * 981 * np.maximum(s[i], 0.01)) for i, a in enumerate((0.071, 0.057, 0.071, 0.057))]
        return (-q[0] + q[2] + 0.6 * 3.33 * u.q1) / 28, (-q[1] + q[3] + 0.55 * 3.35 * u.q2) / 32, (-q[2] + 0.45 * 3.35 * u.q2) / 28, (-q[3] + 0.4 * 3.33 * u.q1) / 32

    y.objectives(level="cm²", pumps="V²")(lambda c, u, n: ((n.h1 - c.r1) ** 2 + (n.h2 - c.r2) ** 2, 0.05 * (u.q1 - 3) ** 2 + 0.05 * (u.q2 - 3) ** 2))
    y.margins({f"h{i} high": "cm" for i in range(1, 5)} | {"spill": "cm"})(lambda n: (12.5 - n.h1, 12.5 - n.h2, 6 - n.h3, 6 - n.h4, 19 - n.h1))
    return y


def penicillin(name, positive, feed=0.1, **integrator):
    y = gpc.System(name, "fed-batch penicillin, terminal product", state={"X": ("g/L", 0, 40), "S": ("g/L", 0, 25), "P": ("g/L", 0, 12), "V": ("L", 5, 12)}, action={"F": ("L/h", 0, feed)},
                   scenario={"X": (1.5, 4), "S": (1, 8), "V": (6, 7)}, steps=30, period=4 * 3600.0, rest=[0.02], objective_scale=[1, 1])

    @y.ode(span=4.0, **integrator)
    def _(s, u):
        food = positive(s.S)
        mu, made, d = 0.11 * food / (0.006 * s.X + food + 1e-6), 0.0055 * food / (0.0001 + food * (1 + food / 0.1)), u.F / s.V
        return mu * s.X - d * s.X, -(mu / 0.47 + made / 1.2 + 0.029 * food / (food + 0.01)) * s.X + d * (500 - s.S), made * s.X - 0.01 * s.P - d * s.P, u.F

    y.objectives(product="g", change="1")(lambda c, u, n: (np.where(c.clock > 1 - 1.5 / 30, 130 - n.P * n.V, 0), 0.01 * (u.F / 0.1) ** 2))
    y.margins({"substrate": "g/L", "biomass": "g/L", "volume": "L"})(lambda n: (n.S, 40 - n.X, 10 - n.V))
    return y


@plant("Lim's penicillin, GEKKO's way: four hours a step", (0.8, 0.2), refused=True)
def penicillin_by_rk4():
    return penicillin("penicillin-rk4", lambda s: s, substeps=8)


@plant("the same, stiff, its substrate by np.maximum", (0.8, 0.2))
def penicillin_maximum():
    return penicillin("penicillin-maximum", lambda s: np.maximum(s, 0), stiff=True, substeps=16)


@plant("the same, smooth", (0.8, 0.2))
def penicillin_smooth():
    return penicillin("penicillin-smooth", lambda s: 0.5 * (s + np.sqrt(s**2 + 4e-4)), stiff=True, substeps=16)


@plant("heating in a comfort band at hourly prices: do-mpc and GEKKO", (0.7, 0.3))
def room():
    hours = np.arange(25.0)
    price, air = np.array([0.2] * 6 + [0.35] * 4 + [0.25] * 6 + [0.45] * 5 + [0.25] * 4), 5 + 6 * np.sin((hours - 9) / 24 * 2 * np.pi)
    y = gpc.System("room", "heating a room", state={"room": ("°C", 15, 26), "wall": ("°C", 10, 24)}, context={"cold": ("K", -5, 5)}, action={"heat": ("kW", 0, 6)},
                   scenario={"room": (17, 24), "wall": (14, 21), "cold": (-4, 4)}, steps=48, period=1800.0, rest=[2], objective_scale=[0.3, 0.3])

    @y.ode(substeps=2, span=0.5)
    def _(s, c, u):
        out = np.interp(24 * c.clock, hours, air) + c.cold
        return (u.heat - 0.15 * (s.room - out) - 0.4 * (s.room - s.wall)) / 0.6, (0.4 * (s.room - s.wall) - 0.02 * (s.wall - out)) / 6

    @y.objectives(comfort="K", money="€")
    def _(c, u, n):
        low = np.where((24 * c.clock >= 7) & (24 * c.clock <= 22), 20.0, 17.0)
        return np.maximum(0, low - n.room) + np.maximum(0, n.room - 23.5), 0.5 * np.interp(24 * c.clock, hours, price) * u.heat

    y.margins({"frost": "K", "heat": "K"})(lambda n: (n.room - 12, 28 - n.room))
    return y


def column_of(name, **integrator):
    trays, feed, hold = 20, 1.0, 0.5
    y = gpc.System(name, "binary column of 20 trays", state={f"x{i}": ("1", 0, 1) for i in range(trays)}, context={"zF": ("1", 0.4, 0.6)}, action={"L": ("1", 1.5, 3.5), "V": ("1", 2, 4)},
                   scenario={"top": (0.8, 0.97), "bottom": (0.03, 0.2), "zF": (0.42, 0.58)}, steps=30, period=60.0, rest=[2.4, 2.95], objective_scale=[0.01, 0.01])
    y.initial(lambda p: {f"x{i}": p.bottom + (p.top - p.bottom) * i / (trays - 1) for i in range(trays)} | {"zF": p.zF})

    @y.ode(span=1.0, **integrator)
    def _(s, c, u):
        x = gpc.array([s[i] for i in range(trays)])
        v, middle, d = 2.0 * x / (1 + 1.0 * x), trays // 2, []
        for i in range(trays):
            liquid = u.L + feed if i <= middle else u.L
            if i == 0:
                d.append((liquid * x[1] - (liquid - u.V) * x[0] - u.V * v[0]) / (5 * hold))
            elif i == trays - 1:
                d.append(u.V * (v[i - 1] - x[i]) / (5 * hold))
            else:
                d.append(((liquid if i < middle else u.L) * x[i + 1] - liquid * x[i] + u.V * (v[i - 1] - v[i]) + (feed * c.zF if i == middle else 0)) / hold)
        return d

    y.objectives(purity="1", energy="1")(lambda u, n: (10 * (n.x19 - 0.93) ** 2 + 10 * (n.x0 - 0.08) ** 2, 0.01 * (u.V - 2.5) ** 2 + 0.01 * (u.L - 2) ** 2))
    y.margins({"top": "1", "bottom": "1", "flow": "1"})(lambda u, n: (n.x19 - 0.7, 0.3 - n.x0, u.V - u.L - 0.1))
    return y


@plant("Hahn and Edgar's column, GEKKO's example, with 20 trays", (0.7, 0.3), refused=True)
def column_by_rk4():
    return column_of("column", substeps=8)


@plant("the same, stiff, as its check advises", (0.7, 0.3))
def column():
    return column_of("columnb", substeps=2, stiff=True)


@plant("a learned model: do-mpc #110, l4casadi", (0.6, 0.4), before=before(above=309))
def relu_network():
    rng = np.random.default_rng(3)
    w1, b1, w2 = rng.normal(size=(16, 3)) * 0.6, rng.normal(size=16) * 0.3, rng.normal(size=(2, 16)) * 0.12
    y = gpc.System("relunet", "a learned ReLU network as the dynamics", state={"a": ("1", -2, 2), "b": ("1", -2, 2)}, context={"goal": "1"}, action={"u": ("1", -1, 1)}, scenario={"a": (-1, 1), "b": (-1, 1), "goal": (-0.5, 0.5)}, steps=30, period=0.1)

    @y.step
    def _(s, u):
        d = w2 @ np.maximum(w1 @ gpc.array([s.a, s.b, u.u]) + b1, 0)
        return s.a + 0.1 * s.b + 0.1 * d[0], s.b + 0.1 * (2 * u.u - 0.3 * s.b) + 0.1 * d[1]

    y.objectives(position="1", effort="1")(lambda c, u, n: ((n.a - c.goal) ** 2 + 0.1 * n.b**2, 0.05 * u.u**2))
    y.margins({"b+": "1", "b-": "1"})(lambda n: (1.5 - n.b, n.b + 1.5))
    return y


@plant("a box to go around, by np.maximum of np.abs")
def box():
    y = gpc.System("around-a-box", "a point mass around a box", state={"x": ("m", -3, 3), "y": ("m", -3, 3), "vx": ("m/s", -2, 2), "vy": ("m/s", -2, 2)}, action={"ax": ("m/s²", -2, 2), "ay": ("m/s²", -2, 2)},
                   scenario={"x": (-2.5, -1.6), "y": (-0.6, 0.9), "vx": (0, 0.5)}, steps=50, period=0.1, solver={"starts": 3})
    y.ode()(lambda s, u: (s.vx, s.vy, u.ax, u.ay))
    y.objectives(goal="m²", effort="1")(lambda u, n: ((n.x - 2) ** 2 + n.y**2 + 0.05 * (n.vx**2 + n.vy**2), 0.02 * np.hypot(u.ax, u.ay)))
    y.margins({"box": "m", "speed": "m/s"})(lambda n: (np.maximum(np.abs(n.x) - 0.8, np.abs(n.y) - 0.8), 1.5 - np.maximum(np.abs(n.vx), np.abs(n.vy))))
    return y


@plant("absolute deviations from a goal far from every start", (0.6, 0.4), before=before(above=130))
def far():
    y = gpc.System("far", "a cart to a fixed goal", state={"x": "m", "v": "m/s"}, action={"a": ("m/s²", -2, 2)}, scenario={"x": (-1, 0)}, steps=50, period=0.1)
    y.ode()(lambda s, u: (s.v, u.a))
    y.objectives(way="m", effort="m/s²")(lambda u, n: (np.abs(n.x - 3) + 0.1 * np.abs(n.v), 0.1 * np.abs(u.a)))
    y.margins({"v": "m/s"})(lambda n: 1.5 - n.v)
    return y


@plant("lengths as costs", (0.6, 0.4))
def length():
    y = gpc.System("length", "distance to a far goal, and length of the push", state={"x": "m", "y": "m", "vx": "m/s", "vy": "m/s"}, action={"ax": ("m/s²", -3, 3), "ay": ("m/s²", -3, 3)}, scenario={"x": (-1, 0), "y": (-1, 1)}, steps=60, period=0.1)
    y.ode()(lambda s, u: (s.vx, s.vy, u.ax, u.ay))
    y.objectives(way="m", effort="m/s²")(lambda u, n: (np.sqrt((n.x - 6) ** 2 + (n.y - 4) ** 2) + 0.1 * np.hypot(n.vx, n.vy), 0.1 * np.sqrt(u.ax**2 + u.ay**2)))
    y.margins({"push": "m/s²"})(lambda u: 9 - u.ax**2 - u.ay**2)
    return y


@plant("the worst of three deviations, and prices by pieces", (0.7, 0.3), before=before(above=7))
def worst():
    y = gpc.System("worst", "largest of three deviations", state={"a": "m", "b": "m", "c": "m"}, context={"goal": "m"}, action={"u": ("1/s", -1, 1), "v": ("1/s", -1, 1)},
                   scenario={"a": (-1, 1), "b": (-1, 1), "c": (-1, 1), "goal": (2, 4)}, steps=40, period=0.1)
    y.ode()(lambda s, u: (u.u + 0.3 * (s.b - s.a), u.v, np.minimum(u.u, u.v) + 0.2 * (s.a - s.c)))
    y.objectives(worst="m", effort="1/s")(
        lambda c, u, n: (np.maximum(np.maximum(np.abs(n.a - c.goal), np.abs(n.b - c.goal)), np.abs(n.c - c.goal)), np.where(u.u > 0, 0.3, -0.1) * u.u + 0.1 * np.abs(u.v)))
    return y


# Eight more of public examples.


@plant("do-mpc's oscillating masses")
def oscillating_masses():
    """Two masses between springs, discrete and linear, as matrices."""
    a = np.array([[0.763, 0.460, 0.115, 0.020], [-0.899, 0.763, 0.420, 0.115], [0.115, 0.020, 0.763, 0.460], [0.420, 0.115, -0.899, 0.763]])
    b = np.array([[0.014], [0.063], [0.221], [0.367]])
    y = gpc.System("oscillating-masses", "two masses between springs", state={f"x{i}": ("1", -4, 4) for i in range(4)}, action={"u": ("1", -0.5, 0.5)},
                   scenario={f"x{i}": (-1.5, 1.5) for i in range(4)}, steps=40, period=0.5)
    y.step(lambda s, u: a @ np.array([s.x0, s.x1, s.x2, s.x3]) + b @ np.array([u.u]))
    y.objectives(state="1", effort="1")(lambda u, n: (sum(n[i] ** 2 for i in range(4)), 0.1 * u.u**2))
    y.margins({f"x{i}{sign}": "1" for i in range(4) for sign in "+-"})(lambda n: [m for i in range(4) for m in (4 - n[i], n[i] + 4)])
    return y


@plant("do-mpc's towing kite", (0.9, 0.1))
def kite():
    """Economic: the tether's pull counts, above a least height."""
    area, lift, rope, tilde = 160.0, 6.0, 400.0, 0.028
    y = gpc.System("kite", "a towing kite", state={"theta": ("rad", 0.05, 1.4), "phi": ("rad", -1.3, 1.3), "psi": ("rad", -4, 4)}, context={"wind": ("m/s", 5, 9)}, action={"u": ("1", -10, 10)},
                   scenario={"theta": (0.35, 0.6), "phi": (-0.3, 0.3), "psi": (-0.5, 0.5), "wind": (6, 8)}, steps=40, period=0.15, rest=[0.0], objective_scale=[20, 1])

    def pull(s, c, u):
        e = lift - tilde * u.u**2
        return 0.5 * c.wind**2 * area * np.cos(s.theta) ** 3 * (e + 1) * np.sqrt(e**2 + 1)

    @y.ode(substeps=2)
    def _(s, c, u):
        e = lift - tilde * u.u**2
        air = c.wind * e * np.cos(s.theta)
        dphi = -air / (rope * np.sin(s.theta)) * np.sin(s.psi)
        return air / rope * (np.cos(s.psi) - np.tan(s.theta) / e), dphi, air / rope * u.u + dphi * np.cos(s.theta)

    y.objectives(pull="1", steering="1")(lambda s, c, u: (20 - 1e-4 * pull(s, c, u), 0.01 * u.u**2))
    y.margins({"height": "m"})(lambda n: rope * np.sin(n.theta) * np.cos(n.phi) - 100)
    return y


@plant("APMonitor's temperature control lab, GEKKO", (0.9, 0.1))
def tclab():
    """Two heaters that radiate at each other; slow sensors; runs on."""
    y = gpc.System("tclab", "temperature control lab", state={k: ("°C", 15, 90) for k in ("T1", "T2", "M1", "M2")}, context={"r1": ("°C", 25, 65), "r2": ("°C", 25, 55), "air": ("°C", 15, 28)},
                   action={"Q1": ("%", 0, 100), "Q2": ("%", 0, 100)}, scenario={"T1": (21, 40), "T2": (21, 40), "M1": (21, 40), "M2": (21, 40), "r1": (30, 60), "r2": (30, 50), "air": (18, 25)},
                   steps=60, period=10.0, horizon=30, rates={"Q1": 40, "Q2": 40}, rest=[20, 20], objective_scale=[50, 1])

    @y.ode(substeps=2)
    def _(s, c, u):
        def kelvin(t):
            return t + 273.15

        area, mass, cp, eps, sigma, h = 1e-3, 4e-3, 500.0, 0.9, 5.67e-8, 9.0
        between = 2e-4 * h * (s.T2 - s.T1) + 2e-4 * eps * sigma * (kelvin(s.T2) ** 4 - kelvin(s.T1) ** 4)
        lost = [h * area * (c.air - t) + eps * sigma * area * (kelvin(c.air) ** 4 - kelvin(t) ** 4) for t in (s.T1, s.T2)]
        return (lost[0] + between + 0.01 * u.Q1) / (mass * cp), (lost[1] - between + 0.0075 * u.Q2) / (mass * cp), (s.T1 - s.M1) / 19, (s.T2 - s.M2) / 19

    y.objectives(track="K²", power="1")(lambda c, u, n: ((n.M1 - c.r1) ** 2 + (n.M2 - c.r2) ** 2, 1e-3 * (u.Q1**2 + u.Q2**2)))
    y.margins({"hot1": "K", "hot2": "K"})(lambda n: (80 - n.T1, 80 - n.T2))
    return y


@plant("Bryson and Denham, as in CasADi, dymos and GEKKO", (0.5, 0.5))
def bryson_denham():
    """A double integrator turns around below a wall, and ends where it began."""
    steps = 30
    y = gpc.System("bryson-denham", "a double integrator below a wall", state={"x": ("m", -0.2, 0.2), "v": ("m/s", -2, 2)}, context={"wall": ("m", 0.08, 0.2)}, action={"u": ("m/s²", -15, 15)},
                   scenario={"v": (0.7, 1.1), "wall": (0.1, 0.18)}, steps=steps, period=1 / 30, rest=[0.0])
    y.ode()(lambda s, u: (s.v, u.u))
    y.objectives(end="1", effort="1")(lambda c, u, n: (np.where(c.clock > 1 - 1.5 / steps, 1e3, 0) * (n.x**2 + 0.1 * (n.v + 1) ** 2), 0.01 * u.u**2))
    y.margins(wall="m")(lambda c, n: c.wall - n.x)
    return y


@plant("HIV therapy, GEKKO's example", (0.6, 0.4), before=before(6, 6, 5))
def hiv():
    """Healthy cells, infected cells and virus, over seven decades. The floor in the logarithm was rounded away: 5 % above IPOPT. Its
    slope is so large that the tolerance alone left 3 %."""
    y = gpc.System("hiv", "HIV under therapy", state={"H": ("1/mm³", 0, 1e3), "I": ("1/mm³", 0, 1e3), "V": ("1/mm³", 0, 1e4)}, action={"drug": ("1", 0, 0.9)},
                   scenario={"H": (200, 900), "I": (1, 40), "V": (10, 400)}, steps=50, period=86400.0, rest=[0.0], objective_scale=[5, 1])

    @y.ode(span=1.0, substeps=8)
    def _(s, u):
        new = 2e-5 * s.H * s.V * (1 - u.drug)
        return 10 - 0.02 * s.H - new, new - 0.5 * s.I, 100 * 0.5 * s.I - 3.0 * s.V

    y.objectives(virus="1", drug="1")(lambda u, n: (np.log10(np.maximum(n.V, 1e-3)) + 3, 2 * u.drug**2))
    y.margins(healthy="1/mm³")(lambda n: n.H - 50)
    return y


@plant("van Henten's lettuce greenhouse, as do-mpc and CasADi users have it", (0.8, 0.2))
def greenhouse():
    """Crop, carbon dioxide, temperature and humidity over a day; sizes from 1e-3 to 1e2; weather by np.interp."""
    hours, steps = np.arange(25.0), 48
    light = 300 * np.maximum(0, np.sin((hours - 6) / 12 * np.pi))
    y = gpc.System("greenhouse", "lettuce in a greenhouse", state={"crop": ("kg/m²", 0, 0.5), "co2": ("kg/m³", 0, 5e-3), "T": ("°C", 5, 35), "water": ("kg/m³", 0, 0.03)}, context={"sky": ("1", 0.5, 1.2), "cold": ("K", -4, 4)},
                   action={"dose": ("mg/(m² s)", 0, 1.2), "vent": ("mm/s", 0, 7.5), "heat": ("W/m²", 0, 150)}, scenario={"crop": (0.05, 0.25), "co2": (8e-4, 1.5e-3), "T": (12, 18), "water": (6e-3, 9e-3), "sky": (0.6, 1.1), "cold": (-3, 3)},
                   steps=steps, period=1800.0, rest=[0, 1, 20], objective_scale=[0.2, 0.2], soft={"cool": 0.2, "warm": 0.2, "humid": 0.05})

    @y.ode(substeps=16)
    def _(s, c, u):
        sun, out = c.sky * np.interp(24 * c.clock, hours, light), 12 + 5 * np.sin((24 * c.clock - 9) / 24 * 2 * np.pi) + c.cold
        grown = 1 - np.exp(-53 * s.crop)
        taken = grown * 3.55e-9 * sun * (-5.11e-6 * s.T**2 + 2.3e-4 * s.T - 6.29e-4) * (s.co2 - 5.2e-5) / (3.55e-9 * sun + (-5.11e-6 * s.T**2 + 2.3e-4 * s.T - 6.29e-4) * (s.co2 - 5.2e-5))
        breath, air = 2.65e-7 * s.crop * 2 ** (0.1 * s.T - 2.5), u.vent * 1e-3 + 0.75e-4
        steam = grown * 3.6e-3 * (9348 / (8314 * (s.T + 273.15)) * np.exp(17.4 * s.T / (s.T + 239)) - s.water)
        return 0.544 * taken - breath, (-taken + 0.487 / 0.544 * breath + u.dose * 1e-6 - air * (s.co2 - 7.2e-4)) / 4.1, (u.heat - (1290 * air + 6.1) * (s.T - out) + 0.2 * sun) / 3e4, (steam - air * (s.water - 6e-3)) / 4.1

    y.objectives(growth="1", money="1")(lambda s, u, n: (0.1 - 300 * (n.crop - s.crop), 0.002 * u.heat + 0.05 * u.dose))
    y.margins({"cool": "K", "warm": "K", "co2": "kg/m³", "humid": "g/m³"})(lambda n: (n.T - 10, 25 - n.T, 2.75e-3 - n.co2, 1e3 * (0.014 - n.water)))
    return y


@plant("a truck that backs its trailer into a dock, acados and MPCTools", (0.7, 0.3))
def trailer():
    """Unstable backwards; the hitch must not jack-knife."""
    y = gpc.System("trailer", "a truck backs a trailer", state={"x": ("m", -2, 25), "y": ("m", -8, 8), "th": ("rad", -1.2, 1.2), "hitch": ("rad", -1, 1), "v": ("m/s", -2, 2), "steer": ("rad", -0.7, 0.7)},
                   action={"a": ("m/s²", -1, 1), "rate": ("rad/s", -0.6, 0.6)}, scenario={"x": (12, 16), "y": (-2, 2), "th": (-0.3, 0.3), "hitch": (-0.2, 0.2)}, steps=60, period=0.3, objective_scale=[20, 0.5])

    @y.ode(substeps=2)
    def _(s, u):
        truck, trail = 3.0, 5.0
        turn = s.v / truck * np.tan(s.steer)
        back = s.v * np.cos(s.hitch)
        return back * np.cos(s.th), back * np.sin(s.th), s.v * np.sin(s.hitch) / trail, turn - s.v * np.sin(s.hitch) / trail, u.a, u.rate

    y.objectives(dock="1", effort="1")(lambda u, n: (0.1 * n.x**2 + n.y**2 + 3 * n.th**2 + n.hitch**2, u.a**2 + u.rate**2 + 0.1 * n.v**2))
    y.margins({"jack+": "rad", "jack-": "rad", "steer+": "rad", "steer-": "rad", "v+": "m/s", "v-": "m/s", "dock": "m"})(
        lambda n: (0.9 - n.hitch, n.hitch + 0.9, 0.6 - n.steer, n.steer + 0.6, 2 - n.v, n.v + 2, n.x + 1))
    return y


@plant("acados' Furuta pendulum, by CasADi", (0.8, 0.2))
def furuta():
    """Swung up from anywhere below; the mass matrix is solved in CasADi."""
    x, tau = ca.SX.sym("x", 4), ca.SX.sym("tau")
    m2, l1, l2, j1, j2 = 0.095, 0.1, 0.08, 2.5e-3, 2.2e-4
    th, w1, w2 = x[1], x[2], x[3]
    mass = ca.vertcat(ca.horzcat(j1 + m2 * l1**2 + j2 * ca.sin(th) ** 2, m2 * l1 * l2 * ca.cos(th)), ca.horzcat(m2 * l1 * l2 * ca.cos(th), j2 + m2 * l2**2))
    forces = ca.vertcat(tau - 5e-4 * w1 - j2 * ca.sin(2 * th) * w1 * w2 + m2 * l1 * l2 * ca.sin(th) * w2**2, -1e-4 * w2 + 0.5 * j2 * w1**2 * ca.sin(2 * th) + m2 * 9.81 * l2 * ca.sin(th))
    f = gpc.from_casadi(ca.Function("furuta", [x, tau], [ca.vertcat(w1, w2, ca.solve(mass, forces))]))
    y = gpc.System("furuta", "Furuta's pendulum swung up", state={"arm": ("rad", -3, 3), "th": ("rad", -7, 7), "w1": ("rad/s", -20, 20), "w2": ("rad/s", -30, 30)}, action={"tau": ("N m", -0.06, 0.06)},
                   scenario={"arm": (-0.5, 0.5), "th": (2.2, 4.0), "w1": (-1, 1), "w2": (-1, 1)}, steps=50, period=0.02, objective_scale=[4, 0.1], solver={"starts": 2})
    y.ode(substeps=2)(lambda s, u: f(s, u))
    y.objectives(upright="1", effort="1")(lambda u, n: (2 * (1 - np.cos(n.th)) + 0.1 * n.arm**2 + 1e-3 * (n.w1**2 + n.w2**2), 20 * u.tau**2))
    y.margins({"arm+": "rad", "arm-": "rad"})(lambda n: (2 - n.arm, n.arm + 2))
    return y


@plant("GEKKO's and rockit's heat pumps, emhass", (0.5, 0.5))
def heat_pump():
    """Its efficiency is clipped where it is warm; price and weather are known ahead."""
    y = gpc.System("heat-pump", "a house by a heat pump", state={"room": ("K", 288, 298), "floor": ("K", 285, 300), "tank": ("K", 300, 330)}, action={"pump": ("kW", 0, 4), "valve": ("kW", 0, 8)},
                   forecast={"price": gpc.forecast("€/kWh", points=7, period=3600, range=(0.08, 0.5)), "out": gpc.forecast("K", points=7, period=3600, range=(263, 285))},
                   scenario={"room": (292, 295), "floor": (290, 293), "tank": (308, 318)}, steps=48, period=900, horizon=24, rest=[1.0, 3.0], soft={"cold": 1.5, "warm": 0.5}, objective_scale=[0.3, 0.5])

    @y.ode(span=0.25)
    def _(s, c, u):
        efficiency = np.clip(np.polyval([4.0e-4, -0.11, 7.9], s.tank - c.out), 1.2, 6)
        return (s.floor - s.room) / 1.5 + 0.9 * (c.out - s.room) / 8, (u.valve + 1.9 * (s.room - s.floor) + 0.12 * (c.out - s.floor)) / 12, (efficiency * u.pump - u.valve - 0.004 * (s.tank - 290)) / 0.35

    y.objectives(money="€", comfort="K²")(lambda c, u, n: (0.25 * c.price * u.pump, 0.05 * (n.room - 294) ** 2))
    y.margins(cold="K", warm="K", boil="K", lukewarm="K")(lambda n: (n.room - 292, 296 - n.room, 330 - n.tank, n.tank - 300))
    return y


@plant("FATROP's and acados' quadcopters", (0.7, 0.3))
def drone():
    """Past two others that move, at a soft limit of its speed; it begins at rest."""
    y = gpc.System("drone", "a drone in a plane past two others", state={"x": ("m", -2, 12), "z": ("m", 0, 6), "th": ("rad", -0.8, 0.8), "vx": ("m/s", -4, 4), "vz": ("m/s", -3, 3), "w": ("rad/s", -4, 4)},
                   context={**{f"{k}{i}": unit for i in (1, 2) for k, unit in (("ox", "m"), ("oz", "m"), ("vx", "m/s"), ("vz", "m/s"))}, "wind": ("N", -0.6, 0.6)}, action={"up": ("N", 0, 10), "turn": ("N m", -0.4, 0.4)},
                   scenario={"x": (0, 0.5), "z": (1.5, 3), "wind": (-0.4, 0.4), "o1": (3, 4), "o2": (1, 2)}, steps=50, period=0.1, rest=[4.905, 0], soft={"speed": 3})
    y.initial(lambda p: {"x": p.x, "z": p.z, "wind": p.wind, "ox1": p.o1, "oz1": 4, "vx1": 0.1, "vz1": -0.6, "ox2": 6, "oz2": p.o2, "vx2": -0.4, "vz2": 0.2})
    y.memory(lambda c: {f"o{a}{i}": c[f"o{a}{i}"] + 0.1 * c[f"v{a}{i}"] for i in (1, 2) for a in "xz"})
    y.ode(substeps=2)(lambda s, c, u: (s.vx, s.vz, s.w, (-u.up * np.sin(s.th) + c.wind - 0.2 * s.vx) / 0.5, (u.up * np.cos(s.th) - 0.2 * s.vz) / 0.5 - 9.81, u.turn / 0.02))
    y.objectives(way="m²", effort="N²")(lambda u, n: (0.1 * (n.x - 9) ** 2 + 0.2 * (n.z - 2) ** 2, 0.02 * (u.up - 4.905) ** 2 + 2 * u.turn**2 + 0.05 * n.w**2))
    y.margins({"one": "m", "two": "m", "ground": "m", "speed": "m/s", "tilt+": "rad", "tilt-": "rad"})(lambda c, n: (
        *(np.hypot(n.x - c[f"ox{i}"] - 0.1 * c[f"vx{i}"], n.z - c[f"oz{i}"] - 0.1 * c[f"vz{i}"]) - 0.7 for i in (1, 2)), n.z - 0.2, 3.2 - np.hypot(n.vx, n.vz), 0.75 - n.th, n.th + 0.75))
    return y


@plant("a water network of EPANET's kind: friction by Colebrook's equation", (0.7, 0.3))
def colebrook():
    """A DAE whose friction has no value for a flow backwards; pascals, cubic metres a second and a roughness of micrometres, with a rate."""
    across, length, rough, viscosity, density = 0.2, 400.0, 45e-6, 1.0e-6, 998.0
    area = np.pi * across**2 / 4
    y = gpc.System("colebrook", "a pump and a rough pipe", state={"Q": ("m³/s", 0.005, 0.12), "p": ("Pa", 1e5, 6e5)}, context={"goal": ("Pa", 2e5, 4e5), "use": ("m³/s", 0.02, 0.06)}, action={"speed": ("1", 0.4, 1.2)},
                   scenario={"Q": (0.02, 0.06), "p": (2e5, 3.5e5), "goal": (2.2e5, 3.5e5), "use": (0.025, 0.05)}, steps=50, period=1.0, rest=[0.9], rates={"speed": 0.1})
    y.algebraic({"f": "1"}, guess={"f": 0.02})(lambda s, z: 1 / np.sqrt(z.f) + 2 * np.log10(rough / (3.7 * across) + 2.51 / (s.Q / area * across / viscosity * np.sqrt(z.f))))

    @y.ode(substeps=4)
    def _(s, c, u, z):
        head = density * 9.81 * (52 * u.speed**2 - 2500 * s.Q**2)
        loss = z.f * length / across * density / 2 * (s.Q / area) * np.abs(s.Q / area)
        return (head + 1.013e5 - s.p - loss) * area / (density * length), 4e6 * (s.Q - c.use)

    y.objectives(pressure="1", energy="1")(lambda c, u, n: (((n.p - c.goal) / 1e5) ** 2, 0.1 * (u.speed - 0.9) ** 2))
    y.margins(burst="Pa", starve="Pa", back="m³/s")(lambda n: (5.5e5 - n.p, n.p - 1.2e5, n.Q - 0.006))
    return y
