"""Blood glucose by an insulin pump: Bergman's minimal model with a subcutaneous depot, after a meal. Glucose may not fall below
70 mg/dL, and what is infused acts half an hour later: the limit is kept along the escape, which is no insulin.

    python examples/python/glucose.py --budget 4m --out out/glucose --json
"""

import numpy as np
import run

import gpc

P1, P2, P3 = 0.028, 0.025, 1.3e-5  # 1/min, 1/min, mL/(µU min²)
DEPOT, CLEARANCE, VOLUME = 1 / 55, 0.09, 12.0  # 1/min, 1/min, L
BASAL, LEAST, TARGET = 81.0, 70.0, 110.0  # mg/dL
MEAL = 1 / 40  # 1/min, at which a meal is absorbed

glucose = gpc.System(
    "glucose", "blood glucose by an insulin pump after a meal",
    state={"glucose": ("mg/dL", 60, 300), "remote": ("1/min", 0, 0.02), "plasma": ("µU/mL", 0, 60), "depot": ("mU", 0, 3000)},
    context={"meal": "mg/(dL min)"}, action={"insulin": ("mU/min", 0, 60)},
    scenario={"glucose": (90, 220), "meal": (0, 5), "plasma": (0, 10)}, steps=48, period=300.0,
    state_scale=[40, 5e-3, 15, 600], objective_scale=[500, 0.2], rest=[0],
)


@glucose.ode(substeps=2, span=5.0)  # minutes
def _(s, c, u):
    return (
        -(P1 + s.remote) * s.glucose + P1 * BASAL + c.meal,
        -P2 * s.remote + P3 * s.plasma,
        -CLEARANCE * s.plasma + DEPOT * s.depot / VOLUME,
        -DEPOT * s.depot + u.insulin,
    )


@glucose.memory
def _(c):
    return {"meal": c.meal * np.exp(-5 * MEAL)}  # of a period


@glucose.objectives(glucose="(mg/dL)²", insulin="1")
def _(u, n):
    return 1e-2 * (n.glucose - TARGET) ** 2, (u.insulin / 60) ** 2


@glucose.margins(low="mg/dL")
def _(n):
    return n.glucose - LEAST


@glucose.escape(steps=18)
def _():
    return 0.0


if __name__ == "__main__":
    run.main(glucose)
