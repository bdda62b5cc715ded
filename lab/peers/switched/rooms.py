"""Rooms in a row, each with a heater that is on or off, of any number of rooms and periods: linear in the state and quadratic in its cost, or with limits
and a linear cost. One room is a small house."""

import numpy as np

import gpc

PERIOD = 0.25  # h
LOSS, WALL, HEATING = 0.15, 0.3, 3.0  # of a room to the outside and to its neighbour, 1/h, and by its heater, K/h
COMFORT, BAND, SWING = 21.0, 1.5, 4.0  # °C, the most above and below it where it is a limit, K, and of the outside in a day, K


def system(rooms, periods, limits=False):
    """Heaters stay on or off for two periods. Without limits, together they cost more than one by one, by a price of the peak."""
    y = gpc.System(
        f"rooms{rooms}x{periods}{'-limits' if limits else ''}", f"{rooms} rooms in a row with heaters, {periods} periods of a quarter of an hour",
        state={f"room{i}": "°C" for i in range(rooms)}, action={f"heater{i}": gpc.on_off("1", least=2) for i in range(rooms)},
        context={"outside": "°C"}, scenario={**{f"room{i}": (20.5, 22) for i in range(rooms)}, "outside": (2, 8)}, steps=periods, period=3600 * PERIOD,
    )

    @y.ode(span=PERIOD)
    def _(s, c, u):
        outside = c.outside + SWING * np.cos(2 * np.pi * PERIOD * periods / 24 * c.clock)
        walls = [WALL * (s[i + 1] - s[i]) for i in range(rooms - 1)]
        inward, outward = [*walls, 0.0], [0.0, *walls]
        return [LOSS * (outside - s[i]) + inward[i] - outward[i] + HEATING * u[i] for i in range(rooms)]

    if limits:
        y.objectives(energy="1")(lambda u: sum(u[i] for i in range(rooms)))
        y.margins(**{f"{kind}{i}": "K" for i in range(rooms) for kind in ("cold", "hot")})(
            lambda n: [margin for i in range(rooms) for margin in (n[i] - COMFORT + BAND, COMFORT + BAND - n[i])]
        )
        return y

    @y.objectives(discomfort="K²", energy="1")
    def _(u, n):
        heat = sum(u[i] for i in range(rooms))
        return sum((n[i] - COMFORT) ** 2 for i in range(rooms)), 0.1 * heat + 0.02 * heat * heat

    return y
