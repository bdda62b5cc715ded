"""Rooms in a row, each with a heater that is on or off: linear in the state, quadratic in its cost, of any number of heaters and periods. One room is a
small house."""

import numpy as np

import gpc

PERIOD = 0.25  # h
LOSS, WALL, HEATING = 0.15, 0.3, 3.0  # of a room to the outside and to its neighbour, 1/h, and by its heater, K/h
COMFORT, SWING = 21.0, 4.0  # °C, and of the outside in a day, K


def system(rooms, periods):
    """Heaters stay on or off for two periods. Together they cost more than one by one, by a price of the peak."""
    y = gpc.System(
        f"rooms{rooms}x{periods}", f"{rooms} rooms in a row with heaters, {periods} periods of a quarter of an hour",
        state={f"room{i}": "°C" for i in range(rooms)}, action={f"heater{i}": gpc.on_off("1", least=2) for i in range(rooms)},
        context={"outside": "°C"}, scenario={**{f"room{i}": (19, 22) for i in range(rooms)}, "outside": (2, 8)}, steps=periods, period=3600 * PERIOD,
    )

    @y.ode(span=PERIOD)
    def _(s, c, u):
        outside = c.outside + SWING * np.cos(2 * np.pi * PERIOD * periods / 24 * c.clock)
        walls = [WALL * (s[i + 1] - s[i]) for i in range(rooms - 1)]
        flows = [*walls, 0.0], [0.0, *walls]
        return [LOSS * (outside - s[i]) + flows[0][i] - flows[1][i] + HEATING * u[i] for i in range(rooms)]

    @y.objectives(discomfort="K²", energy="1")
    def _(u, n):
        heat = sum(u[i] for i in range(rooms))
        return sum((n[i] - COMFORT) ** 2 for i in range(rooms)), 0.1 * heat + 0.02 * heat * heat

    return y
